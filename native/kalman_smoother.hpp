// The Kalman smoother (ALG-RTS) and the sums that scores and EM take (FK-10).
//
// It needs no inverse of a covariance of the state. With the surprise e of a step it carries a
// vector r and a matrix N backwards,
//
//     r <- C' V^-1 e + L' r,    N <- C' V^-1 C + L' N L,
//
// the gradient and the negative curvature of the log probability in the predicted state. With the
// filtered mean m and M = A F, the smoothed mean is m + M' r and the smoothed covariance F - M' N
// M, and scores of all parameters need no inverse of a noise covariance, which may be singular. N
// does not depend on the observations; once it does not change any more, only r goes on, and steps
// with one record are a stretch, as in the filter. Sums over time go on from step to step, so that
// their digits do not depend on where stretches end. Lanes and limits are those of the filter. Of a
// series that is longer than a block, blocks are filtered again on the way back, so memory stays
// bounded. Along regime paths every step has a record, and its sums go to its regime at once.
#pragma once
#include "kalman.hpp"

namespace mercer {

// Sums over time of a group of lanes.
struct KalmanSums {
  Cursor& memory;
  int64_t n, d, begin = memory.used;
  Lanes* cross = memory.take((d + 2 * n) * (n + 1));         // u, r and mean with mean and one
  Lanes *hq = memory.take(n * n), *hr = memory.take(d * d);  // r r', u u'
  // Moments of steps without an observation, or a successor.
  Lanes *more_s = memory.take(n * (n + 1)), *more_o = memory.take(n * (n + 1));
  // N, N M and shares of scores: in the order of `Smoother`.
  Lanes *curve = memory.take(n * n), *nm = memory.take(n * n), *dc = memory.take(d * n);
  Lanes* noise = memory.take(d * d);
  // Smoothed covariances.
  Lanes *sc = memory.take(n * n), *more_sc_s = memory.take(n * n), *more_sc_o = memory.take(n * n);
  int64_t size = memory.used - begin;
};

struct Smoother : Filter {
  int64_t blocks;
  Lanes *back = memory.take(n), *curve = memory.take(n * n);  // r, N
  // N M, and shares of the scores; after N.
  Lanes *nm = memory.take(n * n), *dc_part = memory.take(d * n), *noise_part = memory.take(d * d);
  Lanes *next_mean = memory.take(n), *next_curve = memory.take(n * n), *eye = memory.take(d * d);
  Lanes *sc = memory.take(n * n), *next_sc = memory.take(n * n), *root = memory.take(n * n);
  Lanes *root_inverse = memory.take(n), *jt = memory.take(n * n), *nc = memory.take(n * n);
  Lanes* stack = memory.take(d + 2 * n);
  Lanes* going = memory.take(1);  // one in lanes with a successor
  KalmanSums sums{memory, n, d};
  Lanes* starts = memory.take(blocks * start_size(n));  // of blocks

  void set_up() {
    *going = all(1.0);
    for (int64_t k = 0; k < d * d; ++k) eye[k] = all(k % (d + 1) == 0 ? 1.0 : 0.0);
    for (int64_t s = -1; s <= block; ++s) rows[s * row + row - 1] = all(1.0);
  }

  // ---- covariances

  // Smooth the covariance of a step, and its shares of the scores. Returns lanes that lost digits.
  Marks back_covariance(const StepRecord& r, int64_t s, bool gap) {
    const Matrix m{r.moved, n, 1}, nm_{nm, n, 1}, k{r.kt, n, 1}, share{noise_part, d, 1};
    const Matrix inverse{update.v, d, 1}, kn{update.t2, n, 1}, big{curve, n, 1};
    add_product(nm_, ZEROS, big, m, {n, n, n});
    subtract_symmetric({sc, n, 1}, {r.filtered, n, 1}, m.transposed(), nm_, {n, n});
    // of the emission: G' (I - A' N A F); of its noise: V^-1 + K' N K
    subtract_product({dc_part, n, 1}, {r.gain, n, 1}, k, nm_, {d, n, n});
    solve_lower(inverse, {eye, d, 1}, {r.lower, d, 1}, r.inverse, d, d);
    add_symmetric(share, ZEROS, inverse.transposed(), inverse, {d, d});
    for (int64_t i = 0; gap && i < d * d; ++i) noise_part[i] *= seen[s * d + i / d];
    add_product(kn, ZEROS, k, big, {d, n, n});
    add_symmetric(share, share, kn, k.transposed(), {d, n});
    return canceled(sc, r.filtered, n);
  }

