// The most probable states of runs (ALG-FB with a maximum for the sum: Viterbi), in logarithms.
//
//     m_1 = log pi + log l_1,    m_t(j) = max over i of (m_{t-1}(i) + log A(i, j)) + log l_t(j)
//
// Lanes are states of one run. Limited by the latency of one comparison per state before.
#pragma once
#include "view.hpp"

namespace mercer {

struct PathArguments {
  View<const double, 2> log_initial;      // N n
  View<const double, 3> log_transition;   // N n n
  View<const double, 2> log_density;      // T n; or null
  View<const int64_t, 1> codes;           // T: symbols; or null
  View<const double, 3> log_probability;  // N k n
  View<const int64_t, 1> start;           // S: first observation of every run
  View<const int64_t, 1> length;          // S
  View<const int64_t, 1> model;           // S
  View<const int64_t, 1> order;           // R: runs that are not empty
  int64_t begin;                          // first and last of the order
  int64_t end;
  View<int32_t, 1> path;  // T: the states; ties go to the lowest
  View<double, 1> value;  // S: log probability of observations and states
};

// Log transitions of one model, padded to whole vectors with -inf.
inline void load_steps(Doubles* steps, const double* log_transition, int64_t n, int64_t vectors) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < vectors; ++k) {
      const int64_t left = n - k * WIDTH;
      Doubles x = load_some<Doubles>(log_transition + i * n + k * WIDTH, left);
      for (int lane = int(left < WIDTH ? left : WIDTH); lane < WIDTH; ++lane) x[lane] = -INFINITY;
      steps[i * vectors + k] = x;
    }
}

inline int64_t best_paths(const PathArguments& a) {
  using Halves = Vec<int32_t, WIDTH>;
  const int64_t n = a.log_initial.shape[1], vectors = (n + WIDTH - 1) / WIDTH;
  int64_t longest = 0, known = -1;
  for (int64_t r = a.begin; r < a.end; ++r)
    longest = a.length(a.order(r)) > longest ? a.length(a.order(r)) : longest;
  Scratch scratch(2 * Scratch::room<Doubles>(vectors) + Scratch::room<Doubles>(n * vectors) +
                  Scratch::room<Halves>(longest * vectors));
  if (scratch.failed()) return OUT_OF_MEMORY;
  Doubles *best = scratch.take<Doubles>(vectors), *next = scratch.take<Doubles>(vectors);
  Doubles* steps = scratch.take<Doubles>(n * vectors);
  Halves* came = scratch.take<Halves>(longest * vectors);
  for (int64_t r = a.begin; r < a.end; ++r) {
    const int64_t run = a.order(r), model = a.model(run), start = a.start(run);
    if (model != known) load_steps(steps, a.log_transition.at(model), n, vectors);
    known = model;
    Words defined = ~Words{};
    for (int64_t t = 0; t < a.length(run); ++t) {
      const double* table = a.codes.given() ? a.log_probability.at(model, a.codes(start + t))
                                            : a.log_density.at(start + t);
      const double* before = reinterpret_cast<const double*>(best);
      for (int64_t k = 0; k < vectors; ++k) {
        const int64_t left = n - k * WIDTH;
        Doubles log = load_some<Doubles>(table + k * WIDTH, left), top;
        defined &= log < INFINITY;
        Words from{};
        if (t == 0) {
          top = load_some<Doubles>(a.log_initial.at(model) + k * WIDTH, left);
          for (int lane = int(left < WIDTH ? left : WIDTH); lane < WIDTH; ++lane)
            top[lane] = -INFINITY;
        } else {
          double weight;
          memcpy(&weight, before, sizeof weight);
          top = weight + steps[k];
          for (int64_t i = 1; i < n; ++i) {
            memcpy(&weight, before + i, sizeof weight);
            const Doubles other = weight + steps[i * vectors + k];
            auto better = other > top;
            top = better ? other : top;
            from = better ? Words{} + i : from;
          }
        }
        next[k] = top + log;
        came[t * vectors + k] = __builtin_convertvector(from, Halves);
      }
      Doubles* swap = best;
      best = next, next = swap;
    }
    if (any(~defined)) return 1 + run;
    int64_t state = 0;
    for (int64_t j = 1; j < n; ++j)
      if (best[j / WIDTH][j % WIDTH] > best[state / WIDTH][state % WIDTH]) state = j;
    a.value(run) = best[state / WIDTH][state % WIDTH];
    for (int64_t t = a.length(run) - 1; t >= 0; --t) {
      a.path(start + t) = int32_t(state);
      state = came[t * vectors + state / WIDTH][state % WIDTH];
    }
  }
  return DONE;
}

}  // namespace mercer
