// Coupled chains (PPK-4.2): the kernel of two hidden Markov models, one model of the left side with
// several of the right.
//
//     Phi_1 = (pi pi'^T) o psi,    Phi_{t+1} = (A^T Phi_t A') o psi,    k_L = sum of Phi_L
//
// Lanes are different models of the right side; the last one fills the lanes of the last group.
// Tables of pairs are [b][a], b a state of the right side. Limited by the multiply-adds of two
// products of small matrices per step; for fewer than six states by loads and by the loop itself,
// so up to four states are template parameters.
#pragma once
#include "product.hpp"
#include "view.hpp"

namespace mercer {

struct ChainModels {
  View<const double, 2> initial;     // [N n]
  View<const double, 3> transition;  // [N n n]

  int64_t count() const { return initial.shape[0]; }
  int64_t states() const { return initial.shape[1]; }
};
struct ChainArguments {
  ChainModels left;                 // [N=I]
  ChainModels right;                // [N=J n=m]
  View<const double, 3> weights_a;  // [I n k]? psi is their product, summed over k
  View<const double, 3> weights_b;  // [J m k]?
  View<const double, 2> psi;        // [I*n J*m]?
  View<const int64_t, 1> lengths;   // [H] strictly increasing
  int64_t block;                    // steps between two checks of the sums
  View<double, 3> log_value;        // [H I J] NaN where a sum left the range of floats, or is zero
};

constexpr double SMALLEST_SUM = 0x1p-511, LARGEST_SUM = 1e300;
constexpr double CALM = 1e50;  // sums between 1 / CALM and CALM are not rescaled

template <class N>
MERCER_INLINE N table_sum(const N* table, int64_t size) {  // four sums, of every fourth entry each
  N sum[4];
  for (int k = 0; k < 4; ++k) sum[k] = Numbers<N>::zero();
  int64_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (int k = 0; k < 4; ++k) sum[k] = sum[k] + table[i + k];
  for (int k = 0; i + k < size; ++k) sum[k] = sum[k] + table[i + k];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Scale a table whose sum is far from one by a power of two per lane; NaN marks underflow and
// overflow.
MERCER_INLINE void rescale(Doubles* table, int64_t size, Doubles& power) {
  Doubles sum = table_sum(table, size);
  if (!any(~((sum > 1 / CALM) & (sum < CALM)))) return;
  Doubles mantissa, exponent;
  split(sum, mantissa, exponent);
  auto sound = (sum >= SMALLEST_SUM) & (sum <= LARGEST_SUM);
  Doubles factor = sound ? scaled(spread<Doubles>(1.0), MAGIC - exponent) : spread<Doubles>(NAN);
  power += sound ? exponent : Doubles{};
  for (int64_t i = 0; i < size; ++i) table[i] *= factor;
}

// The step: new = psi o (A^T phi A'), by way of half = A' phi. S is the number of states of both
// sides, 0 for any.
template <int S, int R, int C, class N, class Left>
MERCER_INLINE void chain_step(N* next, N* half, const N* phi, const N* psi, Left left,
                              const N* right, int64_t n, int64_t m) {
  n = S ? S : n, m = S ? S : m;
  product<R, C>(half, (const N*)nullptr, m, n, m, right,
                [&](int64_t b, int64_t a) MERCER_LAMBDA { return phi[b * n + a]; });
  product<R, C>(next, psi, m, n, n, half, left);
}

// The models of the right side in the lanes of one group, and tables of one model with them.
struct ChainGroup {
  Scratch& scratch;
  int64_t n, m, size = n * m;
  Doubles *psi = scratch.take<Doubles>(size), *phi = scratch.take<Doubles>(size);
  Doubles *next = scratch.take<Doubles>(size), *half = scratch.take<Doubles>(size);
  Doubles *initial = scratch.take<Doubles>(m), *transposed = scratch.take<Doubles>(m * m);
  int64_t first = 0, columns = 0;

  int64_t member(int64_t lane) const { return minimum(first + lane, columns - 1); }
  void gather(const ChainModels& from, int64_t first_) {
    first = first_, columns = from.count();
    for (int lane = 0; lane < WIDTH; ++lane)
      for (int64_t b = 0; b < m; ++b) {
        initial[b][lane] = from.initial(member(lane), b);
        for (int64_t d = 0; d < m; ++d)
          transposed[d * m + b][lane] = from.transition(member(lane), b, d);
      }
  }
  void write(double* line, Doubles value) const {
    store_some(line + first, value, columns - first);
  }
};

// ---- emissions: each fills psi, the leaf kernels of model i with the models of a group. To add
// one: its views in ChainArguments, a struct like these, and a line in `chains`.

// Given leaf kernels of all pairs of states.
MERCER_INLINE void given_leaves(Doubles* table, View<const double, 2> psi, int64_t i,
                                const ChainGroup& group) {
  const int64_t n = group.n, m = group.m;
  for (int lane = 0; lane < WIDTH; ++lane)
    for (int64_t a = 0; a < n; ++a)
      for (int64_t b = 0; b < m; ++b)
        table[b * n + a][lane] = psi(i * n + a, group.member(lane) * m + b);
}

// Symbols: psi is the product of the weights of both models, summed over symbols.
struct SymbolLeaves {
  const ChainArguments& a;
  Scratch& scratch;
  int64_t m, k = a.weights_a.given() ? a.weights_a.shape[2] : 0;
  Doubles* shares = scratch.take<Doubles>(m * k);  // of a group: [b][symbol]

  void gather(const ChainGroup& group) const {
    for (int lane = 0; lane < WIDTH; ++lane)
      for (int64_t c = 0; c < m * k; ++c) shares[c][lane] = a.weights_b.at(group.member(lane))[c];
  }
  template <int R, int C>
  MERCER_INLINE void fill(Doubles* psi, int64_t i, int64_t n) const {
    const double* mine = a.weights_a.at(i);
    auto weight = [&](int64_t s, int64_t c)
                      MERCER_LAMBDA { return spread<Doubles>(mine[c * k + s]); };
    product<R, C>(psi, (const Doubles*)nullptr, m, n, k, shares, weight);
  }
};

template <int S, int R, int C>
int64_t chains(const ChainArguments& a) {
  const int64_t n = S ? S : a.left.states(), m = S ? S : a.right.states();
  Scratch scratch;
  ChainGroup{scratch, n, m}, SymbolLeaves{a, scratch, m};
  if (!scratch.allocate()) return OUT_OF_MEMORY;
  ChainGroup group{scratch, n, m};
  const SymbolLeaves symbols{a, scratch, m};
  for (int64_t first = 0; first < a.right.count(); first += WIDTH) {
    group.gather(a.right, first), symbols.gather(group);
    for (int64_t i = 0; i < a.left.count(); ++i) {
      const double* transition = a.left.transition.at(i);
      auto left = [&](int64_t c, int64_t d)
                      MERCER_LAMBDA { return spread<Doubles>(transition[c * n + d]); };
      if (symbols.k)
        symbols.template fill<R, C>(group.psi, i, n);
      else
        given_leaves(group.psi, a.psi, i, group);
      Doubles *phi = group.phi, *next = group.next, power{};
      for (int64_t b = 0; b < m; ++b)
        for (int64_t c = 0; c < n; ++c)
          phi[b * n + c] = group.psi[b * n + c] * (group.initial[b] * a.left.initial(i, c));
      for (int64_t h = 0, time = 1; h < a.lengths.shape[0]; ++h) {
        for (; time < a.lengths(h); ++time) {
          if (time % a.block == 0) rescale(phi, n * m, power);
          chain_step<S, R, C>(next, group.half, phi, group.psi, left, group.transposed, n, m);
          exchange(phi, next);
        }
        Doubles sum = table_sum(phi, n * m);
        auto sound = (sum >= SMALLEST_SUM) & (sum <= LARGEST_SUM);
        group.write(a.log_value.at(h, i),
                    sound ? logarithm(sum) + power * LOG_2 : spread<Doubles>(NAN));
      }
    }
  }
  return DONE;
}

// ---- aligned pairs, in numbers of unlimited range: slow, and right for all weights; lanes are
// different pairs

struct RangedChainArguments {
  ChainModels left;                // [N=I]
  ChainModels right;               // [N=J n=m]
  int64_t logarithms;              // whether weights are given as logarithms
  View<const int64_t, 1> rows;     // [P] the model of the left side of each pair
  View<const int64_t, 1> columns;  // [P]
  View<const double, 3> log_psi;   // [P n m]
  View<const int64_t, 1> lengths;  // [H] strictly increasing
  View<double, 2> log_value;       // [H P] -inf where no path has positive weight
};

inline int64_t ranged_chains(const RangedChainArguments& a) {
  using N = RangedDoubles;
  const int64_t n = a.left.states(), m = a.right.states(), size = n * m, pairs = a.rows.shape[0];
  Scratch scratch;
  N *psi, *phi, *next, *half, *left, *right;
  if (!scratch.lay_out([&] {
        scratch.give(size, psi, phi, next, half);
        scratch.give(n * n, left), scratch.give(m * m, right);
      }))
    return OUT_OF_MEMORY;
  auto put = [&](N& to, int lane, double x) {
    a.logarithms ? Numbers<N>::put_log(to, lane, x) : Numbers<N>::put(to, lane, x);
  };
  for (int64_t first = 0; first < pairs; first += WIDTH) {
    for (int lane = 0; lane < WIDTH; ++lane) {
      const int64_t p = minimum(first + lane, pairs - 1), i = a.rows(p), j = a.columns(p);
      for (int64_t c = 0; c < n * n; ++c) put(left[c], lane, a.left.transition.at(i)[c]);
      for (int64_t b = 0; b < m; ++b) {
        for (int64_t d = 0; d < m; ++d) put(right[d * m + b], lane, a.right.transition(j, b, d));
        for (int64_t c = 0; c < n; ++c) {
          put(next[b * n + c], lane, a.left.initial(i, c));
          put(half[b * n + c], lane, a.right.initial(j, b));
          Numbers<N>::put_log(psi[b * n + c], lane, a.log_psi(p, c, b));
        }
      }
    }
    for (int64_t c = 0; c < size; ++c) phi[c] = next[c] * half[c] * psi[c];
    for (int64_t h = 0, time = 1; h < a.lengths.shape[0]; ++h) {
      for (; time < a.lengths(h); ++time) {
        auto weight = [&](int64_t c, int64_t d) MERCER_LAMBDA { return left[c * n + d]; };
        chain_step<0, 1, 1>(next, half, phi, psi, weight, right, n, m);
        exchange(phi, next);
      }
      N sum = table_sum(phi, size);
      for (int lane = 0; lane < WIDTH && first + lane < pairs; ++lane)
        a.log_value(h, first + lane) = log_of(sum, lane);
    }
  }
  return DONE;
}

}  // namespace mercer
