// Pair HMMs of any states (MK-5): expected counts of the trajectories of pairs of strings.
//
// With S and G of pairs_general.hpp, and the backward weights h of an entry and Q of a visit,
//
//     h(i,j) = Q(i+1,j) o E[s] o eps + Q(i,j+1) o eps o E[t] + Q(i+1,j+1) o E[s] o E[t],    Q = W h
//
// a posterior is S w Q / kappa, where w is the emission. Lanes are different pairs. A cell of a row
// is S and G with an exponent each; a cell that cannot be reached is before the first one. Limited
// by the n^2 multiply-adds of three products per cell.
#pragma once
#include "pairs_general.hpp"

namespace mercer {

struct GeneralExpectedArguments {
  View<const double, 2> emission;  // C n, and so on as in GeneralPairArguments
  View<const double, 1> silent;
  View<const double, 1> start;
  View<const double, 2> step;
  View<const double, 1> stop;
  View<const int32_t, 1> codes;
  View<const int64_t, 1> offsets;
  View<const int64_t, 1> rows;     // P; no pair has two empty strings
  View<const int64_t, 1> columns;  // P
  View<double, 2> gain;            // P n+1: gradient in the start
  View<double, 3> moves;           // P n n+1: in the step and the stop
  View<double, 3> symbols;         // P n C: expected symbols
  View<double, 2> once;            // P n: visits that emit one symbol only
  View<double, 1> log_value;       // P
  View<double, 2> matched;         // or null: that symbols of the only pair are from one visit
};

template <int S>
class GeneralExpected {
  using V = Doubles;
  const GeneralExpectedArguments& a;
  const PairLanes& pairs;
  General<V, S> of;
  const int64_t n, cell, pitch;  // cell: n + 1 numbers; pitch: S and G
  V *back, *after, *follows, *once, *row, *moves, *column;
  V inverse{}, whole{}, top{};

 public:
  static size_t room(int64_t n, int64_t tall, int64_t wide) {
    return General<V, S>::room(n, tall, wide) + 2 * Scratch::room<V>((wide + 2) * (n + 1)) +
           3 * Scratch::room<V>(n) + Scratch::room<V>(n * n) + Scratch::room<V>((wide + 2) * n) +
           Rows<V>::room(tall + 1, (wide + 2) * 2 * (n + 1));
  }
  GeneralExpected(Scratch& scratch, const GeneralExpectedArguments& a_, const PairLanes& pairs_)
      : a(a_), pairs(pairs_), of(scratch, a_, pairs_), n(of.n), cell(n + 1), pitch(2 * cell) {
    const int64_t wide = pairs.wide;
    back = scratch.take<V>((wide + 2) * cell), after = scratch.take<V>((wide + 2) * cell);
    follows = scratch.take<V>(n), once = scratch.take<V>(n), row = scratch.take<V>(n);
    moves = scratch.take<V>(n * n), column = scratch.take<V>((wide + 2) * n);
    for (int64_t j = 0; j < wide + 2; ++j)
      Neighbors<V>::blank(back + j * cell, n), Neighbors<V>::blank(after + j * cell, n);
    for (int64_t c = 0; c < n; ++c) once[c] = V{};
    for (int64_t at = 0; at < n * n; ++at) moves[at] = V{};
    for (int64_t at = 0; at < (wide + 2) * n; ++at) column[at] = V{};
    Rows<V> rows(scratch, pairs.tall + 1, (wide + 2) * pitch);
    for (int64_t at = 0; at < rows.line; at += cell) Neighbors<V>::blank(rows.rows + at, n);
    rows.sweep(
        [&](int64_t i, const V* above, V* here, bool fresh) {
          forward_row(i, above, here);
          for (int lane = 0; fresh && lane < WIDTH; ++lane)
            if (pairs.n[lane] == i) close(lane, here + (pairs.m[lane] + 1) * pitch + cell);
        },
        [&](int64_t i, const V* here) { backward_row(i, here); });
    for (int lane = 0; lane < pairs.live; ++lane) collect(lane);
  }

 private:
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
    for (int64_t c = 0; c < n; ++c) total += gone[c][lane] * a.stop(c);
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
        for (int64_t c = 0; c < n; ++c) to[c][lane] = a.stop(c);
        to[n][lane] = 0.0;
      }
    }
    for (int lane = 0; lane < pairs.live; ++lane)
      for (int64_t c = 0; i < pairs.n[lane] && c < n; ++c)
        a.symbols(pairs.first + lane, c, pairs.s[lane][i]) += row[c][lane];
    V* swap = back;
    back = after, after = swap;
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
  const Strings strings{a.codes, a.offsets};
  for (int64_t first = 0; first < a.rows.shape[0]; first += WIDTH) {
    const PairLanes pairs(strings, strings, a.rows, a.columns, first);
    Scratch scratch(GeneralExpected<S>::room(a.silent.shape[0], pairs.tall, pairs.wide));
    if (scratch.failed()) return OUT_OF_MEMORY;
    GeneralExpected<S>(scratch, a, pairs);
  }
  return DONE;
}

}  // namespace mercer
