// What is kept of the posteriors of a backward pass: expectations of runs, and steps by the symbols
// at their two ends (MK-7, second order).
//
// Both add up products of forward weights with the weights `ahead`; transitions are multiplied by
// them at the end. Limited by multiply-adds, in tiles of sums that stay in registers.
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

// Sums of the products of steps, by cells of a run. A cell is n rows of states.
template <class F>
struct Cells {
  using N = typename F::N;
  using Row = Form<N, 0, 1, true>;
  const ForwardArguments& a;
  const F form;
  int64_t line = Row{form.n}.size();  // vectors of a row of states
  N *sums, *rows;                     // cells of all lanes; the weights ahead of a block, as rows
  N* of[F::RUNS + 1];                 // first cell of each lane

  void take(const Group<F>& group, Scratch& scratch) {
    int64_t cells = 0;
    for (int64_t lane = 0; lane < group.count; ++lane)
      cells += a.ends(group.run[lane] + 1) - a.ends(group.run[lane]);
    scratch.give(cells * form.n * line, sums), scratch.give(BLOCK * F::RUNS * line, rows);
  }
  void begin(const Group<F>& group) {
    for (int64_t k = 0; k < BLOCK * F::RUNS * line; ++k) rows[k] = Numbers<N>::zero();
    of[0] = sums;
    for (int64_t lane = 0; lane < group.count; ++lane) {
      const int64_t cells = a.ends(group.run[lane] + 1) - a.ends(group.run[lane]);
      of[lane + 1] = of[lane] + cells * form.n * line;
    }
    for (N* sum = sums; sum < of[group.count]; ++sum) *sum = Numbers<N>::zero();
  }
  void block(const Group<F>& group, int64_t time, int64_t steps) {
    const int64_t n = form.states(), size = form.size(), width = line;
    for (int64_t lane = 0; lane < group.count; ++lane) {
      const int64_t left = group.length[lane] - 1 - time, t_end = left < steps ? left : steps;
      for (int64_t t = 0; !F::ROW && t < t_end; ++t) {  // lanes become rows
        const N* ahead = group.ahead + (time + t + 1) * size;
        N* row = rows + (t * F::RUNS + lane) * width;
        for (int64_t j = 0; j < n; ++j)
          Numbers<N>::write(row, j, Numbers<N>::entry(ahead, F::place(j, lane)));
      }
      for (int64_t t = 0; t < t_end; ++t) {
        const N* alpha = group.alpha + (time + t) * size;
        const N* row =
            F::ROW ? group.ahead + (time + t + 1) * size : rows + (t * F::RUNS + lane) * width;
        N* cell = of[lane] + a.cell(group.start[lane] + time + t + 1) * n * width;
        in_parts<2>(width, [&]<int C>(int64_t first) MERCER_LAMBDA {
          N values[C];
          for (int c = 0; c < C; ++c) values[c] = row[first + c];
          for (int64_t i = 0; i < n; ++i) {
            N weight = Numbers<N>::repeated(alpha, F::place(i, lane));
            for (int c = 0; c < C; ++c)
              multiply_add(cell[i * width + first + c], weight, values[c]);
          }
        });
      }
    }
  }
  void end(const Group<F>& group, const N* forth) {
    const int64_t n = form.states();
    for (int64_t lane = 0; lane < group.count; ++lane) {
      const int64_t run = group.run[lane], steps = group.length[lane] - 1;
      const double share = 1.0 / double(steps > 1 ? steps : 1);
      const double* exact = a.transition.at(group.model[lane]);
      N* cell = of[lane];
      for (int64_t c = a.ends(run); c < a.ends(run + 1); ++c, cell += n * line)
        for (int64_t i = 0; i < n; ++i) {
          if (F::RANGED)
            for (int64_t k = 0; k < line; ++k)
              cell[i * line + k] = cell[i * line + k] * forth[i * line + k];
          for (int64_t j = 0; j < n; ++j) {
            double sum = Numbers<N>::entry(cell + i * line, j);
            a.steps(c, i, j) = sum * (F::RANGED ? share : exact[i * n + j] * share);
          }
        }
    }
  }
};

}  // namespace mercer
