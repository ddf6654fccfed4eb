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
  View<const double, 2> joint;      // C C
  View<const double, 1> insertion;  // C
  View<const double, 1> rates;      // open, extend, continuation; local: open and extend of flanks
  View<const int32_t, 1> left;
  View<const int64_t, 1> left_offsets;
  View<const int32_t, 1> right;
  View<const int64_t, 1> right_offsets;
  View<const int64_t, 1> rows;     // P: the left string of each pair
  View<const int64_t, 1> columns;  // P
  View<double, 1> log_value;       // P: -inf if a pair is impossible
  View<double, 3> matched;         // P C C: expected matches; null for kernels only
  View<double, 2> letters;         // P C: inserted letters
  View<double, 2> runs;  // P 5: opened and extended runs, opened and extended flanks, no match
  View<double, 2> probability;  // n m: of every match of the only pair; or null
};

template <class V>
MERCER_INLINE Ranged<V> times(double factor, Ranged<V> a) {  // 1e-32 < factor <= 1
  return {a.value * factor, a.power};
}

class RangedAffine {
  using N = RangedDoubles;
  using Of = Numbers<N>;
  const RangedAffineArguments& a;
  const int64_t codes, ended;
  const double stay, leave, end;
  const bool local, counting;
  N opened, extended, flank_open, flank_extend;
  double* match_value;  // c J as numbers, with a row and a column of zeros for the end
  int64_t* match_power;
  N* letter;
  int32_t *code_s, *code_t;                                    // [position][lane]
  N *letter_s, *letter_t, *head_s, *head_t, *tail_s, *tail_t;  // [position]
  N *back, *after;                                             // rows of backward numbers: M, X, Y
  Doubles *column, *chance_s, *chance_t;                       // letters of t; lengths of flanks
  N total;
  Doubles inverse, run[3];

 public:
  static size_t room(const RangedAffineArguments& a, int64_t tall, int64_t wide) {
    const int64_t codes = a.joint.shape[0] + 1, both = tall + wide + 2;
    return 2 * Scratch::room<double>(codes * codes) + Scratch::room<N>(codes) +
           Scratch::room<int32_t>(both * WIDTH) + 3 * Scratch::room<N>(both) +
           2 * Scratch::room<N>(3 * (wide + 2)) + 3 * Scratch::room<Doubles>(2 * both) + 1024;
  }
  RangedAffine(Scratch& scratch, const RangedAffineArguments& a_, int64_t tall, int64_t wide)
      : a(a_),
        codes(a_.joint.shape[0]),
        ended(codes + 1),
        stay(1 - a_.rates(0)),
        leave(1 - a_.rates(1)),
        end(1 - a_.rates(2)),
        local(a_.rates.shape[0] > 3),
        counting(a_.matched.given()) {
    match_value = scratch.take<double>(ended * ended),
    match_power = scratch.take<int64_t>(ended * ended);
    letter = scratch.take<N>(ended);
    code_s = scratch.take<int32_t>((tall + 1) * WIDTH),
    code_t = scratch.take<int32_t>((wide + 1) * WIDTH);
    letter_s = scratch.take<N>(tall + 1), letter_t = scratch.take<N>(wide + 1);
    head_s = scratch.take<N>(tall + 1), head_t = scratch.take<N>(wide + 1);
    tail_s = scratch.take<N>(tall + 1), tail_t = scratch.take<N>(wide + 1);
    back = scratch.take<N>(3 * (wide + 2)), after = scratch.take<N>(3 * (wide + 2));
    column = scratch.take<Doubles>(wide + 1);
    chance_s = scratch.take<Doubles>(2 * (tall + 1)),
    chance_t = scratch.take<Doubles>(2 * (wide + 1));
    opened = Of::number(a.rates(0)), extended = Of::number(a.rates(1));
    if (local) flank_open = Of::number(a.rates(3)), flank_extend = Of::number(a.rates(4));
    const N more = Of::number(a.rates(2));
    for (int64_t p = 0; p < ended; ++p) {
      letter[p] = p < codes ? Of::number(a.insertion(p)) : Of::zero();
      for (int64_t q = 0; q < ended; ++q) {
        const N both = p < codes && q < codes ? Of::number(a.joint(p, q)) * more : Of::zero();
        match_value[p * ended + q] = both.value[0], match_power[p * ended + q] = both.power[0];
      }
    }
  }

