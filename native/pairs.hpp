// Pair hidden Markov models of any states (MK-5), with affine gaps among them (MK-5b, MK-5d): log
// kernels of pairs of strings, and expected counts, for all parameters and lengths.
//
//     F_q(i,j) = e_q(s_i, t_j) sum_p w_pq F_p(i - a_q, j - b_q),    kappa = sum_p w_p,end F_p(n,m)
//     B_p(i,j) = sum_q w_pq e_q(s_{i+1}, t_{j+1}) B_q(i + a_q, j + b_q)
//
// A state q gives a symbol to s (a = 1), to t (b = 1), to both or to none; states without symbols
// follow, in their order, those that lead to them. State 0 begins with weight 1. Lanes are
// different pairs, whose emissions are zero after the end of a string. Numbers have exponents of
// their own; if weights are EASY, of ordinary size, a number is normalized once in every state.
// Limited by the sums, some six instructions each; the loops over the states and edges of affine
// gaps are unrolled (pairs_graph.hpp).
#pragma once
#include "pairs_graph.hpp"
#include "pairs_lanes.hpp"

namespace mercer {

struct PairArguments {
  PairMachine machine;
  PairStrings strings;
  int64_t codes;
  int64_t easy;               // whether weights are EASY
  View<double, 1> log_value;  // [P] -inf if a pair is impossible
  View<double, 2> passed;     // [P E]? gradients in the weights
  View<double, 2> emitted;    // [P T]? of emissions: gradients, or if EASY their counts
  View<double, 2> matched;    // [n m]? posteriors that symbols of the only pair were given together
};

template <class V, bool EASY, class Graph>
struct PairSweep {
  using N = Ranged<V>;
  using Of = Numbers<N>;
  static constexpr int W = lanes_of<V>;
  using Places = int64_t[W];

 public:
  const PairArguments& a;
  const PairLanes<W> pairs;
  Graph g;
  const int64_t n = a.machine.states.shape[0], n_edges = a.machine.edges.shape[0];
  const int64_t nowhere = a.machine.table.shape[0], line = (pairs.wide + 2) * n;
  const bool counting = a.passed.given();
  Scratch scratch{};
  N* weight;               // of the edges
  double *sums, *value;    // expected counts of emissions; these, and zero,
  int64_t* power;          // as numbers
  int64_t *left, *right;   // codes at positions 1, 2, ... of each lane; -1 after the end
  N *down, *across;        // [position][state] emissions of states that give one symbol
  N *two, *back, *after;   // rows: forward without counts; backward, times emissions
  V *gain, *row, *column;  // sums: of edges; of symbols of s in this row; of t
  Rows<N> rows;
  N total = Of::zero();
  V inverse{};

  int64_t process() {
    if (!scratch.lay_out([&] { take(); })) return OUT_OF_MEMORY;
    arrange();
    auto forward = [&](int64_t i, const N* above, N* here, bool fresh) {
      forward_row(i, above, here);
      if (fresh) close(i, here);
    };
    if (!counting) {
      for (int64_t at = 0; at < line; ++at) two[line + at] = Of::zero();
      for (int64_t i = 0; i <= pairs.tall; ++i)
        forward(i, two + (i + 1) % 2 * line, two + i % 2 * line, true);
      return DONE;
    }
    for (int64_t at = 0; at < line; ++at) rows.rows[at] = back[at] = after[at] = Of::zero();
    for (int64_t k = 0; k < n_edges; ++k) gain[k] = V{};
    for (int64_t at = 0; at < line; ++at) column[at] = V{};
    for (int64_t at = 0; at < (nowhere + 1) * W; ++at) sums[at] = 0.0;
    rows.sweep(forward, [&](int64_t i, const N* here) { backward_row(i, here); });
    collect();
    return DONE;
  }

