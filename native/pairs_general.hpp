// Pair HMMs of any states (MK-5): kernels of pairs of strings.
//
//     G(i,j) = S(i-1,j) o E[s_i] o eps + S(i,j-1) o eps o E[t_j] + S(i-1,j-1) o E[s_i] o E[t_j]
//     S = G W
//
// S are the weights of entering every state after i and j symbols, G of having visited it. Lanes
// are different pairs; emissions are zero after the end of a string. Cells of an antidiagonal are
// independent, so that a processor computes several at once. Plain cells have one exponent for all
// states, as a last number; if a weight comes near the end of the floating-point range, the pair is
// computed again in numbers of unlimited range. Swapping s and t swaps two addends and changes no
// bit. Limited by the arithmetic of a cell, about n^2 multiply-adds, and by its exponents for few
// states: up to eight states are template parameters.
#pragma once
#include "pairs_lanes.hpp"
#include "product.hpp"

namespace mercer {

struct GeneralPairArguments {
  View<const double, 2> emission;  // C n: probability that a visit emits a symbol of each code
  View<const double, 1> silent;    // n: eps
  View<const double, 1> start;     // n, without visits that emit nothing
  View<const double, 2> step;      // n n
  View<const double, 1> stop;      // n
  double empty;                    // log kernel of two empty strings
  double floor;  // plain weights must not be smaller; > 1: numbers of unlimited range
  View<const int32_t, 1> left;
  View<const int64_t, 1> left_offsets;
  View<const int32_t, 1> right;
  View<const int64_t, 1> right_offsets;
  View<const int64_t, 1> rows;     // P: pairs of similar size next to each other
  View<const int64_t, 1> columns;  // P
  View<double, 1> log_value;       // P
};

constexpr double ZERO_EXPONENT = -1e300;  // of a cell that cannot be reached
constexpr double FAR = 200;  // neighbors that differ by more powers of two make a result doubtful

MERCER_INLINE Doubles
power_of(Doubles whole) {  // 2^whole for integers up to 1000; at least 2^-1000
  return scaled(spread<Doubles>(1.0), maximum(spread<Doubles>(-1000.0), whole) + MAGIC);
}
MERCER_INLINE RangedDoubles rounded(RangedDoubles x) { return x; }

// Three neighbors of a cell with a common exponent.
template <class N>
struct Neighbors {
  const N* cell[3];
  static constexpr int EXTRA = 0;  // numbers of a cell besides its weights
  Neighbors(const N* up, const N* beside, const N* across, int64_t) : cell{up, beside, across} {}
  MERCER_INLINE N weight(int k, int64_t a) const { return cell[k][a]; }
  static MERCER_INLINE void blank(N* at, int64_t n) {
    for (int64_t a = 0; a < n; ++a) at[a] = Numbers<N>::zero();
  }
  MERCER_INLINE void finish(N*, int64_t, Doubles*) const {}
  MERCER_INLINE void check(Doubles*) const {}
  double log(N sum, int lane) const {
    return ::log(sum.value[lane]) + double(sum.power[lane]) * LOG_RADIX;
  }
};
template <>
struct Neighbors<Doubles> {
  using V = Doubles;
  const V* cell[3];
  V distance[3], factor[3], top;
  static constexpr int EXTRA = 1;
  MERCER_INLINE Neighbors(const V* up, const V* beside, const V* across, int64_t n)
      : cell{up, beside, across}, top(maximum(across[n], maximum(up[n], beside[n]))) {
    for (int k = 0; k < 3; ++k) factor[k] = power_of(distance[k] = cell[k][n] - top);
  }
  MERCER_INLINE V weight(int k, int64_t a) const { return cell[k][a] * factor[k]; }
  static MERCER_INLINE void blank(V* at, int64_t n) {
    for (int64_t a = 0; a < n; ++a) at[a] = V{};
    at[n] = spread<V>(ZERO_EXPONENT);
  }
  MERCER_INLINE void check(V* low) const {  // exponents that are far apart
    for (int k = 0; k < 3; ++k) {
      auto doubtful = (distance[k] < -FAR) & (distance[k] > ZERO_EXPONENT / 2);
      *low = doubtful ? spread<V>(-1.0) : *low;
    }
  }
  // Weights relative to their largest, and their exponent; record the smallest positive weight.
  MERCER_INLINE void finish(V* at, int64_t n, V* low) const {
    V most = at[0], mantissa, exponent;
    for (int64_t a = 1; a < n; ++a) most = maximum(most, at[a]);
    split(most, mantissa, exponent);
    auto possible = most > 0.0;
    const V scale = power_of(possible ? -exponent : V{});
    V least = spread<V>(1.0);
    for (int64_t a = 0; a < n; ++a) {
      at[a] *= scale;
      least = minimum(least, at[a] > 0.0 ? at[a] : spread<V>(1.0));
    }
    if (low) *low = minimum(*low, least);
    at[n] = possible ? top + exponent : spread<V>(ZERO_EXPONENT);
  }
  double log(V sum, int lane) const { return ::log(sum[lane]) + top[lane] * LOG_2; }
};

// Weights of the three kinds of visits to a state: a symbol for s, for t, or for both.
template <class N>
struct Ways {
  N up, beside, across;
  MERCER_INLINE Ways(const Neighbors<N>& from, N here, N there, N silent, int64_t a)
      : up(rounded(from.weight(0, a) * (here * silent))),
        beside(rounded(from.weight(1, a) * (there * silent))),
        across(from.weight(2, a) * (here * there)) {}
  MERCER_INLINE N sum() const { return (up + beside) + across; }
};

// The model and the strings of a group of pairs, in numbers of one kind.
template <class N, int S>
struct General {
  int64_t n;
  N *silent, *start, *step, *stop;  // step [from][to]
  N *left, *right;                  // emissions [position][state], zero at 0 and after the end
  N* visited;

