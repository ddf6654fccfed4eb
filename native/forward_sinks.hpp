// What is kept of the posteriors of a backward pass (ALG-FB): expectations of runs, and every step
//
//     expected steps = A o sum over t of alpha_t (l_{t+1} o beta_{t+1})^T
//
// Lanes are those of forward_form.hpp. Limited by multiply-adds, in tiles of sums that stay in
// registers.
#pragma once
#include "forward_form.hpp"

namespace mercer {

template <class F>
struct Sums {
  using N = typename F::N;
  static constexpr int G = F::G;
  const ForwardArguments& a;
  const F form;
  N* products;      // state before, state after
  Doubles* counts;  // symbol, state: of few symbols

  void take(Scratch& scratch) {
    scratch.give(form.n * form.size(), products), scratch.give(F::FEW * form.size(), counts);
  }
  void begin(const Group<F>& group) {
    for (int64_t k = 0; k < form.states() * form.size(); ++k) products[k] = Numbers<N>::zero();
    for (int64_t k = 0; k < F::FEW * form.size(); ++k) counts[k] = Doubles{};
    for (int64_t lane = 0; lane < group.count && a.symbols.given(); ++lane)
      memset(a.symbols.at(group.run[lane]), 0,
             size_t(form.n * a.symbols.shape[2]) * sizeof(double));
  }

  template <int R, int C>
  MERCER_INLINE void tile(const Group<F>& group, int64_t i, int64_t k, int64_t time,
                          int64_t steps) {
    const int64_t size = form.size();
    const N *alpha = group.alpha + time * size, *ahead = group.ahead + (time + 1) * size + k * G;
    N* to = products + i * size + k * G;
    for (int g = 0; g < G; ++g) {
      N sum[R][C];
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) sum[r][c] = to[r * size + c * G + g];
      for (int64_t t = 0; t < steps; ++t) {
        N weight[R];
        for (int r = 0; r < R; ++r) weight[r] = form.factor(alpha + t * size, i + r, g);
        for (int c = 0; c < C; ++c) {
          N value = ahead[t * size + c * G + g];
          for (int r = 0; r < R; ++r) multiply_add(sum[r][c], weight[r], value);
        }
      }
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) to[r * size + c * G + g] = sum[r][c];
    }
  }
  MERCER_INLINE void add_products(const Group<F>& group, int64_t time, int64_t steps) {
    constexpr int R = F::RANGED ? 1 : REGISTERS >= 32 || F::MOST < 4 ? 4 : 2;
    in_parts < F::MOST<4 ? F::MOST : 4>(
                   form.vectors(),
                   [&]<int C>(int64_t k) MERCER_LAMBDA {
                     in_parts<R>(form.states(), [&]<int H>(int64_t i) MERCER_LAMBDA {
                       tile<H, C>(group, i, k, time, steps);
                     });
                   });
  }

  // Add the posteriors of the observations that are symbol c.
  MERCER_INLINE void count(const Group<F>& group, int64_t c, int64_t time, int64_t observed) {
    in_parts<F::MOST>(form.vectors(), [&]<int C>(int64_t first) MERCER_LAMBDA {
      for (int g = 0; g < G; ++g) {
        Doubles sum[C], *to = counts + c * form.size() + first * G + g;
        for (int k = 0; k < C; ++k) sum[k] = to[k * G];
        for (int64_t t = 0; t < observed; ++t) {
          const Doubles* gamma = group.gamma + t * form.size() + first * G + g;
          auto mine = group.seen[(time + t) * G + g] == c;
          for (int k = 0; k < C; ++k) sum[k] += mine ? gamma[k * G] : Doubles{};
        }
        for (int k = 0; k < C; ++k) to[k * G] = sum[k];
      }
    });
  }
  void block(const Group<F>& group, int64_t time, int64_t observed, int64_t steps) {
    add_products(group, time, steps);
    for (int64_t c = 0; c < group.top && a.symbols.given(); ++c) count(group, c, time, observed);
    const bool one_by_one = a.symbols.given() && group.top == 0;
    if (!a.states.given() && !one_by_one) return;
    const int64_t n = form.states();
    for (int64_t lane = 0; lane < group.count; ++lane) {
      const int64_t left = group.length[lane] - time, t_end = left < observed ? left : observed;
      for (int64_t t = 0; t < t_end; ++t) {
        const int64_t at = group.start[lane] + time + t, row = t * form.size() * WIDTH;
        auto posterior = [&](int64_t j) MERCER_LAMBDA {
          return Numbers<Doubles>::entry(group.gamma, row + F::place(j, lane));
        };
        if (double* to = a.states.given() ? a.states.at(at) : nullptr)
          for (int64_t j = 0; j < n; ++j) to[j] = posterior(j);
        for (int64_t j = 0; j < n && one_by_one; ++j)
          a.symbols(group.run[lane], j, a.codes(at)) += posterior(j);
      }
    }
  }

  void end(const Group<F>& group, const N* forth) {
    const int64_t n = form.states(), size = form.size();
    if (F::RANGED && !a.ratios)
      for (int64_t k = 0; k < n * size; ++k) products[k] = products[k] * forth[k];
    for (int64_t lane = 0; lane < group.count; ++lane) {
      const int64_t run = group.run[lane];
      const double* exact = a.transition.at(group.model[lane]);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t place = F::place(i, lane);
        a.visits(run, i) = Numbers<Doubles>::entry(group.visits, place);
        a.first(run, i) = a.ratios ? Numbers<N>::entry(group.ahead, place)
                                   : Numbers<Doubles>::entry(group.gamma, place);
        for (int64_t c = 0; c < group.top && a.symbols.given(); ++c)
          a.symbols(run, i, c) = Numbers<Doubles>::entry(counts + c * size, place);
        for (int64_t j = 0; j < n; ++j) {
          double sum = Numbers<N>::entry(products + i * size, F::place(j, lane));
          a.transitions(run, i, j) = F::RANGED ? sum : sum * exact[i * n + j];
        }
      }
    }
  }
};

// The posteriors of steps from an observation of a block to the next one.
template <class F>
void write_steps(const ForwardArguments& a, const F& form, const Group<F>& group,
                 const typename F::N* forth, int64_t time, int64_t steps) {
  using Numbers_ = Numbers<typename F::N>;
  const int64_t n = form.states(), size = form.size();
  for (int64_t lane = 0; lane < group.count; ++lane) {
    const double* exact = a.transition.at(group.model[lane]);
    for (int64_t t = time; t < time + steps && t + 1 < group.length[lane]; ++t) {
      const auto *alpha = group.alpha + t * size, *ahead = group.ahead + (t + 1) * size;
      double* to = a.steps.at(group.start[lane] + t + 1);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          const int64_t before = F::place(i, lane), after = F::place(j, lane);
          if constexpr (F::RANGED)
            to[i * n + j] = plain(Numbers_::repeated(alpha, before) *
                                  Numbers_::repeated(forth + i * size, after) *
                                  Numbers_::repeated(ahead, after))[0];
          else
            to[i * n + j] =
                Numbers_::entry(alpha, before) * exact[i * n + j] * Numbers_::entry(ahead, after);
        }
    }
  }
}

}  // namespace mercer
