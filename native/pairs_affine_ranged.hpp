// Pair HMMs with affine gaps in numbers of unlimited range: kernels and expected counts (MK-5b,
// MK-5d), right for all parameters.
//
//     M(i,j) = c J[s_i,t_j] ((1-o)^2 M + (1-e)(1-o) X + (1-e) Y + A(i-1) A(j-1))(i-1,j-1)
//     X(i,j) = q[s_i] (o M + e X)(i-1,j),    Y(i,j) = q[t_j] (o ((1-o) M + (1-e) X) + e Y)(i,j-1)
//
// A(l), the flank of l letters, is there in local alignments only, which begin at any match. Lanes
// are different pairs; emissions are zero after the end of a string. Limited by the arithmetic of
// the numbers, about ten instructions for a product.
#pragma once
#include "pairs_lanes.hpp"

namespace mercer {

struct RangedAffineArguments {
  View<const double, 2> joint;      // [C C]
  View<const double, 1> insertion;  // [C]
  View<const double, 1> rates;  // [R] open, extend, continuation; local: open and extend of flanks
  PairStrings strings;
  View<double, 1> log_value;  // [P] -inf if a pair is impossible
  View<double, 3> matched;    // [P C C]? expected matches; null for kernels only
  View<double, 2> letters;    // [P C]? inserted letters
  View<double, 2> runs;  // [P 5]? opened and extended runs, opened and extended flanks, no match
  View<double, 2> probability;  // [n m]? of every match of the only pair
};

template <class V>
MERCER_INLINE Ranged<V> times(double factor, Ranged<V> a) {  // 1e-32 < factor <= 1
  return {a.value * factor, a.power};
}

// Emissions and flanks of the strings of one side: [position].
template <class V>
struct AffineSide {
  static constexpr int W = lanes_of<V>;
  const int32_t* const* strings;
  const int64_t* length;
  int64_t longest;
  int32_t* code;                                  // [position][lane]
  Ranged<V>*letter, *first, *more, *head, *tail;  // first and more of a run: o q and e q
  V* chance;  // [position]: of a flank of this length before the matches, and of the end of these

  void take(Scratch& scratch) {
    scratch.give((longest + 1) * W, code), scratch.give(2 * (longest + 1), chance);
    scratch.give(longest + 1, letter, first, more, head, tail);
  }
};

template <class V>
struct RangedAffine {
  using N = Ranged<V>;
  using Of = Numbers<N>;
  static constexpr int W = lanes_of<V>;

 public:
  const RangedAffineArguments& a;
  const PairLanes<W> pairs;
  const int64_t codes = a.joint.shape[0], ended = codes + 1, line = 3 * (pairs.wide + 1);
  const double stay = 1 - a.rates(0), leave = 1 - a.rates(1), end = 1 - a.rates(2);
  const bool local = a.rates.shape[0] > 3, counting = a.matched.given();
  const N opened = Of::number(a.rates(0)), extended = Of::number(a.rates(1));
  Scratch scratch{};
  double* match_value;  // c J as numbers, with a row and a column of zeros for the end
  int64_t* match_power;
  N* letter;
  AffineSide<V> s{pairs.s, pairs.n, pairs.tall}, t{pairs.t, pairs.m, pairs.wide};
  N *two, *back, *after;  // rows: forward without counts; backward numbers M, X, Y
  V* column;              // letters of t
  Rows<N> rows;
  N total;
  V inverse, run[2];

  int64_t process() {
    if (!scratch.lay_out([&] { take(); })) return OUT_OF_MEMORY;
    arrange();
    gather(s), gather(t);
    total = Of::zero();
    for (int lane = 0; local && lane < W; ++lane)  // no match: one flank
      set_lane(total, s.head[pairs.n[lane]] * t.head[pairs.m[lane]], lane);
    auto forward = [&](int64_t i, const N* above, N* here, bool fresh) {
      forward_row(i, above, here, fresh);
      for (int lane = 0; fresh && !local && lane < W; ++lane)
        if (pairs.n[lane] == i) set_lane(total, before_match(here + 3 * pairs.m[lane]), lane);
      if (fresh && i == pairs.tall) close();
    };
    for (int64_t i = 0; i <= pairs.tall && !counting; ++i)
      forward(i, two + (i + 1) % 2 * line, two + i % 2 * line, true);
    if (!counting) return DONE;
    begin_back();
    for (int64_t at = 0; at < line; ++at) rows.rows[at] = Of::zero();
    rows.sweep(forward, [&](int64_t i, const N* here) { backward_row(i, here); });
    collect();
    return DONE;
  }

