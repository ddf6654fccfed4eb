// Forward and backward recursions (ALG-FB) over runs: stretches of observations under one model.
//
//     alpha_1 = pi o l_1,    alpha_t = (alpha_{t-1} A) o l_t,    p = sum of alpha_T
//     beta_T = 1 / p,        beta_t = A (l_{t+1} o beta_{t+1}),  gamma_t = alpha_t o beta_t
//
// The likelihoods l_t enter in Pass::evidence: log densities of any emission, or symbols, which are
// looked up. Expectations are added up in forward_sinks.hpp; lanes are those of forward_form.hpp.
// Limited by the latency of a step for few states, by loads of transitions for more.
//
// In plain numbers, alpha_t is divided by its sum c_t, and densities by that of the best state.
// Positive numbers never become zero: probabilities, relative densities and weights below FLOOR are
// raised to it, so that zero means impossible and all results are upper bounds. A weight that was
// raised at t was at most FLOOR after the division by c_t, or before it, so the paths through it
// add at most FLOOR beta_t / c_t to a total of 1. Where this ratio stays below `trusted` at all
// reachable states, the error is below FLOOR trusted T n: 1e-19 for a million. Other runs are
// repeated in numbers of unlimited range, which are slower and always right.
#pragma once
#include "forward_sinks.hpp"

namespace mercer {

constexpr double FLOOR = 1e-100, LOG_FLOOR = -230.25850929940457;
constexpr int64_t LANE_STATES = 20;         // a run with more states fills the lanes alone
constexpr int64_t GROUP_NUMBERS = 8000000;  // so does one whose group would store more weights

template <class T>
MERCER_INLINE T raised(T x) {  // zero and NaN stay
  return (x > 0.0) & (x < FLOOR) ? FLOOR + T{} : x;
}

// Sums and extremes of the runs in the lanes of a group.
template <int G>
struct Record {
  Doubles product[G], exponent[G];  // product of the sums c_t: times 2^exponent
  Doubles shift[G], error[G];       // log densities of the best states, and what rounding lost
  Doubles least[G], low[G];         // smallest sum and positive weight before its division
  Doubles top[G];                   // largest beta_t / c_t
  Doubles length[G];
};

template <class F>
class Pass : Group<F> {
  using N = typename F::N;
  using Numbers_ = Numbers<N>;
  static constexpr int G = F::G, RUNS = F::RUNS;
  static constexpr bool RANGED = F::RANGED;
  using Careful = Form<RangedDoubles, 0, 1, true>;
  using Group<F>::count, Group<F>::longest, Group<F>::start, Group<F>::length, Group<F>::model,
      Group<F>::run, Group<F>::top, Group<F>::alpha, Group<F>::ahead, Group<F>::predicted,
      Group<F>::inverse, Group<F>::seen, Group<F>::gamma, Group<F>::visits;

  const ForwardArguments& a;
  const F form;
  Scratch scratch, memory;  // of models; of the observations of a group
  N *initial, *forth, *back, *row, *tables;
  Sums<F> sums{a, form, nullptr, nullptr};
  Record<G> record;
  N total;              // ranged: the probability
  int64_t known[RUNS];  // models that are in the lanes
  double lowest[RUNS];  // their smallest transition
  bool changed[RUNS];   // whether a probability of theirs was raised

 public:
  bool enough;  // whether there is memory
  Pass(const ForwardArguments& a_, int64_t n) : a(a_), form{n} {
    const int64_t size = form.size(), matrix = n * size;
    enough = scratch.lay_out([&] {
      scratch.give(size, initial, row, visits), scratch.give(F::FEW * size, tables);
      scratch.give(matrix, forth, back), scratch.give(BLOCK * size, gamma);
      sums.take(scratch);
    });
    for (int64_t k = 0; enough && k < size; ++k) initial[k] = Numbers_::zero();
    for (int64_t k = 0; enough && k < matrix; ++k) forth[k] = back[k] = Numbers_::zero();
    for (int lane = 0; lane < RUNS; ++lane) known[lane] = -1;
  }