 private:
  void take() {
    g.take(scratch, n, n_edges), scratch.give(n_edges, weight);
    scratch.give(nowhere + 1, value), scratch.give(nowhere + 1, power);
    scratch.give((pairs.tall + 1) * W, left), scratch.give((pairs.wide + 1) * W, right);
    scratch.give((pairs.tall + 1) * n, down), scratch.give((pairs.wide + 1) * n, across);
    if (!counting) return scratch.give(2 * line, two);
    scratch.give(line, back, after), scratch.give(n_edges, gain), scratch.give(n, row);
    scratch.give((nowhere + 1) * W, sums), scratch.give(line, column);
    rows.take(scratch, pairs.tall + 1, line);
  }
  void arrange() {
    const PairMachine& m = a.machine;
    g.fill(m, EASY);
    for (int64_t e = 0; e < n_edges; ++e) weight[e] = Of::number(m.weights(e));
    for (int64_t at = 0; at <= nowhere; ++at) {
      const N x = at < nowhere ? Of::number(m.table(at)) : Of::zero();
      value[at] = x.value[0], power[at] = x.power[0];
    }
    spell(left, pairs.s, pairs.n, pairs.tall), spell(right, pairs.t, pairs.m, pairs.wide);
    g.states([&](auto q) {
      Places at{};
      for (int64_t i = 0; g.kind(q) == FIRST && i <= pairs.tall; ++i)
        find(q, i, 0, at), down[i * n + q] = look(at);
      for (int64_t j = 0; g.kind(q) == SECOND && j <= pairs.wide; ++j)
        find(q, 0, j, at), across[j * n + q] = look(at);
    });
  }
  void spell(int64_t* codes, const int32_t* const* strings, const int64_t* length,
             int64_t longest) {
    for (int64_t i = 0; i <= longest; ++i)
      for (int lane = 0; lane < W; ++lane)
        codes[i * W + lane] = i > 0 && i <= length[lane] ? strings[lane][i - 1] : -1;
  }

  // Where the emissions of a state are in the table, and their values.
  template <class State>
  MERCER_INLINE void find(State q, int64_t i, int64_t j, Places& at) const {
    const int64_t begin = a.machine.states(q, 1), rows = g.kind(q) == BOTH ? a.codes : 1;
    for (int lane = 0; lane < W; ++lane) {
      const int64_t s = g.kind(q) & FIRST ? left[i * W + lane] : 0,
                    t = g.kind(q) & SECOND ? right[j * W + lane] : 0;
      at[lane] = (s | t) < 0 ? nowhere : begin + s * rows + t;
    }
  }
  MERCER_INLINE N look(const Places& at) const {
    N e{};
    for (int lane = 0; lane < W; ++lane) {
      e.value[lane] = value[at[lane]];
      if (!EASY) e.power[lane] = power[at[lane]];
    }
    return e;
  }
  template <class State>
  MERCER_INLINE N emission(State q, int64_t i, int64_t j, Places& at) const {
    if (g.kind(q) == BOTH) {
      find(q, i, j, at);
      return look(at);
    }
    const N& e = g.kind(q) == FIRST ? down[i * n + q] : across[j * n + q];
    return {e.value, e.power};  // not a copy of e, which is slow
  }
  MERCER_INLINE N weigh(const N& w, const N& x) const {
    return EASY ? N{w.value * x.value, x.power} : w * x;
  }
  MERCER_INLINE N emit(const N& e, const N& x) const {
    return EASY ? tidy<V>(e.value * x.value, x.power) : e * x;
  }
  static MERCER_INLINE void add(N& sum, const N& x, bool first) {  // copies of numbers are slow
    if (first) return void((sum.value = x.value, sum.power = x.power));
    const N more = sum + x;
    sum.value = more.value, sum.power = more.power;
  }
  // Sum of what leads to a state.
  template <class State>
  MERCER_INLINE N entered(State q, const N* cell) const {
    N sum = Of::zero();
    g.into(q, [&](auto k, auto from, auto edge, bool first) MERCER_LAMBDA {
      const N x = weigh(weight[edge], cell[from]);
      add(sum, x, first);
    });
    return sum;
  }

  void forward_row(int64_t i, const N* above, N* here) {
    for (int64_t q = 0; q < n; ++q) here[q] = Of::zero();
    for (int64_t j = 0; j <= pairs.wide; ++j, here += n, above += n) {
      N* cell = here + n;
      const N* sources[] = {cell, above + n, here, above};
      g.states([&](auto q) MERCER_LAMBDA {
        Places at{};
        const N sum = entered(q, sources[g.kind(q)]);
        cell[q] =
            g.kind(q) == NOTHING ? tidy<V>(sum.value, sum.power) : emit(emission(q, i, j, at), sum);
        if (q + i + j == 0) cell[q] = Of::number(1.0);
      });
    }
  }

  // The log kernels of the pairs of which a string ends in this row.
  void close(int64_t i, const N* here) {
    for (int lane = 0; lane < W; ++lane) {
      if (pairs.n[lane] != i) continue;
      const N all = entered(g.end(), here + (pairs.m[lane] + 1) * n);
      set_lane(total, tidy<V>(all.value, all.power), lane);
      if (lane < pairs.live)
        a.log_value(pairs.first + lane) = total.value[lane] > 0 ? log_of(total, lane) : -INFINITY;
    }
    inverse = total.value > 0.0 ? 1.0 / total.value : V{};
  }