  void take() {
    scratch.give(ended * ended, match_value, match_power), scratch.give(ended, letter);
    s.take(scratch), t.take(scratch);
    if (!counting) return scratch.give(2 * line, two);
    scratch.give(line + 3, back, after), scratch.give(pairs.wide + 1, column);
    rows.take(scratch, pairs.tall + 1, line);
  }
  void arrange() {
    const N more = Of::number(a.rates(2));
    for (int64_t p = 0; p < ended; ++p) {
      letter[p] = p < codes ? Of::number(a.insertion(p)) : Of::zero();
      for (int64_t q = 0; q < ended; ++q) {
        const N both = p < codes && q < codes ? Of::number(a.joint(p, q)) * more : Of::zero();
        match_value[p * ended + q] = both.value[0], match_power[p * ended + q] = both.power[0];
      }
    }
  }
  void gather(AffineSide<V>& side) {
    WordsLike<V> size;
    for (int lane = 0; lane < W; ++lane) size[lane] = side.length[lane];
    for (int64_t i = 0; i <= side.longest; ++i) {
      for (int lane = 0; lane < W; ++lane) {
        const int64_t which = i < side.length[lane] ? side.strings[lane][i] : codes;
        side.code[i * W + lane] = int32_t(which);
        set_lane(side.letter[i], letter[which], lane);
      }
      side.first[i] = side.letter[i] * opened, side.more[i] = side.letter[i] * extended;
      side.head[i] = side.tail[i] = Of::zero();
    }
    if (!local) return;
    const N open = Of::number(a.rates(3)), extend = Of::number(a.rates(4));
    const double closed = 1 - a.rates(4);
    N run = open, none = side.head[0] = Of::number(1 - a.rates(3));
    for (int64_t i = 0; i < side.longest; ++i, run = run * extend) {
      run = run * side.letter[i];
      side.head[i + 1] = tidy<V>(run.value * closed, run.power);
    }
    run = open;
    for (int64_t i = side.longest; i >= 0; --i) {  // a lane begins at the end of its string
      const N grown = run * side.letter[i], flank = tidy<V>(grown.value * closed, grown.power);
      side.tail[i] = choose<V>(size > i, flank, choose<V>(size == i, none, Of::zero()));
      run = choose<V>(size > i, grown * extend, run);
    }
  }

  MERCER_INLINE N before_match(const N* cell) const {
    return times(stay * stay, cell[0]) + times(leave * stay, cell[1]) + times(leave, cell[2]);
  }
  MERCER_INLINE N match(int64_t i, int64_t j) const {
    double value[W];
    int64_t power[W];
    for (int lane = 0; lane < W; ++lane) {
      const int64_t at = s.code[i * W + lane] * ended + t.code[j * W + lane];
      value[lane] = match_value[at], power[lane] = match_power[at];
    }
    return {load<V>(value), load<WordsLike<V>>(power)};
  }

  void forward_row(int64_t i, const N* above, N* here, bool fresh) {
    N sum = total;
    for (int64_t j = 0; j <= pairs.wide; ++j, here += 3, above += 3) {
      here[0] = i == 0 && j == 0 && !local ? Of::number(1.0) : Of::zero();
      if (i > 0 && j > 0) {
        N reached = before_match(above - 3);
        if (local) reached = reached + s.head[i - 1] * t.head[j - 1];
        here[0] = reached * match(i - 1, j - 1);
        if (local) {
          sum = sum + s.tail[i] * t.tail[j] * here[0];
          sum = tidy(sum.value, sum.power);
        }
      }
      here[1] = i > 0 ? above[0] * s.first[i - 1] + above[1] * s.more[i - 1] : Of::zero();
      here[2] = Of::zero();
      if (j > 0) {
        const N free = times(stay, here[-3]) + times(leave, here[-2]);
        here[2] = free * t.first[j - 1] + here[-1] * t.more[j - 1];
      }
    }
    if (fresh) total = sum;
  }

  void close() {
    total = tidy<V>(total.value * end, total.power);
    inverse = total.value > 0.0 ? 1.0 / total.value : V{};
    for (int lane = 0; lane < pairs.live; ++lane)
      a.log_value(pairs.first + lane) = total.value[lane] > 0 ? log_of(total, lane) : -INFINITY;
  }

  // a b / kappa: at most slightly above 1, so that the remaining exponent is at most 1.
  MERCER_INLINE V share(N x, N y) const {
    auto power = x.power + y.power - total.power;
    V value = x.value * inverse * y.value;
    return power == 0    ? value
           : power == -1 ? value * INVERSE_RADIX
           : power == 1  ? value * RADIX
                         : V{};
  }

  void begin_back() {
    for (int64_t at = 0; at < 3 * (pairs.wide + 2); ++at) back[at] = after[at] = Of::zero();
    for (int64_t j = 0; j <= pairs.wide; ++j) column[j] = V{};
    for (int64_t i = 0; i < 2 * (pairs.tall + 1); ++i) s.chance[i] = V{};
    for (int64_t j = 0; j < 2 * (pairs.wide + 1); ++j) t.chance[j] = V{};
    for (V& sum : run) sum = V{};
  }

