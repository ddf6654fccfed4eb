// The Kalman filter (ALG-KF) over many series.
//
// Lanes are series, each with its own system. Covariances do not depend on the observations; what
// one step has of them is a StepRecord. It is computed once where it is the same: after the
// covariance has converged, until the next gap, and in all groups of lanes of one system, up to
// their first gap. Steps with one record are a stretch: only the mean goes on, m <- b + K (x - d) +
// L m, with the gain K = A P C' V^-1 and L = A - K C, and all else are products with a row per
// step. A covariance that has converged in a lane stays as it is there, whatever the others do.
// Where systems change along regime paths, every step has a record of its own. Limited by calls and
// loads of small products, and by bringing observations into lanes.
#pragma once
#include "kalman_step.hpp"

namespace mercer {

struct KalmanArguments {
  Systems systems;
  View<const double, 2> x;                  // [T d] NaN is missing
  View<const int64_t, 1> start;             // [S] the first observation of each series
  View<const int64_t, 1> length;            // [S]
  View<const int64_t, 1> model;             // [S] system, of the first step if there are paths
  View<const int64_t, 1> place;             // [S] where the states of a series are written
  View<const int64_t, 1> parent;            // [S]? the state in `before` that a series goes on from
  View<const double, 2> before_mean;        // [B n]? filtered states
  View<const double, 3> before_covariance;  // [B n n]?
  View<const int64_t, 1> path;              // [W]? the system of every step of all series
  View<const int64_t, 1> path_start;        // [S]?
  int64_t regimes;                          // systems per model, if there are paths
  View<const int64_t, 1> order;  // [O] the series of this call; groups of lanes take them in order
  int64_t by_model;              // whether a group has series of one system only
  int64_t block;                 // steps whose records are kept
  int64_t resumed;               // whether an earlier call with this memory returned MORE
  double limit;                  // multiply-adds of lanes after which a call returns MORE
  View<double, 1> memory;        // [M] as many numbers as kalman_room says
  View<double, 1> log_prob;      // [S]
  View<double, 2> means;         // [C n]? filtered, or smoothed if sums are given
  View<double, 3> covariances;   // [C n n]?
  View<double, 3> lags;          // [C n n]? covariance of the next state and this one
  View<double, 2> sums;          // [R w]? R: S or S regimes; w = (d + 3 n)(n + 1) + n n + d d
  View<double, 2> gradients;     // [S g]? g = n + n n: r and N of the first predicted state
};

// The series of a group of lanes; a lane without one has length zero.
struct SeriesGroup {
  int64_t count, model, longest;  // model -1: several
  int64_t run[LANES], start[LANES], length[LANES], system[LANES];

  int64_t next_end(int64_t t) const {  // the smallest length above t
    int64_t found = INT64_MAX;
    for (int lane = 0; lane < LANES; ++lane)
      if (length[lane] > t && length[lane] < found) found = length[lane];
    return found;
  }
  int64_t previous_end(int64_t t) const {  // the largest length up to t
    int64_t found = 0;
    for (int lane = 0; lane < LANES; ++lane)
      if (length[lane] <= t && length[lane] > found) found = length[lane];
    return found;
  }
};

// What outlasts a call that is resumed.
struct Progress {
  SeriesGroup group;
  int64_t next;      // position in the order
  int64_t block;     // of the group
  int64_t backward;  // whether the smoother is on its way back
  int64_t known;     // records that hold for the next group of the same system
};

// One vector of the numbers at place k of several arrays.
template <class V>
MERCER_INLINE V gathered(const double* const* p, int64_t k) {
  if constexpr (lanes_of<V> == 8)
    return V{p[0][k], p[1][k], p[2][k], p[3][k], p[4][k], p[5][k], p[6][k], p[7][k]};
  else if constexpr (lanes_of<V> == 4)
    return V{p[0][k], p[1][k], p[2][k], p[3][k]};
  else
    return V{p[0][k], p[1][k]};
}

struct Filter {
  const KalmanArguments& a;
  Cursor& memory;
  int64_t n, d, block;
  bool smooth;
  int64_t row = smooth ? d + 2 * n + 1 : n;  // entries of a step in `rows`; u, r, mean and a one
  Progress* progress = memory.take_as<Progress>(1);
  System system{memory, n, d, n};
  Update update{memory, n, d};
  Lanes *seen_emission = memory.take(d * n), *seen_noise = memory.take(d * d);  // with gaps
  // What a block of steps starts from.
  Lanes *mean = memory.take(n), *covariance = memory.take(n * n);
  Density density{memory, d};
  // One for every step: its record, and whether a coordinate is missing.
  int64_t *which = memory.take_as<int64_t>(block), *gaps = memory.take_as<int64_t>(block);
  double* zeros = memory.take_as<double>(block * d);
  Lanes* records = memory.take(block * StepRecord::size(n, d));
  Lanes* before = memory.take(row);  // takes the r of the first step of a block
  Lanes *rows = memory.take((block + 1) * row), *observed = memory.take(block * d);
  Lanes *seen = memory.take(block * d), *some = memory.take(block);