  // Take N back to the predicted state of this step. Returns whether no lane changes.
  bool back_curve(const StepRecord& r, Lanes* emission) {
    const Matrix white{update.t2, n, 1}, half{update.t1, n, 1}, loop{r.loop, n, 1};
    const Matrix out{next_curve, n, 1};
    solve_lower(white, {emission, n, 1}, {r.lower, d, 1}, r.inverse, d, n);
    add_symmetric(out, ZEROS, white.transposed(), white, {n, d});
    add_product(half, ZEROS, {curve, n, 1}, loop, {n, n, n});
    add_symmetric(out, out, loop.transposed(), half, {n, n});
    return !any(~keep_converged(next_curve, curve, n));
  }

  // Smooth a covariance in Joseph's form, a sum of squares, in the given lanes. With J = F A' P^-1
  // and the smoothed covariance W of the next state it is (I - J A) F (I - J A)' + J (W + Q) J'.
  // Lanes at their end, or with a singular prediction, stay as they are: their marks are removed.
  // Returns whether no marked lane changes.
  bool smooth_carefully(const StepRecord& r, Marks& lost) {
    const Matrix low{root, n, 1}, j{jt, n, 1}, half{update.t1, n, 1}, rest{update.t3, n, 1};
    system.predict(nc, r.moved);
    cholesky(low, root_inverse, {nc, n, 1}, n);
    solve_lower(j, {r.moved, n, 1}, low, root_inverse, n, n);
    solve_upper(j, j, low, root_inverse, n, n);  // J', since P is symmetric
    subtract_product(rest, ZEROS, j.transposed(), {system.transition, n, 1}, {n, n, n});
    for (int64_t i = 0; i < n; ++i) rest(i, i) += all(1.0);
    add_product(half, ZEROS, rest, {r.filtered, n, 1}, {n, n, n});
    add_symmetric(low, ZEROS, half, rest.transposed(), {n, n});
    for (int64_t k = 0; k < n * n; ++k) update.t3[k] = next_sc[k] + system.process[k];
    add_product(half, ZEROS, rest, j, {n, n, n});
    add_symmetric(low, low, j.transposed(), half, {n, n});
    lost = lost & (all(0.0) < *going);
    for (int64_t k = 0; k < n * n; ++k) lost = lost & (root[k] == root[k]);
    const Marks kept = keep_converged(root, next_sc, n);
    for (int64_t k = 0; k < n * n; ++k) sc[k] = choose(lost, root[k], sc[k]);
    return !any(lost & ~kept);
  }

  // ---- means

  // Smooth the means of a stretch, from its last step s; u and r of its steps.
  void smooth_means(int64_t s, int64_t steps, Lanes* emission, bool careful, Marks lost) {
    const StepRecord own = record(s);
    const Matrix u{rows + s * row, -row, 1}, r = u.from(0, d), m = r.from(0, n);
    const Matrix e{observed + s * d, -d, 1};
    solve_upper(u.transposed(), e.transposed(), {own.lower, d, 1}, own.inverse, d, steps);
    add_product(r.from(1, 0), ZEROS, u, {emission, n, 1}, {steps, d, n});
    chain(r, {own.loop, n, 1}, n, steps);
    subtract_product(u, u, r, {own.kt, 1, n}, {steps, n, d});
    if (!careful) return add_product(m, m, r, {own.moved, n, 1}, {steps, n, n});
    for (int64_t k = 0; k < steps; ++k) {  // m + J (next smoothed - next predicted)
      const Matrix here = m.from(k, 0), away{update.t1, n, 1}, other{update.t3, n, 1};
      system.predict_mean(update.t1, here.data);
      for (int64_t i = 0; i < n; ++i) away(0, i) = m(k - 1, i) - away(0, i);
      add_product(other, here, away, {jt, n, 1}, {1, n, n});
      add_product(here, here, r.from(k, 0), {own.moved, n, 1}, {1, n, n});
      for (int64_t i = 0; i < n; ++i) here(0, i) = choose(lost, other(0, i), here(0, i));
    }
  }

