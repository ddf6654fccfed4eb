// Shared histories (MK-3, MK-4, MK-6): sums over the hidden states that two samples share, in a
// chain, a tree, or independent nodes.
//
//     m_v(a) = e_s[v,a] e_t[v,a] prod over children c of sum over b of T_c[a,b] m_c(b),
//     kappa(s, t) = prod over roots r of sum over a of pi(a) m_r(a)
//
// Lanes are samples of the right side; the last one fills the lanes of the last group. R samples of
// the left side are computed together, which hides latency. A message whose largest entry is
// small is divided by a power of two near it, which changes no bit; messages only shrink, so that
// this entry bounds what was lost before. If all entries are watched, the message of every node is
// scaled. Messages that wait for another branch are kept on a stack. Limited by multiply-adds and
// by the scaling; up to eight states are template parameters, so that messages stay in registers.
#pragma once
#include "product.hpp"
#include "view.hpp"

namespace mercer {

struct HistoryArguments {
  View<const int64_t, 1> children;  // [V] numbers of children; children come before their parents
  View<const int64_t, 1> roots;     // [V] 1 for a root
  View<const int64_t, 1> waits;     // [V] 1 if the last message goes to the stack
  int64_t depth;                    // of the stack
  View<const double, 3> step;       // [E s s] E is V, or 1 for all nodes alike: state, its parent's
  View<const double, 1> root;       // [s]
  View<const double, 3> left;       // [I V s] evidence relative to the best state
  View<const double, 3> right;      // [J V s]
  View<const double, 3> log_left;   // [I V s]? its logarithms, or null where none underflows
  View<const double, 3> log_right;  // [J V s]?
  int64_t watched;                  // whether every positive entry is checked
  double least;           // of the largest entry of a message if not watched, before it is scaled
  double floor;           // of positive entries if watched, after they are scaled
  View<double, 2> value;  // [I J] logarithms, -inf for impossible pairs

  int64_t nodes() const { return children.shape[0]; }
  int64_t states() const { return root.shape[0]; }
};

constexpr double SMALL_MESSAGE = 0x1p-200;    // messages below this are scaled
constexpr double SMALLEST_EVIDENCE = 1e-300;  // if watched, a product at this floor counts as lost

// The logarithm of total 2^exponent, NaN where a number is below `least`. One function for all:
// inlined, parts of it move to where the compiler contracts them otherwise.
__attribute__((noinline)) inline Doubles history_log(Doubles total, Words exponent, Doubles low,
                                                     double least) {
  // an integer below 2^51, by way of the lowest bits of MAGIC
  Doubles power = from_bits<Doubles>(exponent + bits_of(spread<Doubles>(MAGIC))) - MAGIC;
  Doubles found = total > 0.0 ? logarithm(total) + power * LOG_2 : spread<Doubles>(-INFINITY);
  return low >= least ? found : spread<Doubles>(NAN);
}

// What pairs keep beside their message: the product of the sums over roots, its exponent, and the
// smallest number.
template <bool WATCHED>
struct ScaledHistory {
  using Number = Doubles;
  Doubles total = spread<Doubles>(1.0), low = spread<Doubles>(1.0), floor{};
  Words exponent{};