  static int64_t start_size(int64_t n) { return n + n * n + 4; }
  StepRecord record(int64_t s) const {
    return {{records + which[s] * StepRecord::size(n, d)}, n, d};
  }
  Lanes* mean_of(int64_t s) const { return rows + s * row + (smooth ? d + n : 0); }

  // ---- groups and observations

  void load_systems(const SeriesGroup& group) {
    for (int lane = 0; lane < LANES; ++lane) {
      const int64_t i = group.system[lane];
      system.put_move(lane, a.systems, i), system.put_emission(lane, a.systems, i);
      if (!a.parent.given()) system.put_start(lane, a.systems, i);
    }
  }

  // Along paths: the systems that observe step s of a block, and those that lead to the next step.
  template <class Put>
  void along(int64_t t, Put put) {
    const SeriesGroup& group = progress->group;
    for (int lane = 0; lane < LANES; ++lane)
      if (t < group.length[lane]) put(lane, a.path(a.path_start(group.run[lane]) + t));
  }
  void load_emissions(int64_t s) {
    along(begin() + s, [&](int lane, int64_t i) { system.put_emission(lane, a.systems, i); });
  }
  void load_moves(int64_t s) {
    along(begin() + s + 1, [&](int lane, int64_t i) { system.put_move(lane, a.systems, i); });
  }

  // Take the next series of the order, and start before their first observations.
  void begin_group() {
    SeriesGroup& group = progress->group;
    const int64_t before = group.model, total = a.order.shape[0];
    const int64_t* order = a.order.data + progress->next;
    group.count = 0, group.longest = 0, group.model = a.model(order[0]);
    for (int lane = 0; lane < LANES; ++lane) {
      const bool more = lane == group.count && progress->next + lane < total &&
                        !(a.by_model && a.model(order[lane]) != a.model(order[0]));
      const int64_t run = more ? order[lane] : order[0];
      group.count += more;
      group.run[lane] = run, group.start[lane] = a.start(run);
      group.length[lane] = more ? a.length(run) : 0, group.system[lane] = a.model(run);
      if (group.length[lane] > group.longest) group.longest = group.length[lane];
      if (group.system[lane] != group.model) group.model = -1;
      a.log_prob(run) = 0.0;
    }
    if (a.path.given() || a.parent.given()) group.model = -1;  // covariances of their own
    progress->next += group.count, progress->block = 0, progress->backward = 0;
    if (group.model < 0 || group.model != before) load_systems(group), progress->known = 0;
    if (a.parent.given())
      begin_after(group);
    else
      copy(mean, system.mean, n), copy(covariance, system.covariance, n * n);
    density.begin();
  }
  // Predict the first states from those before.
  void begin_after(const SeriesGroup& group) {
    for (int lane = 0; lane < LANES; ++lane) {
      const int64_t state = a.parent(group.run[lane]);
      put_lane(rows, lane, a.before_mean.at(state), n);
      put_lane(update.t1, lane, a.before_covariance.at(state), n * n);
    }
    system.predict_mean(mean, rows);
    system.move(update.t3, update.t1);
    system.predict(covariance, update.t3);
  }

