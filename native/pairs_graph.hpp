// States and edges of pair hidden Markov models: lists of the edges into and out of every state, of
// any model, or of affine gaps (MK-5b, MK-5d), where loops are unrolled.
#pragma once
#include "number.hpp"
#include "view.hpp"

namespace mercer {

enum Given : int64_t { NOTHING, FIRST, SECOND, BOTH };  // which strings a state gives a symbol

struct PairMachine {
  View<const int64_t, 2> states;  // [Q 2] what a state gives; where its emissions begin
  View<const int64_t, 2> edges;   // [E 2] from a state to a state, or to the end, Q
  View<const double, 1> weights;  // [E]
  View<const double, 1> table;  // [T] of codes of s or t, or of pairs of codes, those of s in rows
};

// Edges sorted by their targets and by their sources.
template <class Lists, class Edge>
constexpr void sort_edges(Lists& g, int64_t n, int64_t n_edges, Edge edge) {
  int64_t ins = 0, outs = 0;
  for (int64_t q = 0; q <= n; ++q) {
    g.in[q] = ins, g.out[q] = outs;
    for (int64_t e = 0; e < n_edges; ++e) {
      if (edge(e, 1) == q) g.from[ins] = edge(e, 0), g.in_edge[ins++] = e;
      if (edge(e, 0) == q) g.to[outs] = edge(e, 1), g.out_edge[outs++] = e;
    }
  }
  g.in[n + 1] = ins;
}

struct AnyGraph {
  int64_t n, *in, *from, *in_edge, *out, *to, *out_edge, *given;

  void take(Scratch& scratch, int64_t n_, int64_t n_edges) {
    n = n_, scratch.give(n + 2, in, out, given);
    scratch.give(n_edges, from, in_edge, to, out_edge);
  }
  void fill(const PairMachine& m, bool easy) {  // if easy, without weights of zero
    for (int64_t q = 0; q < n; ++q) given[q] = m.states(q, 0);
    sort_edges(*this, n, m.edges.shape[0], [&](int64_t e, int64_t k) {
      return easy && m.weights(e) == 0 ? -1 : m.edges(e, k);
    });
  }
  int64_t end() const { return n; }
  MERCER_INLINE bool ends(int64_t q) const { return q == n; }
  MERCER_INLINE int64_t kind(int64_t q) const { return given[q]; }
  template <class F>
  MERCER_INLINE void states(F f) const {
    for (int64_t q = 0; q < n; ++q) f(q);
  }
  template <class F>
  MERCER_INLINE void states_back(F f) const {
    for (int64_t q = n - 1; q >= 0; --q) f(q);
  }
  template <class F>  // f(k, source, edge, whether it is the first)
  MERCER_INLINE void into(int64_t q, F f) const {
    for (int64_t k = in[q]; k < in[q + 1]; ++k) f(k, from[k], in_edge[k], k == in[q]);
  }
  template <class F>
  MERCER_INLINE void out_of(int64_t q, F f) const {
    for (int64_t k = out[q]; k < out[q + 1]; ++k) f(k, to[k], out_edge[k], k == out[q]);
  }
};

// A number that is known to the compiler.
template <int64_t K>
struct Known {
  static constexpr int64_t value = K;
  constexpr operator int64_t() const { return K; }
};
template <int64_t B, int64_t E, class F>
MERCER_INLINE void unrolled(F f) {
  if constexpr (B < E) f(Known<B>{}), unrolled<B + 1, E>(f);
}

template <int Q, int E>
struct Fixed {
  int64_t given[Q]{}, in[Q + 2]{}, from[E]{}, in_edge[E]{}, out[Q + 1]{}, to[E]{}, out_edge[E]{};
  int edges[E][2]{};
  static constexpr int n = Q;

  constexpr Fixed(const int (&kinds)[Q], const int (&given_edges)[E][2]) {
    for (int q = 0; q < Q; ++q) given[q] = kinds[q];
    for (int e = 0; e < E; ++e)
      for (int k = 0; k < 2; ++k) edges[e][k] = given_edges[e][k];
    sort_edges(*this, Q, E, [&](int64_t e, int64_t k) { return given_edges[e][k]; });
  }
  bool same(const PairMachine& m) const {
    bool found = m.states.shape[0] == Q && m.edges.shape[0] == E;
    for (int q = 0; found && q < Q; ++q) found = m.states(q, 0) == given[q];
    for (int e = 0; found && e < E; ++e)
      found = m.edges(e, 0) == edges[e][0] && m.edges(e, 1) == edges[e][1] && m.weights(e) > 0;
    return found;
  }
};

template <const auto& G>
struct FixedGraph {
  void take(Scratch&, int64_t, int64_t) {}
  void fill(const PairMachine&, bool) {}
  static Known<G.n> end() { return {}; }
  template <class State>
  static constexpr bool ends(State) {
    return State::value == G.n;
  }
  template <class State>
  static constexpr int64_t kind(State) {
    return State::value < G.n ? G.given[State::value % G.n] : 0;
  }
  template <class F>
  MERCER_INLINE void states(F f) const {
    unrolled<0, G.n>(f);
  }
  template <class F>
  MERCER_INLINE void states_back(F f) const {
    unrolled<0, G.n>([&](auto q) MERCER_LAMBDA { f(Known<G.n - 1 - decltype(q)::value>{}); });
  }
  template <class State, class F>
  MERCER_INLINE void into(State, F f) const {
    constexpr int64_t begin = G.in[State::value];
    unrolled<begin, G.in[State::value + 1]>([&](auto k) MERCER_LAMBDA {
      constexpr int64_t at = decltype(k)::value;
      f(k, Known<G.from[at]>{}, Known<G.in_edge[at]>{}, at == begin);
    });
  }
  template <class State, class F>
  MERCER_INLINE void out_of(State, F f) const {
    constexpr int64_t begin = G.out[State::value];
    unrolled<begin, G.out[State::value + 1]>([&](auto k) MERCER_LAMBDA {
      constexpr int64_t at = decltype(k)::value;
      f(k, Known<G.to[at]>{}, Known<G.out_edge[at]>{}, at == begin);
    });
  }
};

// As mercer.models._pairs.affine lists them.
inline constexpr Fixed AFFINE(
    {BOTH, FIRST, NOTHING, SECOND, NOTHING},
    {{0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 3}, {2, 4}, {3, 3}, {3, 4}, {4, 0}, {4, 5}});
inline constexpr Fixed LOCAL_AFFINE({NOTHING, FIRST, NOTHING, SECOND, NOTHING, BOTH, NOTHING,
                                     NOTHING, FIRST, NOTHING, SECOND, NOTHING, FIRST, NOTHING,
                                     SECOND, NOTHING},
                                    {{0, 1},   {0, 2},   {1, 1},   {1, 2},   {2, 3},   {2, 4},
                                     {3, 3},   {3, 4},   {5, 6},   {5, 7},   {6, 8},   {6, 9},
                                     {8, 8},   {8, 9},   {9, 10},  {9, 11},  {10, 10}, {10, 11},
                                     {7, 12},  {7, 13},  {12, 12}, {12, 13}, {13, 14}, {13, 15},
                                     {14, 14}, {14, 15}, {11, 5},  {15, 16}, {4, 5},   {4, 16}});

}  // namespace mercer