  void pair(const PairLanes& pairs, Scratch& scratch) {
    gather(pairs.s, pairs.n, pairs.tall, code_s, letter_s, head_s, tail_s);
    gather(pairs.t, pairs.m, pairs.wide, code_t, letter_t, head_t, tail_t);
    total = Of::zero();
    for (int lane = 0; local && lane < WIDTH; ++lane) {  // no match: one flank
      const N none = head_s[pairs.n[lane]] * head_t[pairs.m[lane]];
      total.value[lane] = none.value[lane], total.power[lane] = none.power[lane];
    }
    const int64_t line = 3 * (pairs.wide + 1);
    auto forward = [&](int64_t i, const N* above, N* here, bool fresh) {
      forward_row(i, pairs.wide, above, here, fresh);
      for (int lane = 0; fresh && !local && lane < WIDTH; ++lane) {
        if (pairs.n[lane] != i) continue;
        const N last = before_match(here + 3 * pairs.m[lane]);
        total.value[lane] = last.value[lane], total.power[lane] = last.power[lane];
      }
      if (fresh && i == pairs.tall) close(pairs);
    };
    if (!counting) {
      N* two = scratch.take<N>(2 * line);
      for (int64_t i = 0; i <= pairs.tall; ++i)
        forward(i, two + (i + 1) % 2 * line, two + i % 2 * line, true);
      return;
    }
    begin_back(pairs);
    Rows<N> rows(scratch, pairs.tall + 1, line);
    for (int64_t at = 0; at < line; ++at) rows.rows[at] = Of::zero();
    rows.sweep(forward, [&](int64_t i, const N* here) { backward_row(i, here, pairs); });
    collect(pairs);
  }

 private:
  // Emissions and flanks of the strings of one side.
  void gather(const int32_t* const* strings, const int64_t* length, int64_t longest, int32_t* code,
              N* emitted, N* head, N* tail) {
    for (int64_t i = 0; i <= longest; ++i) {
      for (int lane = 0; lane < WIDTH; ++lane) {
        const int64_t which = i < length[lane] ? strings[lane][i] : codes;
        code[i * WIDTH + lane] = int32_t(which);
        emitted[i].value[lane] = letter[which].value[0],
        emitted[i].power[lane] = letter[which].power[0];
      }
      head[i] = tail[i] = Of::zero();
    }
    if (!local) return;
    const double open = a.rates(3), closed = 1 - a.rates(4);
    N run = flank_open;
    head[0] = Of::number(1 - open);
    for (int64_t i = 0; i < longest; ++i, run = run * flank_extend) {
      run = run * emitted[i];
      head[i + 1] = tidy(run.value * closed, run.power);
    }
    run = flank_open;
    Words size;
    for (int lane = 0; lane < WIDTH; ++lane) size[lane] = length[lane];
    for (int64_t i = longest; i >= 0; --i) {  // a lane begins at the end of its string
      const N grown = run * emitted[i], next = grown * flank_extend, none = Of::number(1 - open);
      auto inside = size > i, last = size == i;
      const N flank = tidy(grown.value * closed, grown.power);
      tail[i] = {inside ? flank.value
                 : last ? none.value
                        : Doubles{},
                 inside ? flank.power
                 : last ? none.power
                        : Words{} + ZERO_POWER};
      run = {inside ? next.value : run.value, inside ? next.power : run.power};
    }
  }