  static size_t room(int64_t n, int64_t tall, int64_t wide) {
    return 4 * Scratch::room<N>(n) + Scratch::room<N>(n * n) + Scratch::room<N>((tall + 2) * n) +
           Scratch::room<N>((wide + 2) * n);
  }
  template <class A>
  General(Scratch& scratch, const A& a, const PairLanes& pairs) : n(S ? S : a.silent.shape[0]) {
    silent = scratch.take<N>(n), start = scratch.take<N>(n), stop = scratch.take<N>(n);
    step = scratch.take<N>(n * n), visited = scratch.take<N>(n);
    left = scratch.take<N>((pairs.tall + 2) * n), right = scratch.take<N>((pairs.wide + 2) * n);
    for (int64_t c = 0; c < n; ++c) {
      silent[c] = Numbers<N>::number(a.silent(c)), start[c] = Numbers<N>::number(a.start(c));
      stop[c] = Numbers<N>::number(a.stop(c));
      for (int64_t d = 0; d < n; ++d) step[c * n + d] = Numbers<N>::number(a.step(c, d));
    }
    gather(left, a.emission, pairs.s, pairs.n, pairs.tall);
    gather(right, a.emission, pairs.t, pairs.m, pairs.wide);
  }
  void gather(N* to, View<const double, 2> emission, const int32_t* const* strings,
              const int64_t* length, int64_t longest) {
    for (int64_t at = 0; at < (longest + 2) * n; ++at) to[at] = Numbers<N>::zero();
    for (int lane = 0; lane < WIDTH; ++lane)
      for (int64_t i = 0; i < length[lane]; ++i)
        for (int64_t c = 0; c < n; ++c)
          Numbers<N>::put(to[(i + 1) * n + c], lane, emission(strings[lane][i], c));
  }
  int64_t size() const { return (S ? S : n) + Neighbors<N>::EXTRA; }

