// The most probable states of runs (ALG-FB with a maximum for the sum: Viterbi), in logarithms.
//
//     m_1 = log pi + log l_1,    m_t(j) = max over i of (m_{t-1}(i) + log A(i, j)) + log l_t(j)
//
// This is the forward step in numbers of type Best. Lanes are states of one run. Limited by the
// latency of one comparison per state before.
#pragma once
#include "forward_form.hpp"

namespace mercer {

struct PathArguments : Runs {
  View<int32_t, 1> path;  // [T] the states; ties go to the lowest
  View<double, 1> value;  // [S] log probability of observations and states
};

inline int64_t best_paths(const PathArguments& a) {
  using N = Best<Doubles>;
  const Form<N, 0, 1, true> form{a.initial.shape[1]};
  const int64_t n = form.n, size = form.size();
  int64_t longest = 0;
  for (int64_t r = a.begin; r < a.end; ++r) longest = maximum(a.length(a.order(r)), longest);
  Scratch scratch;
  N *initial, *steps, *likelihood, *rows;
  if (!scratch.lay_out([&] {
        scratch.give(size, initial, likelihood), scratch.give(n * size, steps);
        scratch.give(longest * size, rows);
      }))
    return OUT_OF_MEMORY;
  auto fill = [&](N* to, const double* from) {  // impossible after the last state
    for (int64_t j = 0; j < size * WIDTH; ++j)
      Numbers<N>::write(to, j, j < n ? from[j] : -INFINITY);
  };
  // The state with the largest sum of its entry in a row and of another logarithm.
  auto best_of = [&](const N* row, auto log) {
    int64_t best = 0;
    auto sum = [&](int64_t i) { return Numbers<N>::entry(row, i) + log(i); };
    for (int64_t i = 1; i < n; ++i) best = sum(i) > sum(best) ? i : best;
    return best;
  };
  for (int64_t r = a.begin, known = -1; r < a.end; ++r) {
    const int64_t run = a.order(r), model = a.model(run), start = a.start(run);
    const int64_t length = a.length(run);
    if (model != known) fill(initial, a.initial.at(model));
    for (int64_t i = 0; model != known && i < n; ++i)
      fill(steps + i * size, a.transition.at(model, i));
    known = model;
    Words defined = ~Words{};
    for (int64_t t = 0; t < length; ++t) {
      N* row = rows + t * size;
      fill(likelihood, a.values(model, start + t));
      for (int64_t k = 0; k < size; ++k) defined &= likelihood[k].log < INFINITY;
      if (t > 0)
        form.product(row, row - size, steps, likelihood);
      else
        for (int64_t k = 0; k < size; ++k) row[k] = initial[k] * likelihood[k];
    }
    if (any(~defined)) return 1 + run;
    int64_t state = best_of(rows + (length - 1) * size, [](int64_t) { return 0.0; });
    a.value(run) = Numbers<N>::entry(rows + (length - 1) * size, state);
    for (int64_t t = length - 1; t >= 0; --t) {
      a.path(start + t) = int32_t(state);
      if (t > 0)
        state = best_of(rows + (t - 1) * size,
                        [&](int64_t i) { return a.transition(model, i, state); });
    }
  }
  return DONE;
}

}  // namespace mercer