  MERCER_INLINE N before_match(const N* cell) const {
    return times(stay * stay, cell[0]) + times(leave * stay, cell[1]) + times(leave, cell[2]);
  }
  MERCER_INLINE N match(int64_t i, int64_t j) const {
    double value[WIDTH];
    int64_t power[WIDTH];
    for (int lane = 0; lane < WIDTH; ++lane) {
      const int64_t at = code_s[i * WIDTH + lane] * ended + code_t[j * WIDTH + lane];
      value[lane] = match_value[at], power[lane] = match_power[at];
    }
    return {load<Doubles>(value), load<Words>(power)};
  }

  void forward_row(int64_t i, int64_t wide, const N* above, N* here, bool fresh) {
    N sum = total;
    for (int64_t j = 0; j <= wide; ++j, here += 3, above += 3) {
      here[0] = i == 0 && j == 0 && !local ? Of::number(1.0) : Of::zero();
      if (i > 0 && j > 0) {
        N reached = before_match(above - 3);
        if (local) reached = reached + head_s[i - 1] * head_t[j - 1];
        here[0] = reached * match(i - 1, j - 1);
        if (local) {
          sum = sum + tail_s[i] * tail_t[j] * here[0];
          sum = tidy(sum.value, sum.power);
        }
      }
      here[1] = i > 0 ? letter_s[i - 1] * (above[0] * opened + above[1] * extended) : Of::zero();
      here[2] = Of::zero();
      if (j > 0) {
        const N free = times(stay, here[-3]) + times(leave, here[-2]);
        here[2] = letter_t[j - 1] * (free * opened + here[-1] * extended);
      }
    }
    if (fresh) total = sum;
  }

  void close(const PairLanes& pairs) {
    total = tidy(total.value * end, total.power);
    inverse = total.value > 0.0 ? 1.0 / total.value : Doubles{};
    for (int64_t lane = 0; lane < pairs.live; ++lane)
      a.log_value(pairs.first + lane) =
          total.value[lane] > 0 ? log(total.value[lane]) + double(total.power[lane]) * LOG_RADIX
                                : -INFINITY;
  }

  // a b / kappa: at most slightly above 1, so that the remaining exponent is at most 1.
  MERCER_INLINE Doubles share(N x, N y) const {
    auto power = x.power + y.power - total.power;
    Doubles value = x.value * inverse * y.value;
    return power == 0    ? value
           : power == -1 ? value * INVERSE_RADIX
           : power == 1  ? value * RADIX
                         : Doubles{};
  }

  void begin_back(const PairLanes& pairs) {
    for (int64_t at = 0; at < 3 * (pairs.wide + 2); ++at) back[at] = after[at] = Of::zero();
    for (int64_t j = 0; j <= pairs.wide; ++j) column[j] = Doubles{};
    for (int64_t i = 0; i < 2 * (pairs.tall + 1); ++i) chance_s[i] = Doubles{};
    for (int64_t j = 0; j < 2 * (pairs.wide + 1); ++j) chance_t[j] = Doubles{};
    for (Doubles& sum : run) sum = Doubles{};
  }