  // Bring observations less their offset into lanes; those of series that have ended are zeros.
  void observe(int64_t begin, int64_t end) {
    const SeriesGroup& group = progress->group;
    const int64_t d = this->d;
    if (a.path.given()) fill(system.observation_offset, 0.0, d);  // differs from step to step
    for (int64_t t = begin, stop; t < end; t = stop) {
      stop = group.next_end(t) < end ? group.next_end(t) : end;
      const double* from[LANES];
      for (int lane = 0; lane < LANES; ++lane)
        from[lane] = t < group.length[lane] ? a.x.at(group.start[lane] + t) : zeros;
      Lanes* to = observed + (t - begin) * d;
      const Lanes* offset = system.observation_offset;
      Marks whole = all(0.0) == all(0.0);
      for (int64_t s = 0, k = 0; s < stop - t; ++s)
        for (int64_t i = 0; i < d; ++i, ++k) {
          to[k] = Lanes{gathered<Doubles>(from, k), gathered<Doubles>(from + WIDTH, k)} - offset[i];
          whole = whole & (to[k] == to[k]);
        }
      const bool some_gaps = any(~whole);
      for (int64_t s = 0; s < stop - t; ++s) {
        Marks missing{};
        for (int64_t i = 0; some_gaps && i < d; ++i)
          missing = missing | ~(to[s * d + i] == to[s * d + i]);
        gaps[t - begin + s] = some_gaps && any(missing);
      }
    }
  }