  // Process the first `count_` of some runs, at most RUNS, the longest first.
  int64_t process(const int64_t* runs, int64_t count_) {
    count = count_, longest = a.length(runs[0]);
    for (int64_t lane = 0; lane < RUNS; ++lane) {
      run[lane] = runs[lane < count ? lane : 0];
      start[lane] = a.start(run[lane]), model[lane] = a.model(run[lane]);
      length[lane] = lane < count ? a.length(run[lane]) : 0;
      load_model(lane);
    }
    const bool wanted = a.first.given() || a.steps.given();
    if (int64_t status = sweep(wanted)) return status;
    if constexpr (RANGED) return DONE;
    bool again = false;
    for (int64_t lane = 0; lane < count && !wanted; ++lane)
      again |= in_range(lane) && !bounded(lane);
    if (again)  // bounds are those of a backward pass
      if (int64_t status = sweep(true)) return status;
    for (int64_t lane = 0; lane < count; ++lane) {
      a.log_prob(run[lane]) = log_probability(lane);
      if (in_range(lane) && ((!wanted && bounded(lane)) || highest(lane) <= a.trusted)) continue;
      Pass<Careful> careful(a, form.n);
      if (!careful.enough) return OUT_OF_MEMORY;
      if (int64_t status = careful.process(run + lane, 1)) return status;
    }
    return DONE;
  }

 private:
  // ---- models and records

  void load_model(int64_t lane) {
    const int64_t size = form.size();
    if (model[lane] == known[lane]) return;
    known[lane] = model[lane], lowest[lane] = 1.0, changed[lane] = false;
    auto put = [&](N* to, int64_t state, double x) {
      changed[lane] |= x > 0.0 && x < FLOOR;
      Numbers_::write(to, F::place(state, lane), RANGED ? x : raised(x));
    };
    const int64_t n = form.n;
    for (int64_t i = 0; i < n; ++i) {
      put(initial, i, a.initial(known[lane], i));
      for (int64_t j = 0; j < n; ++j) {
        const double x = a.transition(known[lane], i, j);
        put(forth + i * size, j, x), put(back + j * size, i, x);
        lowest[lane] = x < lowest[lane] ? x : lowest[lane];
      }
    }
  }
  // Results of a lane; for a single run, extremes are those of all lanes.
  double of(const Doubles* line, int64_t lane) const { return Numbers<Doubles>::entry(line, lane); }
  double extreme(const Doubles* line, int64_t lane, double sign) const {
    double found = of(line, lane);
    for (int k = 1; F::ROW && k < WIDTH; ++k)
      found = sign * of(line, k) <= sign * found ? of(line, k) : found;
    return found;
  }
  bool in_range(int64_t lane) const { return of(record.least, lane) >= 1 / a.trusted; }
  double highest(int64_t lane) const { return extreme(record.top, lane, -1.0); }
  // Nothing was raised, or all transitions are possible and bound the ratio of backward weights.
  // The bound is twice the floor because sums and quotients were rounded.
  bool bounded(int64_t lane) const {
    const double ratio = 1 / lowest[lane] / of(record.least, lane);
    return (extreme(record.low, lane, 1.0) >= 2 * FLOOR && !changed[lane]) || ratio <= a.trusted;
  }
  double log_probability(int64_t lane) const {
    double small = log(of(record.product, lane)) + of(record.exponent, lane) * LOG_2;
    return of(record.shift, lane) + (small + of(record.error, lane));
  }

  // ---- evidence