  // Add steps from s down to the sums of means; all have a successor and an observation.
  void add_means(int64_t s, int64_t steps) {
    if (steps == 0) return;
    const Matrix u{rows + s * row, -row, 1}, r = u.from(0, d), m = r.from(0, n);
    const Matrix cross{sums.cross, n + 1, 1}, hq{sums.hq, n, 1}, hr{sums.hr, d, 1};
    add_product(cross, cross, u.transposed(), m, {d + 2 * n, steps, n + 1});
    add_product(hq, hq, r.transposed(), r, {n, steps, n});
    add_product(hr, hr, u.transposed(), u, {d, steps, d});
  }

  // Add a step in which a lane ends, or has seen nothing; `part` is one where it has.
  void add_weighted(int64_t s, Lanes part) {
    const Matrix u{rows + s * row, row, 1}, r = u.from(0, d), m = r.from(0, n);
    const Matrix cross{sums.cross, n + 1, 1}, hq{sums.hq, n, 1}, hr{sums.hr, d, 1};
    const Matrix own{stack, 1, 1};
    const Lanes both = part * *going;
    copy(stack, u.data, d + n);
    for (int64_t i = 0; i < n; ++i) stack[d + n + i] = m(0, i) * both;
    add_product(cross, cross, own, m, {d + 2 * n, 1, n + 1});
    add_product(hq, hq, r.transposed(), r, {n, 1, n});
    add_product(hr, hr, u.transposed(), u, {d, 1, d});
    for (int64_t k = 0; k < n * n; ++k) sums.sc[k] += sc[k] * both;
    auto add_more = [&](Lanes weight, Lanes* moments, Lanes* spreads) {
      const Matrix to{moments, n + 1, 1};
      for (int64_t i = 0; i < n; ++i) stack[i] = m(0, i) * weight;
      add_product(to, to, own, m, {n, 1, n + 1});
      for (int64_t k = 0; k < n * n; ++k) spreads[k] += sc[k] * weight;
    };
    add_more(*going - both, sums.more_s, sums.more_sc_s);
    add_more(part - both, sums.more_o, sums.more_sc_o);
    add_times(sums.curve, curve, 2 * n * n + d * n + d * d, 1);
  }

  // Add a step of paths to the sums of its regime, and of the regime that comes next.
  void add_along(int64_t s, bool gap) {
    const SeriesGroup& group = progress->group;
    Lanes *u = rows + s * row, *r = u + d, *m = r + n;
    const struct {
      bool next;
      Lanes *left, *right, *spread;
      double sign;
      int64_t rows, width, columns;
    } parts[] = {
        {false, u, m, dc_part, -1.0, d, n + 1, n}, {true, r, m, nm, -1.0, n, n + 1, n},
        {true, r, r, curve, -1.0, n, n, n},        {false, u, u, noise_part, -1.0, d, d, d},
        {true, m, m, sc, 1.0, n, n + 1, n},        {false, m, m, sc, 1.0, n, n + 1, n}};
    for (int lane = 0; lane < group.count; ++lane) {
      const int64_t run = group.run[lane], left = group.length[lane] - begin() - s;
      const int64_t* path = a.path.at(a.path_start(run) + begin() + s);
      if (left <= 0) continue;
      int64_t at = 0;
      for (const auto& part : parts) {
        const int64_t size = part.rows * part.width;
        at += size;
        const bool nothing = part.next ? left == 1 : gap && lane_of(some[s], lane) == 0.0;
        if (nothing) continue;
        double* to = a.sums.at(run * a.regimes + path[part.next] % a.regimes) + at - size;
        for (int64_t i = 0; i < part.rows; ++i)
          for (int64_t j = 0; j < part.width; ++j, ++to) {
            *to += lane_of(part.left[i], lane) * lane_of(part.right[j], lane);
            if (j < part.columns)
              *to += part.sign * lane_of(part.spread[i * part.columns + j], lane);
          }
      }
    }
  }

  // ---- many steps