  // If entries are watched, positive values stay positive, or are recorded as lost.
  MERCER_INLINE Doubles product(Doubles x, Doubles y) {
    Doubles value = x * y;
    if (!WATCHED) return value;
    auto lost = (x > 0.0) & (y > 0.0) & (value <= SMALLEST_EVIDENCE);
    low = lost ? Doubles{} : low;
    return lost ? spread<Doubles>(SMALLEST_EVIDENCE) : value;
  }
  // The power of two that brings a positive number into [1, 2); its exponent is added up.
  MERCER_INLINE Doubles factor(Doubles top) {
    Words power = bits_of(top) & 0x7ff0000000000000;
    exponent += (power >> 52) - 1023;
    return from_bits<Doubles>(0x7fe0000000000000 - power);
  }
  // Scale a message whose largest entry is `top`.
  MERCER_INLINE void scale(Doubles* message, int64_t states, Doubles top) {
    const Doubles by = factor(top);
    if (!WATCHED) low = minimum(top, low);
    for (int64_t a = 0; a < states; ++a) {
      Doubles x = message[a] * by;
      if (WATCHED) {
        low = minimum(x > 0.0 ? x : spread<Doubles>(1.0), low);
        x = x > 0.0 ? maximum(x, floor) : Doubles{};
      }
      message[a] = x;
    }
  }
  template <int R>
  static MERCER_INLINE void scale_all(ScaledHistory* rows, Doubles* message, int64_t states) {
    Doubles top[R], least = spread<Doubles>(1.0);
    for (int r = 0; r < R; ++r) {
      top[r] = message[r * states];
      for (int64_t a = 1; a < states; ++a) top[r] = maximum(top[r], message[r * states + a]);
      least = minimum(top[r], least);
    }
    if (WATCHED || any(least < SMALL_MESSAGE))
      for (int r = 0; r < R; ++r) rows[r].scale(message + r * states, states, top[r]);
  }
  MERCER_INLINE Doubles log(const HistoryArguments& forest) const {
    return history_log(total, exponent, low, WATCHED ? forest.floor : forest.least);
  }
  MERCER_INLINE void end(Doubles sum) {
    if (!WATCHED) low = minimum(sum, low);
    total *= sum;
    total *= factor(total);
  }
};

struct RangedHistory {
  using Number = RangedDoubles;
  RangedDoubles total = Numbers<RangedDoubles>::number(1.0);