  void backward_row(int64_t i, const N* row) {
    V inserted{};
    const bool last = !local && pairs.ends_in(i);
    for (int64_t j = pairs.wide; j >= 0; --j) {
      const N *cell = row + 3 * j, *next = after + 3 * j;
      N *here = back + 3 * j, ahead = Of::zero();
      if (i < pairs.tall && j < pairs.wide) ahead = next[3] * match(i, j);
      for (int lane = 0; last && lane < W; ++lane)
        if (pairs.n[lane] == i && pairs.m[lane] == j) set_lane(ahead, Of::number(end), lane);
      const N first_s = next[1] * s.first[i], more_s = next[1] * s.more[i];
      const N first_t = here[5] * t.first[j], more_t = here[5] * t.more[j];
      const N both = times(stay, ahead) + first_t;  // a match or a run of t
      here[0] = times(stay, both) + first_s;
      here[1] = times(leave, both) + more_s;
      here[2] = times(leave, ahead) + more_t;
      if (local) {
        const N close = times(end, s.tail[i] * t.tail[j]);
        here[0] = here[0] + close;
        const V ends = share(cell[0], close), begins = share(s.head[i] * t.head[j], ahead);
        s.chance[2 * i] += begins, t.chance[2 * j] += begins;
        s.chance[2 * i + 1] += ends, t.chance[2 * j + 1] += ends;
      }
      if (i > 0 && j > 0) add_match(i, j, share(cell[0], here[0]));
      if (i > 0) inserted += share(cell[1], here[1]);
      if (j > 0) column[j] += share(cell[2], here[2]);
      run[0] += share(cell[0], first_s);
      run[0] += stay * share(cell[0], first_t);
      run[0] += leave * share(cell[1], first_t);
      run[1] += share(cell[1], more_s);
      run[1] += share(cell[2], more_t);
    }
    for (int64_t lane = 0; i > 0 && lane < pairs.live; ++lane)
      if (i <= pairs.n[lane]) a.letters(pairs.first + lane, pairs.s[lane][i - 1]) += inserted[lane];
    exchange(back, after);
  }

  MERCER_INLINE void add_match(int64_t i, int64_t j, V chance) {
    double part[W];
    store(part, chance);
    for (int64_t lane = 0; lane < pairs.live; ++lane) {
      if (i > pairs.n[lane] || j > pairs.m[lane]) continue;
      a.matched(pairs.first + lane, pairs.s[lane][i - 1], pairs.t[lane][j - 1]) += part[lane];
    }
    if (a.probability.given()) a.probability(i - 1, j - 1) = part[0] < 1 ? part[0] : 1.0;
  }

  void collect() {
    for (int64_t lane = 0; lane < pairs.live; ++lane) {
      const int64_t p = pairs.first + lane, n = pairs.n[lane], m = pairs.m[lane];
      for (int64_t j = 1; j <= m; ++j) a.letters(p, pairs.t[lane][j - 1]) += column[j][lane];
      a.runs(p, 0) += run[0][lane], a.runs(p, 1) += run[1][lane];
      if (!local) continue;
      const double none = share(s.head[n] * t.head[m], Of::number(end))[lane];
      s.chance[2 * n][lane] += none, t.chance[2 * m][lane] += none, a.runs(p, 4) += none;
      count_flanks(p, lane, s), count_flanks(p, lane, t);
    }
  }

  // Flanks of one string: probabilities of their lengths to expected counts.
  void count_flanks(int64_t p, int64_t lane, const AffineSide<V>& side) {
    const int32_t* string = side.strings[lane];
    const int64_t n = side.length[lane];
    const V* chance = side.chance;
    double inside = 0, sum = 0;
    for (int64_t i = n - 1; i >= 0; --i) {  // a flank of more than i letters contains letter i
      inside += chance[2 * (i + 1)][lane], sum += inside;
      a.letters(p, string[i]) += inside;
    }
    a.runs(p, 2) += inside, a.runs(p, 3) += sum - inside;
    inside = sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      inside += chance[2 * i + 1][lane], sum += inside;
      a.letters(p, string[i]) += inside;
    }
    a.runs(p, 2) += inside, a.runs(p, 3) += sum - inside;
  }
};

// Without insertions, letter i is matched with letter i.
inline void match_only(const RangedAffineArguments& a) {
  for (int64_t p = 0; p < a.log_value.shape[0]; ++p) {
    const PairLanes<1> of(a.strings, p);
    const bool equal = of.n[0] == of.m[0];
    double sum = equal ? log(1 - a.rates(2)) : -INFINITY;
    for (int64_t k = 0; k < of.n[0] && equal; ++k)
      sum += log(a.joint(of.s[0][k], of.t[0][k])) + log(a.rates(2));
    a.log_value(p) = sum;
  }
}

// A pair alone has few lanes.
inline int64_t ranged_affine(const RangedAffineArguments& a) {
  if (a.rates(0) == 0 && a.rates.shape[0] == 3 && !a.matched.given()) return match_only(a), DONE;
  const int64_t count = a.log_value.shape[0];
  for (int64_t first = 0; first < count; first += WIDTH) {
    const int64_t status = count - first == 1
                               ? RangedAffine<Vec<double, 1>>{a, {a.strings, first}}.process()
                               : RangedAffine<Doubles>{a, {a.strings, first}}.process();
    if (status != DONE) return status;
  }
  return DONE;
}

}  // namespace mercer