  // Take the coordinates that were not seen in a step out of it, and out of emission and noise.
  void leave_out(int64_t s) {
    Lanes *value = observed + s * d, *mark = seen + s * d;
    Lanes count = all(0.0);
    for (int64_t i = 0; i < d; ++i) {
      const Marks known = value[i] == value[i];
      mark[i] = choose(known, all(1.0), all(0.0)), value[i] = choose(known, value[i], all(0.0));
      count += mark[i];
    }
    some[s] = choose(all(0.0) < count, all(1.0), all(0.0));
    *density.missing += all(double(d)) - count;
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < d; ++j) {
        const Marks both = all(0.0) < mark[i] * mark[j];
        seen_noise[i * d + j] = choose(both, system.noise[i * d + j], all(i == j ? 1.0 : 0.0));
      }
    scale_emission(s);
  }
  void scale_emission(int64_t s) {
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < n; ++j)
        seen_emission[i * n + j] = system.emission[i * n + j] * seen[s * d + i];
  }

  // ---- steps

  // Predict the next covariance; returns whether it is that of the record in all lanes.
  bool next_covariance(Lanes* out, const StepRecord& before) {
    system.predict(out, before.moved);
    return !any(~keep_converged(out, before.predicted, n));
  }

  // Whether nothing comes after a step, nor takes its record.
  bool ends(int64_t s) const {
    const SeriesGroup& group = progress->group;
    return !smooth && group.model < 0 && begin() + s + 1 == group.longest;
  }

  // Find the record of a step, an earlier one where covariances have converged. Returns whether
  // they have.
  bool find_record(int64_t s, bool steady, bool gap) {
    which[s] = s;
    const StepRecord own = record(s);
    if (!steady && s == 0) copy(own.predicted, covariance, n * n);
    if (!steady && s > 0)
      steady =
          next_covariance(own.predicted, record(s - 1)) && !gap && !gaps[s - 1] && !a.path.given();
    if (steady) {
      which[s] = which[s - 1];
      return true;
    }
    if (a.path.given()) load_moves(s);
    Lanes* emission = gap ? seen_emission : system.emission;
    update.condition(own, emission, gap ? seen_noise : system.noise);
    if (ends(s)) return false;
    const Matrix gain{own.gain, n, 1}, k{own.kt, n, 1}, transition{system.transition, n, 1};
    solve_upper(gain, {own.z, n, 1}, {own.lower, d, 1}, own.inverse, d, n);
    add_product(k, ZEROS, gain, transition.transposed(), {d, n, n});
    subtract_product({own.loop, n, 1}, transition, k.transposed(), {emission, n, 1}, {n, d, n});
    system.move(own.moved, own.filtered);
    return false;
  }

  // Filter a stretch: predict the means of its steps and the one behind, and take its density down.
  void filter_means(int64_t s, int64_t steps, Lanes* emission, bool filtered) {
    const StepRecord own = record(s);
    const Matrix m{mean_of(s), row, 1}, e{observed + s * d, d, 1};
    if (!ends(s)) {
      add_product(m.from(1, 0), {system.state_offset, 0, 1}, e, {own.kt, n, 1}, {steps, d, n});
      chain(m, {own.loop, 1, n}, n, steps);
    }
    subtract_product(e, e, m, {emission, 1, n}, {steps, n, d});
    solve_lower(e.transposed(), e.transposed(), {own.lower, d, 1}, own.inverse, d, steps);
    density.add_steps(own, e.data, steps);
    if (filtered) add_product(m, m, e, {own.z, n, 1}, {steps, d, n});
  }

  int64_t begin() const { return progress->block * block; }
  int64_t end() const {
    const int64_t next = begin() + block, longest = progress->group.longest;
    return next < longest ? next : longest;
  }

  // Filter a block of steps. The first `known` records hold already; returns how many of them hold
  // after any steps without gaps.
  int64_t forward(int64_t known, bool filtered) {
    const SeriesGroup& group = progress->group;
    const int64_t begin = this->begin(), end = this->end(), count = end - begin;
    observe(begin, end);
    copy(mean_of(0), mean, n);
    bool steady = false;
    for (int64_t s = 0, stop, last = 0; s < count; s = stop) {
      const bool gap = gaps[s];
      if (a.path.given()) {
        load_emissions(s);
        for (int64_t i = 0; i < d; ++i) observed[s * d + i] -= system.observation_offset[i];
      }
      if (gap) leave_out(s), known = known < s ? known : s, steady = false;
      if (s >= known) {
        steady = find_record(s, steady, gap);
        if (s == known && !gap) known = s + 1;
      }
      if (s >= last) last = group.next_end(begin + s) - begin;
      if (last > count) last = count;
      for (stop = s + 1; !gap && stop < last && !gaps[stop]; ++stop) {
        if (stop < known && which[stop] != which[s]) break;
        if (stop >= known && !steady) break;
        which[stop] = which[s];
        if (stop == known) known = stop + 1;
      }
      filter_means(s, stop - s, gap ? seen_emission : system.emission, filtered);
      for (int lane = 0; lane < group.count; ++lane)
        if (begin + stop == group.length[lane])
          a.log_prob(group.run[lane]) = density.log(lane, group.length[lane] * d);
      if (a.means.given() && !a.sums.given()) write_states(begin, s, stop);
    }
    copy(mean, mean_of(count), n);
    if (end < group.longest) next_covariance(covariance, record(count - 1));
    return known;
  }

  void forward_block(bool filtered) {
    progress->known = forward(progress->block ? 0 : progress->known, filtered);
    ++progress->block;
  }

  void write_states(int64_t begin, int64_t s, int64_t stop) {
    const SeriesGroup& group = progress->group;
    const StepRecord own = record(s);
    for (; s < stop; ++s)
      for (int lane = 0; lane < group.count; ++lane) {
        if (begin + s >= group.length[lane]) continue;
        const int64_t place = a.place(group.run[lane]) + begin + s;
        read_lane(a.means.at(place), mean_of(s), lane, n);
        read_lane(a.covariances.at(place), own.filtered, lane, n * n);
      }
  }
};

}  // namespace mercer