  // Arrange symbols in lanes; if there are few of them, their probabilities too.
  void note_symbols() {
    const int64_t size = form.size();
    top = 0;
    if (F::FEW == 0 || !a.codes.given()) return;
    for (int64_t lane = 0; lane < RUNS; ++lane)
      for (int64_t t = 0; t < longest; ++t) {
        int64_t code = t < length[lane] ? a.codes(start[lane] + t) : -1;
        memcpy(reinterpret_cast<char*>(seen) + (t * RUNS + lane) * sizeof code, &code, sizeof code);
        top = code >= top ? code + 1 : top;
      }
    top = top <= F::FEW ? top : 0;
    for (int64_t lane = 0; lane < RUNS; ++lane)
      for (int64_t c = 0; c < top; ++c)
        for (int64_t j = 0; j < form.n; ++j)
          Numbers_::write(tables + c * size, F::place(j, lane),
                          raised(a.probability(model[lane], c, j)));
  }
  MERCER_INLINE void look_up(N* to, int64_t t) {
    const int64_t size = form.size();
    in_parts<F::MOST>(form.vectors(), [&]<int C>(int64_t first) MERCER_LAMBDA {
      for (int g = 0; g < G; ++g) {
        Doubles found[C]{};
        const Words code = seen[t * G + g];
        for (int64_t c = 0; c < top; ++c) {
          const Doubles* table = tables + c * size + first * G + g;
          auto mine = code == c;
          for (int k = 0; k < C; ++k) found[k] = mine ? table[k * G] : found[k];
        }
        for (int k = 0; k < C; ++k) to[(first + k) * G + g] = found[k];
      }
    });
  }
  MERCER_INLINE const double* values(int64_t lane, int64_t t) const {
    return a.values(model[lane], start[lane] + t);
  }
  // Write the likelihoods of the observations from `begin` to `end`; `to` is the row of the first.
  // Returns whether all of them are defined.
  bool evidence(N* to, int64_t begin, int64_t end) {
    const int64_t size = form.size();
    const bool logs = !a.codes.given();
    const double nothing = logs ? -INFINITY : 0.0;
    Words defined = ~Words{};
    if constexpr (F::ROW) {
      Doubles padding{};
      for (int k = 0; k < WIDTH; ++k)
        if ((form.vectors() - 1) * WIDTH + k >= form.n) padding[k] = nothing;
      for (int64_t t = begin; t < end; ++t, to += size)
        for (int64_t k = 0; k < size; ++k) {
          Doubles x = load_some<Doubles>(values(0, t) + k * WIDTH, form.n - k * WIDTH);
          x = k == size - 1 ? x + padding : x;
          defined &= x < INFINITY;
          if (RANGED) x = x < INFINITY ? x : Doubles{};  // has no exponent, and is reported
          if constexpr (RANGED)
            to[k] = logs ? from_log(x) : Numbers_::of(x);
          else
            to[k] = logs ? x : raised(x);
        }
    } else if (top > 0) {
      for (int64_t t = begin; t < end; ++t, to += size) look_up(to, t);
    } else {
      const int64_t n = form.states();  // not read again after every store
      for (int64_t lane = 0; lane < RUNS; ++lane) {
        const int64_t last = length[lane] < end ? length[lane] : end;
        for (int64_t t = begin; t < end; ++t) {
          const double* from = t < last ? values(lane, t) : &nothing;
          N* line = to + (t - begin) * size;
          for (int64_t j = 0; j < n; ++j, from += t < last)
            Numbers_::write(line, F::place(j, lane), logs ? *from : raised(*from));
        }
      }
    }
    return !any(~defined);
  }
  // Convert log densities to densities relative to the best state.
  MERCER_INLINE void weigh(Doubles* logs) {
    const int64_t size = form.size();
    for (int g = 0; g < G; ++g) {
      Doubles best =
          form.combined(logs, g, [](auto x, auto y) MERCER_LAMBDA { return x > y ? x : y; });
      best = best == -INFINITY ? Doubles{} : best;
      for (int64_t k = g; k < size; k += G) {
        Doubles relative = logs[k] - best;
        Doubles value = exponential(maximum(relative, spread<Doubles>(LOG_FLOOR)));
        value = relative == -INFINITY ? Doubles{} : value;
        logs[k] = relative == relative ? value : relative;  // NaN stays
      }
      // Compensated summation: rounding errors add up over a hundred thousand steps.
      const Doubles before = record.shift[g], after = before + best, share = after - before;
      record.error[g] += (before - (after - share)) + (best - share);
      record.shift[g] = after;
    }
  }

  // ---- steps