  void backward_row(int64_t i, const N* row, const PairLanes& pairs) {
    Doubles inserted{};
    const bool last = !local && pairs.ends_in(i);
    for (int64_t j = pairs.wide; j >= 0; --j) {
      const N *cell = row + 3 * j, *next = after + 3 * j;
      N *here = back + 3 * j, ahead = Of::zero();
      if (i < pairs.tall && j < pairs.wide) ahead = next[3] * match(i, j);
      for (int lane = 0; last && lane < WIDTH; ++lane)
        if (pairs.n[lane] == i && pairs.m[lane] == j)
          ahead.value[lane] = end, ahead.power[lane] = 0;
      const N x = next[1] * letter_s[i], y = here[5] * letter_t[j];
      const N first_s = x * opened, more_s = x * extended, first_t = y * opened,
              more_t = y * extended;
      const N both = times(stay, ahead) + first_t;  // a match or a run of t
      here[0] = times(stay, both) + first_s;
      here[1] = times(leave, both) + more_s;
      here[2] = times(leave, ahead) + more_t;
      if (local) {
        const N close = times(end, tail_s[i] * tail_t[j]);
        here[0] = here[0] + close;
        const Doubles ends = share(cell[0], close), begins = share(head_s[i] * head_t[j], ahead);
        chance_s[2 * i] += begins, chance_t[2 * j] += begins;
        chance_s[2 * i + 1] += ends, chance_t[2 * j + 1] += ends;
      }
      if (i > 0 && j > 0) add_match(i, j, share(cell[0], here[0]), pairs);
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
    N* swap = back;
    back = after, after = swap;
  }

  MERCER_INLINE void add_match(int64_t i, int64_t j, Doubles chance, const PairLanes& pairs) {
    double part[WIDTH];
    store(part, chance);
    for (int64_t lane = 0; lane < pairs.live; ++lane) {
      if (i > pairs.n[lane] || j > pairs.m[lane]) continue;
      a.matched(pairs.first + lane, pairs.s[lane][i - 1], pairs.t[lane][j - 1]) += part[lane];
    }
    if (a.probability.given()) a.probability(i - 1, j - 1) = part[0] < 1 ? part[0] : 1.0;
  }

  void collect(const PairLanes& pairs) {
    for (int64_t lane = 0; lane < pairs.live; ++lane) {
      const int64_t p = pairs.first + lane, n = pairs.n[lane], m = pairs.m[lane];
      for (int64_t j = 1; j <= m; ++j) a.letters(p, pairs.t[lane][j - 1]) += column[j][lane];
      a.runs(p, 0) += run[0][lane], a.runs(p, 1) += run[1][lane];
      if (!local) continue;
      const double none = share(head_s[n] * head_t[m], Of::number(end))[lane];
      chance_s[2 * n][lane] += none, chance_t[2 * m][lane] += none, a.runs(p, 4) += none;
      count_flanks(p, lane, pairs.s[lane], n, chance_s);
      count_flanks(p, lane, pairs.t[lane], m, chance_t);
    }
  }

  // Flanks of one string: probabilities of their lengths to expected counts.
  void count_flanks(int64_t p, int64_t lane, const int32_t* string, int64_t n,
                    const Doubles* chance) {
    double inside = 0, sum = 0;
    for (int64_t i = n - 1; i >= 0;
         --i) {  // letter i is in the flank if that has more than i letters
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
  for (int64_t p = 0; p < a.rows.shape[0]; ++p) {
    const int64_t i = a.left_offsets(a.rows(p)), j = a.right_offsets(a.columns(p));
    const int64_t n = a.left_offsets(a.rows(p) + 1) - i, m = a.right_offsets(a.columns(p) + 1) - j;
    double sum = n == m ? log(1 - a.rates(2)) : -INFINITY;
    for (int64_t k = 0; k < n && n == m; ++k)
      sum += log(a.joint(a.left(i + k), a.right(j + k))) + log(a.rates(2));
    a.log_value(p) = sum;
  }
}

inline int64_t ranged_affine(const RangedAffineArguments& a) {
  if (a.rates(0) == 0 && a.rates.shape[0] == 3 && !a.matched.given()) return match_only(a), DONE;
  const Strings left{a.left, a.left_offsets}, right{a.right, a.right_offsets};
  for (int64_t first = 0; first < a.rows.shape[0]; first += WIDTH) {
    PairLanes pairs(left, right, a.rows, a.columns, first);
    using N = RangedDoubles;
    const int64_t line = 3 * (pairs.wide + 1);
    Scratch scratch(
        RangedAffine::room(a, pairs.tall, pairs.wide) +
        (a.matched.given() ? Rows<N>::room(pairs.tall + 1, line) : Scratch::room<N>(2 * line)));
    if (scratch.failed()) return OUT_OF_MEMORY;
    RangedAffine(scratch, a, pairs.tall, pairs.wide).pair(pairs, scratch);
  }
  return DONE;
}

}  // namespace mercer
