// Arguments of the forward and backward recursions, and how runs are placed in vectors.
//
// In lanes, a vector holds one state of several runs, and n times G vectors hold their n states; G
// vectors side by side hide the latency of few states. In a row, a vector holds several states of
// one run, the last one padded with states of weight zero: for many states, and for a run alone.
// Both do the same operations in the same order, so that a run has the same bits in both.
#pragma once
#include "product.hpp"
#include "view.hpp"

namespace mercer {

struct Runs {
  View<const double, 2> initial;      // [N n] of best paths, logarithms, and so below
  View<const double, 3> transition;   // [N n n]
  View<const double, 2> log_density;  // [T n]? of every observation in every state
  View<const int64_t, 1> codes;       // [T]? symbols
  View<const double, 3> probability;  // [N k n]? of every symbol in every state
  View<const int64_t, 1> start;       // [S] first observation of every run
  View<const int64_t, 1> length;      // [S] number of observations
  View<const int64_t, 1> model;       // [S]
  View<const int64_t, 1> order;       // [R] runs that are not empty, the longest first
  int64_t begin;                      // first and last of the order
  int64_t end;

  // What is known of an observation of a run: the likelihood of every state, or its logarithm.
  MERCER_INLINE const double* values(int64_t model_, int64_t at) const {
    return codes.given() ? probability.at(model_, codes(at)) : log_density.at(at);
  }
};

struct ForwardArguments : Runs {
  double trusted;               // bound of soundness
  int64_t ratios;               // divide posteriors by their own factors (FK-8)
  View<double, 1> log_prob;     // [S] -inf for impossible runs
  View<double, 2> first;        // [S n]? posterior of the first state; null for log_prob only
  View<double, 3> transitions;  // [S n n]? expected numbers
  View<double, 2> visits;       // [S n]?
  View<double, 2> states;       // [T n]? posteriors
  View<double, 3> symbols;      // [S n k]? expected numbers
  View<double, 3> steps;        // [T n n]? posterior of the step to each observation
};

constexpr int BLOCK = 32;  // observations that are processed together, in the cache

// N is the number type; K the number of vectors of all states, 0 for any.
template <class N_, int K, int G_, bool ROW_>
struct Form {
  using N = N_;
  static constexpr int G = G_;
  static constexpr bool ROW = ROW_, RANGED = sizeof(N) != sizeof(Doubles);
  static constexpr int RUNS = ROW ? 1 : G * WIDTH;
  static constexpr int MOST = RANGED ? 2 : K ? K : 12 / G;  // vectors of sums in registers
  static constexpr int FEW = ROW ? 0 : RUNS;                // symbols that are looked up in lanes
  static constexpr int LOCAL = K && !ROW ? K * G : 1;       // vectors of a row, if it is local
  int64_t n;                                                // states

  MERCER_INLINE int64_t states() const { return K && !ROW ? K : n; }
  MERCER_INLINE int64_t vectors() const { return K ? K : ROW ? (n + WIDTH - 1) / WIDTH : n; }
  MERCER_INLINE int64_t size() const { return vectors() * G; }
  static MERCER_INLINE int64_t place(int64_t state, int64_t lane) {
    return ROW ? state : state * RUNS + lane;
  }
  MERCER_INLINE N factor(const N* row, int64_t i, int g) const {
    if constexpr (ROW)
      return Numbers<N>::repeated(row, i);
    else
      return row[i * G + g];
  }

  // out = likelihood o (row times matrix), or without likelihood if it is null: every state sums
  // over all states in order.
  MERCER_INLINE void product(N* out, const N* row, const N* matrix, const N* likelihood) const {
    const int64_t n_ = states(), width = vectors();
    in_parts<MOST>(width, [&]<int C>(int64_t first) MERCER_LAMBDA {
      N sum[C][G];
      for (int c = 0; c < C; ++c)
        for (int g = 0; g < G; ++g) sum[c][g] = Numbers<N>::zero();
      for (int64_t i = 0; i < n_; ++i)
        for (int g = 0; g < G; ++g) {
          N weight = factor(row, i, g);
          const N* entry = matrix + (i * width + first) * G + g;
          for (int c = 0; c < C; ++c) multiply_add(sum[c][g], weight, entry[c * G]);
        }
      for (int c = 0; c < C; ++c)
        for (int g = 0; g < G; ++g) {
          const int64_t at = (first + c) * G + g;
          out[at] = likelihood ? sum[c][g] * likelihood[at] : sum[c][g];
        }
    });
  }

  // Combine over all states: every WIDTH-th one, then halves onto halves, in both forms.
  template <class Op>
  MERCER_INLINE Doubles combined(const Doubles* row, int g, Op op) const {
    auto halved = [&](auto* part, int64_t count) MERCER_LAMBDA {
      for (int half = WIDTH / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k)
          if (k + half < count) part[k] = op(part[k], part[k + half]);
      return part[0];
    };
    if constexpr (ROW) {
      Doubles all = row[0];
      for (int64_t k = 1; k < vectors(); ++k) all = op(all, row[k]);
      double part[WIDTH];
      store(part, all);
      return spread<Doubles>(halved(part, WIDTH));
    } else {
      Doubles part[WIDTH];
      const int64_t n_ = states();
      for (int64_t k = 0; k < n_; ++k) {
        Doubles& own = part[k % WIDTH];
        own = k < WIDTH ? row[k * G + g] : op(own, row[k * G + g]);
      }
      return halved(part, n_);
    }
  }
};

// The runs of one group and what is known of them; arrays of vectors are [time][state].
template <class F>
struct Group {
  using N = typename F::N;
  int64_t count, longest;  // lanes without a run have length 0
  int64_t start[F::RUNS], length[F::RUNS], model[F::RUNS], run[F::RUNS];
  int64_t top;       // all symbols are below it, and in `seen`; 0 if they are read one by one
  N *alpha, *ahead;  // forward weights; likelihoods, after the backward step times beta
  N* predicted;      // forward weights before the likelihood, for ratios
  Doubles* inverse;  // of the sums that forward weights were divided by
  Words* seen;       // symbols, -1 after the end of a run
  Doubles* gamma;    // posteriors of a block
  Doubles* visits;   // sums of posteriors
};

}  // namespace mercer