  // Start the way back of series whose last step is s.
  void end_runs(int64_t begin, int64_t s) {
    const SeriesGroup& group = progress->group;
    for (int lane = 0; lane < LANES; ++lane) {
      if (begin + s + 1 != group.length[lane]) continue;
      lane_of(*going, lane) = 0.0;
      for (int64_t k = 0; k < n; ++k) lane_of(rows[s * row + d + k], lane) = 0.0;
      for (int64_t k = 0; k < n * n; ++k) lane_of(curve[k], lane) = 0.0;
      for (int64_t k = 0; k < sums.size; ++k) lane_of(sums.cross[k], lane) = 0.0;
    }
  }

  // Write smoothed states; the covariance of the next state and this one is (I - P N) A F.
  void write_smoothed(int64_t begin, int64_t s, const StepRecord& own) {
    const SeriesGroup& group = progress->group;
    system.predict(nc, own.moved);
    subtract_product({update.t3, n, 1}, {own.moved, n, 1}, {nc, n, 1}, {nm, n, 1}, {n, n, n});
    for (int lane = 0; lane < group.count; ++lane) {
      const int64_t place = a.place(group.run[lane]) + begin + s,
                    left = group.length[lane] - begin - s;
      if (left > 0) read_lane(a.means.at(place), mean_of(s), lane, n);
      if (left > 0) read_lane(a.covariances.at(place), sc, lane, n * n);
      if (left > 1) read_lane(a.lags.at(place), update.t3, lane, n * n);
    }
  }

  // Smooth a block of steps that was filtered before.
  void backward() {
    const SeriesGroup& group = progress->group;
    const int64_t begin = this->begin(), end = this->end();
    const bool paths = a.path.given();
    int64_t s = end - begin - 1, ending = group.previous_end(end), last = -1;
    int64_t waiting = s;  // means from here down are not in the sums yet
    bool steady = false, careful = false;
    Marks lost{};
    Lanes* const own_sc = sc;
    copy(rows + s * row + d, back, n);
    copy(mean_of(s + 1), next_mean, n);
    for (int64_t first; s >= 0; s = first - 1) {
      const StepRecord own = record(s);
      const bool gap = gaps[s], ended = begin + s + 1 == ending;
      if (ended) {
        add_means(waiting, waiting - s), waiting = s;
        end_runs(begin, s);
        ending = group.previous_end(begin + s);
      }
      if (paths) load_moves(s), load_emissions(s);
      if (gap) scale_emission(s);
      Lanes* emission = gap ? seen_emission : system.emission;
      const bool weighted = paths || ended || (gap && any(some[s] == all(0.0)));
      const bool fresh = paths || ended || gap || !steady || which[s] != last;
      first = s;
      if (fresh) {
        Lanes* swap = sc;
        sc = next_sc, next_sc = swap;
        lost = back_covariance(own, s, gap);
        careful = any(lost);
        steady = !careful || smooth_carefully(own, lost);
      } else {
        while (first > 0 && first > ending - begin && which[first - 1] == last && !gaps[first - 1])
          --first;
      }
      const int64_t steps = s - first + 1;
      smooth_means(s, steps, emission, careful, lost);
      if (weighted) {
        add_means(waiting, waiting - s), waiting = s - 1;
        paths ? add_along(s, gap) : add_weighted(s, gap ? some[s] : all(1.0));
      } else {
        add_times(sums.curve, curve, 2 * n * n + d * n + d * d, steps);
        add_times(sums.sc, sc, n * n, steps);
      }
      for (int64_t k = first; a.means.given() && k <= s; ++k) write_smoothed(begin, k, own);
      last = which[s];
      if (!fresh) continue;
      steady = back_curve(own, emission) && steady && !ended && !gap;
      copy(curve, next_curve, n * n);
      if (ended) *going = all(1.0);
    }
    add_means(waiting, waiting + 1);
    copy(back, rows - row + d, n);
    copy(next_mean, mean_of(0), n);
    if (sc == own_sc) return;
    copy(own_sc, sc, n * n);
    next_sc = sc, sc = own_sc;
  }

  // ---- blocks

  void begin_block() { copy(starts + progress->block * start_size(n), mean, start_size(n)); }
  void back_block() {
    const SeriesGroup& group = progress->group;
    if (!progress->backward) fill(back, 0.0, n + n * n);
    progress->backward = 1;
    --progress->block;
    if (end() < group.longest) {
      copy(mean, starts + progress->block * start_size(n), start_size(n));
      forward(0, true);
    }
    backward();
  }