  // Divide the weights of a new observation by their sum, and record it.
  MERCER_INLINE void arrive(N* to, const N* weights, int64_t t, Doubles* factor) {
    const int64_t size = form.size();
    if constexpr (RANGED) {
      for (int64_t k = 0; k < size; ++k) to[k] = weights[k];
      return;
    } else {
      for (int g = 0; g < G; ++g) {
        Doubles sum = form.combined(weights, g, [](auto x, auto y) MERCER_LAMBDA { return x + y; });
        // A run that has ended has zero weight, and stays at zero.
        Doubles scale = sum <= 0.0 ? Doubles{} : 1.0 / sum, low = record.low[g];
        for (int64_t k = g; k < size; k += G) {
          Doubles weight = weights[k], value = maximum(spread<Doubles>(FLOOR), weight * scale);
          to[k] = weight <= 0.0 ? Doubles{} : value;
          low = minimum(weight > 0.0 ? weight : spread<Doubles>(1.0), low);
        }
        record.low[g] = low, factor[g] = scale;
        auto running = record.length[g] > double(t);
        record.product[g] *= running ? sum : spread<Doubles>(1.0);
        auto less = running & ~(sum >= record.least[g]);  // or NaN
        record.least[g] = less ? sum : record.least[g];
      }
    }
  }
  // Move the exponent of the product of the sums to its own number.
  MERCER_INLINE void settle() {
    for (int g = 0; g < G; ++g) {
      Doubles exponent;
      split(record.product[g], record.product[g], exponent);
      record.exponent[g] += exponent;
    }
  }
  bool forward(bool whole) {
    const int64_t size = form.size();
    N local[F::LOCAL], *weights = F::LOCAL > 1 ? local : row;
    bool defined = true;
    for (int64_t block = 0; block < longest; block += BLOCK) {
      const int64_t skip = whole ? 0 : block;  // a block overwrites the one before it
      const int64_t end = block + BLOCK < longest ? block + BLOCK : longest;
      // The whole block first: loads of vectors wait for stores of their numbers one by one.
      defined &= evidence(ahead + (block - skip) * size, block, end);
      if constexpr (!RANGED)
        for (int64_t t = block; t < end && !a.codes.given(); ++t) weigh(ahead + (t - skip) * size);
      for (int64_t t = block; t < end; ++t) {
        const int64_t at = t - skip, before = at > 0 ? at - 1 : BLOCK - 1;
        const N* here = ahead + at * size;
        N* expected = RANGED && a.ratios ? predicted + at * size : weights;
        if (t > 0)
          form.product(expected, alpha + before * size, forth, RANGED ? nullptr : here);
        else
          for (int64_t k = 0; k < size; ++k)
            expected[k] = RANGED ? initial[k] : initial[k] * here[k];
        for (int64_t k = 0; RANGED && k < size; ++k) weights[k] = expected[k] * here[k];
        arrive(alpha + at * size, weights, t, inverse + at * G);
        if (!RANGED && t % 4 == 3) settle();
      }
    }
    return defined;
  }
  // Replace the likelihoods at t by those times beta_t / c_t; keep the posteriors.
  MERCER_INLINE void backward(int64_t t) {
    const int64_t size = form.size();
    N local[F::LOCAL], *beta = F::LOCAL > 1 ? local : row, *here = ahead + t * size;
    Doubles* posterior = gamma + t % BLOCK * size;
    if constexpr (RANGED) {
      const N* left = (a.ratios ? predicted : alpha) + t * size;
      const N last = tidy<Doubles>(1.0 / total.value, -total.power);
      if (t + 1 < longest) form.product(beta, here + size, back, nullptr);
      for (int64_t k = 0; k < size; ++k) {
        const N value = t + 1 < longest ? beta[k] : last;
        visits[k] += posterior[k] = plain(left[k] * value);
        here[k] = here[k] * value;
      }
    } else {
      form.product(beta, here + size, back, nullptr);
      const Doubles* weights = alpha + t * size;
      for (int g = 0; g < G; ++g) {
        const Doubles scale = inverse[t * G + g];
        const auto last = record.length[g] == double(t + 1);
        Doubles high = record.top[g];
        for (int64_t k = g; k < size; k += G) {
          Doubles value = maximum(spread<Doubles>(FLOOR), beta[k]);
          value = beta[k] <= 0.0 ? Doubles{} : value;
          value = last ? spread<Doubles>(1.0) : value;
          value = weights[k] > 0.0 ? value : Doubles{};  // unreachable: may be infinite
          visits[k] += posterior[k] = weights[k] * value;
          value = value * scale;
          high = maximum(value, high);
          here[k] = here[k] * value;
        }
        record.top[g] = high;
      }
    }
  }
  void all_backward() {
    const int64_t size = form.size();
    const bool expected = a.first.given();
    for (int64_t k = 0; k < size; ++k)
      ahead[longest * size + k] = Numbers_::zero(), visits[k] = Doubles{};
    if (expected) sums.begin(*this);
    for (int64_t t = longest - 1; t >= 0; --t) {
      backward(t);
      if (t % BLOCK) continue;
      const int64_t left = longest - t, observed = left < BLOCK ? left : BLOCK;
      const int64_t steps = left - 1 < BLOCK ? left - 1 : BLOCK;
      if (expected) sums.block(*this, t, observed, steps);
      if (a.steps.given()) write_steps(a, form, *this, forth, t, steps);
    }
    if (expected) sums.end(*this, forth);
  }
  // Both passes, or only the forward one, which keeps one block.
  int64_t sweep(bool whole) {
    const int64_t size = form.size();
    const int64_t kept = whole ? longest + 1 : BLOCK, ratios = a.ratios ? kept : 0;
    const bool enough_for_all = memory.lay_out([&] {
      memory.give(kept * size, alpha, ahead), memory.give(ratios * size, predicted);
      memory.give(kept * G, inverse), memory.give(longest * G, seen);
    });
    if (!enough_for_all) return OUT_OF_MEMORY;
    for (int g = 0; g < G; ++g) {
      record.product[g] = record.least[g] = record.low[g] = spread<Doubles>(1.0);
      record.exponent[g] = record.shift[g] = record.error[g] = record.top[g] = Doubles{};
      for (int lane = 0; lane < WIDTH; ++lane)
        record.length[g][lane] = double(length[F::ROW ? 0 : g * WIDTH + lane]);
    }
    note_symbols();
    const bool defined = forward(whole);
    if constexpr (RANGED) {
      if (!defined) return 1 + run[0];
      total = Numbers_::zero();
      const N* last = alpha + (whole ? longest - 1 : (longest - 1) % BLOCK) * size;
      for (int64_t j = 0; j < form.n; ++j) total = total + Numbers_::repeated(last, j);
      a.log_prob(run[0]) = log_of(total, 0);
      if (total.value[0] == 0.0) {
        a.log_prob(run[0]) = -INFINITY;
        total = {Doubles{} + INFINITY, Words{}};  // its posteriors are zero
      }
    }
    if (whole) all_backward();
    if (!RANGED) settle();
    return DONE;
  }
};

// Process the runs of a piece: side by side where that pays, else one by one.
template <class Lanes, class Row>
int64_t forward_runs(const ForwardArguments& a) {
  const int64_t n = a.initial.shape[1], lanes = Lanes::RUNS;
  const bool whole = a.first.given() || a.steps.given();
  Pass<Lanes> together(a, n);
  Pass<Row> alone(a, n);
  if (!together.enough || !alone.enough) return OUT_OF_MEMORY;
  for (int64_t at = a.begin; at < a.end; at += lanes) {
    const int64_t count = a.end - at < lanes ? a.end - at : lanes, *runs = a.order.at(at);
    int64_t sum = 0, longest = a.length(runs[0]), status = DONE;
    for (int64_t k = 0; k < count; ++k) sum += a.length(runs[k]);
    // A group takes as long as its longest run.
    bool pays = double(sum) >= double(lanes * longest) * (0.3 + double(n) / 48) && n <= LANE_STATES;
    if (!a.ratios && pays && (!whole || longest * n * lanes * 2 <= GROUP_NUMBERS))
      status = together.process(runs, count);
    else
      for (int64_t k = 0; k < count && !status; ++k) status = alone.process(runs + k, 1);
    if (status) return status;
  }
  return DONE;
}

}  // namespace mercer