  // x y / kappa, where zero and infinity stand for numbers out of range.
  MERCER_INLINE V share(const N& x, const N& y) const {
    const auto power = x.power + y.power - total.power;
    const V v = x.value * inverse * y.value;
    if (!EASY) return plain(tidy<V>(v, power));
    // at most a little above one, divided by a weight
    return power == 0 ? v : power == -1 ? v * INVERSE_RADIX : power == 1 ? v * RADIX : V{};
  }

  void backward_row(int64_t i, const N* here) {
    const bool last = pairs.ends_in(i);
    for (int64_t q = 0; q < n; ++q) row[q] = V{};
    for (int64_t j = pairs.wide; j >= 0; --j) {
      const N *cell = here + (j + 1) * n, *above = cell - line;
      const N* sources[] = {cell, above, cell - n, above - n};
      N *mine = back + j * n, arrived = Of::zero();
      const N* targets[] = {mine, after + j * n, mine + n, after + (j + 1) * n};
      for (int lane = 0; last && lane < W; ++lane)
        if (pairs.n[lane] == i && pairs.m[lane] == j) set_lane(arrived, Of::number(1.0), lane);
      g.states_back([&](auto q) MERCER_LAMBDA {
        N sum = Of::zero();
        g.out_of(q, [&](auto k, auto to, auto edge, bool first) MERCER_LAMBDA {
          if (g.ends(to) && !last) return;
          const N& next = g.ends(to) ? arrived : targets[g.kind(to)][to];
          const N x = weigh(weight[edge], next);
          add(sum, x, first);
          gain[edge] += share(cell[q], next);
        });
        if (g.kind(q) == NOTHING) {
          mine[q] = tidy<V>(sum.value, sum.power);
          return;
        }
        Places at{};
        const N e = emission(q, i, j, at);
        mine[q] = emit(e, sum);
        const V chance = share(EASY ? cell[q] : entered(q, sources[g.kind(q)]), sum);
        if (g.kind(q) == FIRST) row[q] += chance;
        if (g.kind(q) == SECOND) column[j * n + q] += chance;
        if (g.kind(q) != BOTH) return;
        add(at, chance);
        if (a.matched.given() && i > 0 && j > 0)
          a.matched(i - 1, j - 1) += EASY ? chance[0] : chance[0] * plain(e)[0];
      });
    }
    g.states([&](auto q) {
      Places at{};
      if (g.kind(q) == FIRST) find(q, i, 0, at), add(at, row[q]);
    });
    exchange(back, after);
  }

  MERCER_INLINE void add(const Places& at, V chance) {
    double part[W];
    store(part, chance);
    for (int lane = 0; lane < W; ++lane) sums[at[lane] * W + lane] += part[lane];
  }
  void collect() {
    g.states([&](auto q) {
      Places at{};
      for (int64_t j = 0; g.kind(q) == SECOND && j <= pairs.wide; ++j)
        find(q, 0, j, at), add(at, column[j * n + q]);
    });
    for (int lane = 0; lane < pairs.live; ++lane) {
      const int64_t p = pairs.first + lane;
      for (int64_t k = 0; k < n_edges; ++k) a.passed(p, k) = gain[k][lane];
      for (int64_t k = 0; k < nowhere; ++k) a.emitted(p, k) = sums[k * W + lane];
    }
  }
};

template <class V, bool EASY, class Graph>
int64_t pair_groups(const PairArguments& a) {
  int64_t status = DONE;
  for (int64_t first = 0; first < a.log_value.shape[0] && status == DONE; first += lanes_of<V>)
    status = PairSweep<V, EASY, Graph>{a, {a.strings, first}, {}}.process();
  return status;
}

template <class V>
int64_t pairs_in(const PairArguments& a) {
  if (!a.easy) return pair_groups<V, false, AnyGraph>(a);
  if (AFFINE.same(a.machine)) return pair_groups<V, true, FixedGraph<AFFINE>>(a);
  if (LOCAL_AFFINE.same(a.machine)) return pair_groups<V, true, FixedGraph<LOCAL_AFFINE>>(a);
  return pair_groups<V, true, AnyGraph>(a);
}

// A pair alone has one lane.
inline int64_t pairs(const PairArguments& a) {
  return a.log_value.shape[0] == 1 ? pairs_in<Vec<double, 1>>(a) : pairs_in<Doubles>(a);
}

}  // namespace mercer