  // Join the sums of means and covariances of a series.
  void write_sums(int lane) {
    const int64_t run = progress->group.run[lane], width = n + 1;
    const bool empty = progress->group.length[lane] == 0;
    for (int64_t k = 0; k < n + n * n; ++k)
      a.gradients(run, k) = empty ? 0.0 : lane_of(back[k], lane);
    if (a.path.given()) return;
    double* to = a.sums.at(run);
    auto put = [&](double value) { *to++ = empty ? 0.0 : value; };
    auto of = [&](Lanes* part, int64_t k) { return lane_of(part[k], lane); };
    for (int64_t i = 0; i < d + n; ++i)
      for (int64_t j = 0; j < width; ++j) {
        const double less = j == n  ? 0.0
                            : i < d ? of(sums.dc, i * n + j)
                                    : of(sums.nm, (i - d) * n + j);
        put(of(sums.cross, i * width + j) - less);
      }
    for (int64_t k = 0; k < n * n; ++k) put(of(sums.hq, k) - of(sums.curve, k));
    for (int64_t k = 0; k < d * d; ++k) put(of(sums.hr, k) - of(sums.noise, k));
    auto moments = [&](Lanes* more, Lanes* spreads) {
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < width; ++j) {
          const int64_t k = i * n + j, at = i * width + j;
          const double spread = j < n ? of(sums.sc, k) + of(spreads, k) : 0.0;
          put(of(sums.cross, (d + n) * width + at) + of(more, at) + spread);
        }
    };
    moments(sums.more_s, sums.more_sc_s), moments(sums.more_o, sums.more_sc_o);
  }
};

// ---- calls

struct KalmanRoomArguments {
  int64_t n;
  int64_t d;
  int64_t block;
  int64_t blocks;  // of the longest series
  int64_t smooth;
};

inline int64_t kalman_room(const KalmanRoomArguments& a) {
  const KalmanArguments none{};
  Cursor memory{nullptr};
  if (a.smooth)
    Smoother{{none, memory, a.n, a.d, a.block, true}, a.blocks};
  else
    Filter{none, memory, a.n, a.d, a.block, false};
  return (memory.used + 1) * LANES;  // one to begin at a multiple of its size
}

// All blocks of all groups, as far as one call takes them.
inline int64_t kalman_groups(Filter& filter, Smoother* smoother) {
  const KalmanArguments& a = filter.a;
  Progress& at = *filter.progress;
  const double size = double(filter.n + filter.d + 2), cost = size * size * size * double(a.block);
  for (double spent = 0.0; spent < a.limit; spent += cost) {
    const int64_t blocks = (at.group.longest + a.block - 1) / a.block;
    if (!at.backward && at.block < blocks) {
      if (smoother) smoother->begin_block();
      filter.forward_block(smoother || a.means.given());
    } else if (smoother && at.block > 0) {
      smoother->back_block();
    } else {
      for (int lane = 0; smoother && lane < at.group.count; ++lane) smoother->write_sums(lane);
      if (blocks > 1) at.known = 0;
      if (at.next == a.order.shape[0]) return DONE;
      filter.begin_group();
    }
  }
  return MORE;
}

inline int64_t kalman(const KalmanArguments& a) {
  const int64_t n = a.systems.emission.shape[2], d = a.systems.emission.shape[1],
                entry = sizeof(Lanes);
  const int64_t place = reinterpret_cast<int64_t>(a.memory.data);
  Cursor memory{reinterpret_cast<Lanes*>((place + entry - 1) / entry * entry)};
  auto run = [&](Filter& filter, Smoother* smoother) {
    if (!a.resumed) {
      *filter.progress = {};
      filter.progress->group.model = -1;
      memset(filter.zeros, 0, size_t(a.block * d) * sizeof(double));
      if (smoother) smoother->set_up();
    }
    return kalman_groups(filter, smoother);
  };
  if (a.sums.given()) {
    Smoother smoother{{a, memory, n, d, a.block, true}, 0};  // the starts of blocks lie at the end
    return run(smoother, &smoother);
  }
  Filter filter{a, memory, n, d, a.block, false};
  return run(filter, nullptr);
}

}  // namespace mercer