  MERCER_INLINE RangedDoubles product(RangedDoubles x, RangedDoubles y) { return x * y; }
  template <int R>
  static MERCER_INLINE void scale_all(RangedHistory*, RangedDoubles*, int64_t) {}
  MERCER_INLINE void end(RangedDoubles sum) { total = total * sum; }
};

// Pass messages to the parent: next[r][a] = sum over c of message[r][c] step[c][a]. For many
// states, in blocks of sums that fit the registers.
template <int S, int R, class N>
MERCER_INLINE void climb(N* next, const N* message, const double* step, int64_t states) {
  auto entry = [&](int64_t c, int64_t a)
                   MERCER_LAMBDA { return Numbers<N>::number(step[c * states + a]); };
  const N* none = nullptr;
  if constexpr (S > 0)
    product<R, S>(next, none, R, S, S, message, entry);
  else if (states > 12)
    product<R, 8>(next, none, R, states, states, message, entry);
  else if (states > 8)
    product<R, 6>(next, none, R, states, states, message, entry);
  else if (states >= 4)
    product<R, 4>(next, none, R, states, states, message, entry);
  else
    product<R, 1>(next, none, R, states, states, message, entry);
}

// All nodes of the forest for R rows and one group of columns. `stack` has room for depth + 2
// messages of every row; evidence(r, j, a) is that of both samples.
template <int S, int R, class Keep, class Evidence>
MERCER_INLINE void sweep_forest(const HistoryArguments& forest, Keep* rows,
                                typename Keep::Number* stack, Evidence evidence) {
  using N = typename Keep::Number;
  const int64_t states = S ? S : forest.states(), size = R * states;
  const int64_t stride = forest.step.shape[0] > 1 ? states * states : 0;
  N first[R * (S ? S : 1)], second[R * (S ? S : 1)];
  N *message = S ? first : stack, *next = S ? second : stack + size;
  N* waiting = S ? stack : stack + 2 * size;
  for (int64_t k = 0; k < size; ++k) message[k] = Numbers<N>::number(1.0);
  for (int64_t j = 0; j < forest.nodes(); ++j) {
    if (forest.waits(j)) {
      for (int64_t k = 0; k < size; ++k) waiting[k] = message[k];
      waiting += size;
    }
    const int64_t children = forest.children(j);
    if (children == 0)
      for (int64_t k = 0; k < size; ++k) message[k] = Numbers<N>::number(1.0);
    for (int64_t c = 1; c < children; ++c) {
      waiting -= size;
      for (int r = 0; r < R; ++r)
        for (int64_t k = r * states; k < (r + 1) * states; ++k)
          message[k] = rows[r].product(message[k], waiting[k]);
    }
    for (int r = 0; r < R; ++r) {
      for (int64_t a = 0; a < states; ++a)
        message[r * states + a] = rows[r].product(evidence(r, j, a), message[r * states + a]);
    }
    Keep::template scale_all<R>(rows, message, states);
    if (forest.roots(j)) {
      for (int r = 0; r < R; ++r) {
        N sum = Numbers<N>::zero();
        for (int64_t a = 0; a < states; ++a)
          multiply_add(sum, Numbers<N>::number(forest.root(a)), message[r * states + a]);
        rows[r].end(sum);
      }
    } else {
      climb<S, R>(next, message, forest.step.data + j * stride, states);
      if constexpr (S > 0) {
        for (int64_t k = 0; k < size; ++k) message[k] = next[k];
      } else {
        exchange(message, next);
      }
    }
  }
}

// One row in numbers of unlimited range.
template <class Column>
__attribute__((noinline)) Doubles ranged_histories(const HistoryArguments& a, RangedDoubles* stack,
                                                   int64_t row, Column column) {
  using N = Numbers<RangedDoubles>;
  auto evidence = [](View<const double, 3> side, View<const double, 3> logs, int64_t j, int64_t b,
                     auto member) {
    Doubles x;
    for (int lane = 0; lane < WIDTH; ++lane)
      x[lane] = (logs.given() ? logs : side)(member(lane), j, b);
    return logs.given() ? N::from_log(x) : N::of(x);
  };
  RangedHistory pair;
  sweep_forest<0, 1>(a, &pair, stack, [&](int, int64_t j, int64_t b) MERCER_LAMBDA {
    return evidence(a.left, a.log_left, j, b, [&](int) { return row; }) *
           evidence(a.right, a.log_right, j, b, column);
  });
  Doubles found;
  for (int lane = 0; lane < WIDTH; ++lane) found[lane] = log_of(pair.total, lane);
  return found;
}

template <int S, int R, bool WATCHED>
int64_t all_histories(const HistoryArguments& a) {
  const int64_t states = S ? S : a.states(), rows = a.left.shape[0], columns = a.right.shape[0];
  const int64_t size = a.nodes() * states, stacked = states * (a.depth + 2);
  Scratch scratch;
  Doubles *theirs, *stack;
  RangedDoubles* ranged;
  if (!scratch.lay_out([&] {
        scratch.give(size, theirs), scratch.give(R * stacked, stack), scratch.give(stacked, ranged);
      }))
    return OUT_OF_MEMORY;
  for (int64_t first = 0; first < columns; first += WIDTH) {
    auto column = [&](int64_t lane) { return minimum(first + lane, columns - 1); };
    for (int lane = 0; lane < WIDTH; ++lane)
      for (int64_t k = 0; k < size; ++k) theirs[k][lane] = a.right.at(column(lane))[k];
    for (int64_t i = 0; i < rows; i += R) {
      const double* mine[R];
      ScaledHistory<WATCHED> pairs[R];
      for (int r = 0; r < R; ++r) {
        mine[r] = a.left.at(minimum(i + r, rows - 1));
        pairs[r].floor = spread<Doubles>(a.floor);
      }
      sweep_forest<S, R>(a, pairs, stack, [&](int r, int64_t j, int64_t b) MERCER_LAMBDA {
        return pairs[r].product(theirs[j * states + b], spread<Doubles>(mine[r][j * states + b]));
      });
      for (int r = 0; r < R && i + r < rows; ++r) {
        const Doubles value =
            rescued(pairs[r].log(a), [&] { return ranged_histories(a, ranged, i + r, column); });
        store_some(a.value.at(i + r) + first, value, columns - first);
      }
    }
  }
  return DONE;
}

}  // namespace mercer
