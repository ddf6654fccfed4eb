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

struct GeneralModel {
  View<const double, 2> emission;  // [C n] probability that a visit emits a symbol of each code
  View<const double, 1> silent;    // [n] eps
  View<const double, 1> start;     // [n] without visits that emit nothing
  View<const double, 2> step;      // [n n]
  View<const double, 1> stop;      // [n]
};

struct GeneralPairArguments {
  GeneralModel model;
  PairStrings strings;
  double empty;               // log kernel of two empty strings
  double floor;               // plain weights must not be smaller; > 1: numbers of unlimited range
  View<double, 1> log_value;  // [P]
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
  double log(N sum, int lane) const { return log_of(sum, lane); }
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

  void take(Scratch& scratch, int64_t n_, const PairLanes<WIDTH>& pairs) {
    n = S ? S : n_;
    scratch.give(n, silent, start, stop, visited), scratch.give(n * n, step);
    scratch.give((pairs.tall + 2) * n, left), scratch.give((pairs.wide + 2) * n, right);
  }
  void fill(const GeneralModel& a, const PairLanes<WIDTH>& pairs) {
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
  MERCER_INLINE void visit(const Neighbors<N>& from, int64_t i, int64_t j, N* to) const {
    const int64_t count = S ? S : n;
    const N *here = left + i * count, *there = right + j * count;
    for (int64_t c = 0; c < count; ++c)
      to[c] = Ways<N>(from, here[c], there[c], silent[c], c).sum();
  }
  template <class Entry>  // out[c] = sum x[d] entry(d, c)
  MERCER_INLINE void multiply(const N* x, N* out, Entry entry) const {
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
int64_t general_group(const GeneralPairArguments& a, const PairLanes<WIDTH>& pairs,
                      double* log_value, Doubles& lowest) {
  const int64_t tall = pairs.tall, wide = pairs.wide, n = S ? S : a.model.silent.shape[0];
  const int64_t size = n + Neighbors<N>::EXTRA, line = (tall + 2) * size;
  Scratch scratch;
  General<N, S> of;
  N* cells;
  if (!scratch.lay_out([&] { of.take(scratch, n, pairs), cells = scratch.take<N>(3 * line); }))
    return OUT_OF_MEMORY;
  of.fill(a.model, pairs);
  for (int64_t at = 0; at < 3 * line; at += size) Neighbors<N>::blank(cells + at, n);
  for (int64_t c = 0; c < n; ++c) cells[size + c] = of.start[c];
  if constexpr (Neighbors<N>::EXTRA) cells[size + n] = Doubles{};
  Doubles low = spread<Doubles>(1.0);
  for (int64_t c = 0; c < n; ++c)
    if (const double x = a.model.start(c); x > 0 && x < low[0]) low = spread<Doubles>(x);
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
  for (int64_t first = 0; first < a.log_value.shape[0]; first += WIDTH) {
    PairLanes<WIDTH> pairs(a.strings, first);
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

// Expected counts of the trajectories of pairs. With the backward weights h of an entry and Q of a
// visit,
//
//     h(i,j) = Q(i+1,j) o E[s] o eps + Q(i,j+1) o eps o E[t] + Q(i+1,j+1) o E[s] o E[t],    Q = W h
//
// a posterior is S w Q / kappa, where w is the emission. A cell of a row is S and G with an
// exponent each; a cell that cannot be reached is before the first one. Three products per cell.
struct GeneralExpectedArguments {
  GeneralModel model;
  PairStrings strings;        // no pair has two empty strings
  View<double, 2> gain;       // [P n1] gradient in the start
  View<double, 3> moves;      // [P n n1] in the step and the stop
  View<double, 3> symbols;    // [P n C] expected symbols
  View<double, 2> once;       // [P n] visits that emit one symbol only
  View<double, 1> log_value;  // [P]
  View<double, 2> matched;    // [s t]? that symbols of the only pair are from one visit
};

template <int S>
struct GeneralExpected {
  using V = Doubles;
  const GeneralExpectedArguments& a;
  const PairLanes<WIDTH> pairs;
  const int64_t n = a.model.silent.shape[0], cell = n + 1, pitch = 2 * cell;  // pitch: S and G
  Scratch scratch{};
  General<V, S> of;
  Rows<V> rows;
  V *back, *after, *follows, *once, *row, *moves, *column;
  V inverse{}, whole{}, top{};

  int64_t process() {
    const int64_t wide = pairs.wide;
    const bool enough = scratch.lay_out([&] {
      of.take(scratch, n, pairs), rows.take(scratch, pairs.tall + 1, (wide + 2) * pitch);
      scratch.give((wide + 2) * cell, back, after), scratch.give(n, follows, once, row);
      scratch.give(n * n, moves), scratch.give((wide + 2) * n, column);
    });
    if (!enough) return OUT_OF_MEMORY;
    of.fill(a.model, pairs);
    for (int64_t j = 0; j < wide + 2; ++j)
      Neighbors<V>::blank(back + j * cell, n), Neighbors<V>::blank(after + j * cell, n);
    for (int64_t c = 0; c < n; ++c) once[c] = V{};
    for (int64_t at = 0; at < n * n; ++at) moves[at] = V{};
    for (int64_t at = 0; at < (wide + 2) * n; ++at) column[at] = V{};
    for (int64_t at = 0; at < rows.line; at += cell) Neighbors<V>::blank(rows.rows + at, n);
    rows.sweep(
        [&](int64_t i, const V* above, V* here, bool fresh) {
          forward_row(i, above, here);
          for (int lane = 0; fresh && lane < WIDTH; ++lane)
            if (pairs.n[lane] == i) close(lane, here + (pairs.m[lane] + 1) * pitch + cell);
        },
        [&](int64_t i, const V* here) { backward_row(i, here); });
    for (int lane = 0; lane < pairs.live; ++lane) collect(lane);
    return DONE;
  }

  void forward_row(int64_t i, const V* above, V* here) {
    const int64_t n = S ? S : of.n, cell = n + 1, pitch = 2 * cell;
    Neighbors<V>::blank(here, n), Neighbors<V>::blank(here + cell, n);
    for (int64_t j = 0; j <= pairs.wide; ++j) {
      const V *up = above + (j + 1) * pitch, *beside = here + j * pitch,
              *across = above + j * pitch;
      V *to = here + (j + 1) * pitch, *gone = to + cell;
      if (i + j == 0) {
        Neighbors<V>::blank(gone, n);
        for (int64_t c = 0; c < n; ++c) to[c] = of.start[c];
        to[n] = V{};
        continue;
      }
      Neighbors<V> from(up, beside, across, n);
      of.visit(from, i, j, gone);
      gone[n] = from.top;
      of.enter(gone, to);
      from.finish(to, n, nullptr);
    }
  }

  // The log kernel of a pair, given G of its last cell, and the expected counts of its last step.
  void close(int lane, const V* gone) {
    double total = 0;
    for (int64_t c = 0; c < n; ++c) total += gone[c][lane] * a.model.stop(c);
    whole[lane] = gone[n][lane], inverse[lane] = total > 0 ? 1 / total : 0.0;
    if (lane >= pairs.live) return;
    a.log_value(pairs.first + lane) = total > 0 ? log(total) + gone[n][lane] * LOG_2 : -INFINITY;
    for (int64_t c = 0; c < n; ++c)
      a.moves(pairs.first + lane, c, n) = gone[c][lane] * inverse[lane];
  }

  MERCER_INLINE V relative(V exponent, V here) const {  // factor of the posteriors of a cell
    return power_of(minimum(exponent + here - whole, spread<V>(1000.0))) * inverse;
  }

  void backward_row(int64_t i, const V* cells) {
    const int64_t n = S ? S : of.n, cell = n + 1, pitch = 2 * cell;
    for (int64_t c = 0; c < n; ++c) row[c] = V{};
    const bool last = pairs.ends_in(i);
    for (int64_t j = pairs.wide; j >= 0; --j) {
      const V *entered = cells + (j + 1) * pitch, *gone = entered + cell;
      Neighbors<V> from(after + j * cell, back + (j + 1) * cell, after + (j + 1) * cell, n);
      const V scale = relative(entered[n], from.top), left = relative(gone[n], from.top);
      const V *here = of.left + (i + 1) * n, *there = of.right + (j + 1) * n;
      V match{};
      for (int64_t c = 0; c < n; ++c) {
        const Ways<V> ways(from, here[c], there[c], of.silent[c], c);
        const V share = entered[c] * scale;
        follows[c] = ways.sum();
        once[c] += share * (ways.up + ways.beside);
        row[c] += share * (ways.up + ways.across);
        column[(j + 1) * n + c] += share * (ways.beside + ways.across);
        match += share * ways.across;
      }
      for (int64_t c = 0; c < n; ++c) {
        const V source = gone[c] * left;
        for (int64_t d = 0; d < n; ++d) moves[c * n + d] += source * follows[d];
      }
      top = from.top;
      V* to = back + j * cell;
      of.multiply(follows, to,
                  [&](int64_t d, int64_t c) MERCER_LAMBDA { return of.step[c * n + d]; });
      from.finish(to, n, nullptr);
      if (a.matched.given() && i < a.matched.shape[0] && j < a.matched.shape[1])
        a.matched(i, j) = match[0];
      for (int lane = 0; last && lane < WIDTH; ++lane) {
        if (pairs.n[lane] != i || pairs.m[lane] != j) continue;  // the end is possible here
        for (int64_t c = 0; c < n; ++c) to[c][lane] = a.model.stop(c);
        to[n][lane] = 0.0;
      }
    }
    for (int lane = 0; lane < pairs.live; ++lane)
      for (int64_t c = 0; i < pairs.n[lane] && c < n; ++c)
        a.symbols(pairs.first + lane, c, pairs.s[lane][i]) += row[c][lane];
    exchange(back, after);
  }

  // Write the sums of one lane; the last cell of all was the first one of the strings.
  void collect(int lane) {
    const int64_t p = pairs.first + lane;
    const double weight = relative(V{}, top)[lane];
    for (int64_t c = 0; c < n; ++c) {
      a.once(p, c) = once[c][lane], a.gain(p, c) = follows[c][lane] * weight;
      for (int64_t d = 0; d < n; ++d) a.moves(p, c, d) = moves[c * n + d][lane];
      for (int64_t j = 0; j < pairs.m[lane]; ++j)
        a.symbols(p, c, pairs.t[lane][j]) += column[(j + 1) * n + c][lane];
    }
  }
};

template <int S>
int64_t general_expected(const GeneralExpectedArguments& a) {
  int64_t status = DONE;
  for (int64_t first = 0; first < a.log_value.shape[0] && status == DONE; first += WIDTH)
    status = GeneralExpected<S>{a, {a.strings, first}}.process();
  return status;
}

}  // namespace mercer
