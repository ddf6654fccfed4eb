// The most probable states of runs (ALG-FB with a maximum for the sum: Viterbi), in logarithms.
//
//     m_1 = log pi + log l_1,    m_t(j) = max over i of (m_{t-1}(i) + log A(i, j)) + log l_t(j)
//
// Lanes are states of one run. Limited by the latency of one comparison per state before.
#pragma once
#include "forward_form.hpp"

namespace mercer {

struct PathArguments : Runs {
  View<int32_t, 1> path;  // [T] the states; ties go to the lowest
  View<double, 1> value;  // [S] log probability of observations and states
};

// Logarithms of the states of a vector, -inf after the last one.
MERCER_INLINE Doubles padded(const double* from, int64_t left) {
  Doubles x = load_some<Doubles>(from, left);
  for (int lane = int(minimum(left, int64_t(WIDTH))); lane < WIDTH; ++lane) x[lane] = -INFINITY;
  return x;
}

inline int64_t best_paths(const PathArguments& a) {
  using Halves = Vec<int32_t, WIDTH>;
  const int64_t n = a.initial.shape[1], vectors = (n + WIDTH - 1) / WIDTH;
  int64_t longest = 0, known = -1;
  for (int64_t r = a.begin; r < a.end; ++r) longest = maximum(a.length(a.order(r)), longest);
  Scratch scratch;
  Doubles *best, *next, *steps;
  Halves* came;
  if (!scratch.lay_out([&] {
        scratch.give(vectors, best, next), scratch.give(n * vectors, steps);
        scratch.give(longest * vectors, came);
      }))
    return OUT_OF_MEMORY;
  for (int64_t r = a.begin; r < a.end; ++r) {
    const int64_t run = a.order(r), model = a.model(run), start = a.start(run);
    for (int64_t k = 0; model != known && k < n * vectors; ++k) {
      const int64_t first = k % vectors * WIDTH;
      steps[k] = padded(a.transition.at(model, k / vectors) + first, n - first);
    }
    known = model;
    Words defined = ~Words{};
    for (int64_t t = 0; t < a.length(run); ++t) {
      const double* table = a.values(model, start + t);
      const double* before = reinterpret_cast<const double*>(best);
      for (int64_t k = 0; k < vectors; ++k) {
        const int64_t left = n - k * WIDTH;
        Doubles log = load_some<Doubles>(table + k * WIDTH, left), top;
        defined &= log < INFINITY;
        Words from{};
        if (t == 0) {
          top = padded(a.initial.at(model) + k * WIDTH, left);
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
      exchange(best, next);
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