  MERCER_INLINE void visit(const Neighbors<N>& from, int64_t i, int64_t j, N* to) const {
    const int64_t count = S ? S : n;
    const N *here = left + i * count, *there = right + j * count;
    for (int64_t c = 0; c < count; ++c)
      to[c] = Ways<N>(from, here[c], there[c], silent[c], c).sum();
  }
  template <class Entry>
  MERCER_INLINE void multiply(const N* x, N* out,
                              Entry entry) const {  // out[c] = sum x[d] entry(d, c)
    constexpr int C = S ? S : 4;
    const int64_t count = S ? S : n;
    if (!S && count >= 8)
      product<1, 8>(out, (const N*)nullptr, 1, count, count, x, entry);
    else if (S || count >= C)
      product<1, C>(out, (const N*)nullptr, 1, count, count, x, entry);
    else
      product<1, 1>(out, (const N*)nullptr, 1, count, count, x, entry);
  }
  MERCER_INLINE void enter(const N* gone, N* to) const {
    const int64_t count = S ? S : n;
    multiply(gone, to, [&](int64_t d, int64_t c) MERCER_LAMBDA { return step[d * count + c]; });
  }
};

// Log kernels of a group of pairs; the smallest weights, or -1 if a result is doubtful.
template <class N, int S>
int64_t general_group(const GeneralPairArguments& a, const PairLanes& pairs, double* log_value,
                      Doubles& lowest) {
  const int64_t tall = pairs.tall, wide = pairs.wide, n = S ? S : a.silent.shape[0];
  const int64_t size = n + Neighbors<N>::EXTRA, line = (tall + 2) * size;
  Scratch scratch(General<N, S>::room(n, tall, wide) + Scratch::room<N>(3 * line));
  if (scratch.failed()) return OUT_OF_MEMORY;
  General<N, S> of(scratch, a, pairs);
  N* cells = scratch.take<N>(3 * line);
  for (int64_t at = 0; at < 3 * line; at += size) Neighbors<N>::blank(cells + at, n);
  for (int64_t c = 0; c < n; ++c) cells[size + c] = of.start[c];
  if constexpr (Neighbors<N>::EXTRA) cells[size + n] = Doubles{};
  Doubles low = spread<Doubles>(1.0);
  for (int64_t c = 0; c < n; ++c)
    if (a.start(c) > 0 && a.start(c) < low[0]) low = spread<Doubles>(a.start(c));
  for (int64_t d = 0, end = pairs.next_end(0); d <= tall + wide; ++d) {
    N *now = cells + d % 3 * line, *before = cells + (d + 2) % 3 * line,
      *earlier = cells + (d + 1) % 3 * line;
    for (int64_t i = d > wide ? d - wide : 0; d > 0 && i <= tall && i <= d; ++i) {
      Neighbors<N> from(before + i * size, before + (i + 1) * size, earlier + i * size, n);
      N visited[S ? S : 1], *gone = S ? visited : of.visited, *to = now + (i + 1) * size;
      from.check(&low);
      of.visit(from, i, d - i, gone);
      of.enter(gone, to);
      from.finish(to, n, &low);
    }
    for (int lane = 0; d == end && lane < WIDTH; ++lane) {
      const int64_t i = pairs.n[lane];
      if (i + pairs.m[lane] != d) continue;
      log_value[lane] = a.empty, lowest[lane] = low[lane];
      if (d == 0) continue;
      Neighbors<N> from(before + i * size, before + (i + 1) * size, earlier + i * size, n);
      of.visit(from, i, d - i, of.visited);
      N sum = Numbers<N>::zero();
      for (int64_t c = 0; c < n; ++c) multiply_add(sum, of.visited[c], of.stop[c]);
      log_value[lane] = from.log(sum, lane);
    }
    if (d == end) end = pairs.next_end(d + 1);
  }
  return DONE;
}

template <int S>
int64_t general_pairs(const GeneralPairArguments& a) {
  const Strings left{a.left, a.left_offsets}, right{a.right, a.right_offsets};
  for (int64_t first = 0; first < a.rows.shape[0]; first += WIDTH) {
    PairLanes pairs(left, right, a.rows, a.columns, first);
    pairs.shorter_first();
    double log[WIDTH], again[WIDTH];
    Doubles low = spread<Doubles>(-1.0), ignored{};
    if (a.floor <= 1 && general_group<Doubles, S>(a, pairs, log, low) != DONE) return OUT_OF_MEMORY;
    bool sound = true;
    for (int lane = 0; lane < WIDTH; ++lane) sound = sound && low[lane] >= a.floor;
    if (!sound && general_group<RangedDoubles, 0>(a, pairs, again, ignored) != DONE)
      return OUT_OF_MEMORY;
    for (int64_t lane = 0; lane < pairs.live; ++lane)
      a.log_value(first + lane) = low[lane] >= a.floor ? log[lane] : again[lane];
  }
  return DONE;
}

// Call with the number of states, 0 for any, as a template parameter.
template <class Call>
int64_t with_states(int64_t n, Call call) {
  if constexpr (UNROLLED) {
    if (n == 1) return call.template operator()<1>();
    if (n == 2) return call.template operator()<2>();
    if (n == 3) return call.template operator()<3>();
    if (n == 4) return call.template operator()<4>();
    if (n == 5) return call.template operator()<5>();
    if (n == 6) return call.template operator()<6>();
    if (n == 7) return call.template operator()<7>();
    if (n == 8) return call.template operator()<8>();
  }
  return call.template operator()<0>();
}

}  // namespace mercer
