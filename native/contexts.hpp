// Products of two Markov chains whose contexts are the last `order` symbols (PPK-4.2a).
//
// A context is an integer, its symbols as digits, the oldest first: after the symbol s, the context
// c becomes (c k + s) % C with C = k^order. Lanes are chains of the right side.
//
//     now_0 = first o first',   now'[t] = sum_p now[p C / k + t / k] weight[p C + t],   k_L = now
//     stop
//
// with weight = step o step', where p is the symbol that is forgotten (for order 0, the only
// context reads p). Limited by loads of the weights.
#pragma once
#include "view.hpp"

namespace mercer {

struct ContextChains {
  View<const double, 2> first;  // [N C]
  View<const double, 3> step;   // [N C k]
  View<const double, 2> stop;   // [N C] weights of contexts at the end

  double smallest_weight(int64_t i) const {
    double least = 1.0;
    auto visit = [&](const double* x, int64_t count) {
      for (int64_t c = 0; c < count; ++c)
        if (x[c] > 0.0 && x[c] < least) least = x[c];
    };
    visit(step.at(i), step.shape[1] * step.shape[2]), visit(stop.at(i), stop.shape[1]);
    return least;
  }
};
struct ContextProductArguments {
  ContextChains left;            // [N=I]
  ContextChains right;           // [N=J]
  View<const int64_t, 1> steps;  // [H] ascending
  View<double, 3> log_value;     // [H I J] NaN where a sum may have lost a term
};

constexpr double SAFE = 1e-290;     // numbers below this may underflow soon
constexpr double HEAVY = 0x1p-256;  // sums above this have lost nothing that matters

// The chains of the right side that share the lanes of one group.
struct ContextGroup {
  Scratch& scratch;
  int64_t contexts, k;
  Doubles *first = scratch.take<Doubles>(contexts), *stop = scratch.take<Doubles>(contexts);
  Doubles *step = scratch.take<Doubles>(contexts * k), floor = Doubles{};

  void gather(const ContextChains& from, int64_t begin) {
    for (int lane = 0; lane < WIDTH; ++lane) {
      const int64_t j = minimum(begin + lane, from.first.shape[0] - 1);
      for (int64_t c = 0; c < contexts; ++c)
        first[c][lane] = from.first(j, c), stop[c][lane] = from.stop(j, c);
      for (int64_t c = 0; c < contexts * k; ++c) step[c][lane] = from.step.at(j)[c];
      floor[lane] = from.smallest_weight(j);
    }
  }
};

// The state of one chain with a group. Sums are scaled; lanes that may have lost a significant term
// are marked.
struct ContextPairs {
  Scratch& scratch;
  const ContextGroup& group;
  int64_t contexts = group.contexts, k = group.k;
  Doubles *now = scratch.take<Doubles>(contexts), *after = scratch.take<Doubles>(contexts);
  Doubles *weight = scratch.take<Doubles>(contexts * k), *stop = scratch.take<Doubles>(contexts);
  Doubles power{}, floor{};
  Words lossy{}, lost{};

  void begin(const ContextChains& left, int64_t i) {
    auto pair = [&](Doubles* to, const double* mine, const Doubles* theirs, int64_t size) {
      for (int64_t c = 0; c < size; ++c) to[c] = theirs[c] * mine[c];
    };
    pair(now, left.first.at(i), group.first, contexts);
    pair(weight, left.step.at(i), group.step, contexts * k);
    pair(stop, left.stop.at(i), group.stop, contexts);
    power = Doubles{}, lossy = lost = Words{}, floor = group.floor * left.smallest_weight(i);
    settle();
  }

  MERCER_INLINE void settle() {
    Doubles total{}, low = spread<Doubles>(INFINITY);
    for (int64_t c = 0; c < contexts; ++c) {
      total += now[c];
      low = minimum(now[c] > 0.0 ? now[c] : low, low);
    }
    lossy |= low * floor < SAFE;
    lost |= lossy & (total < HEAVY);
    auto small = (total < HEAVY) & (total > 0.0), large = total > 1 / HEAVY;
    if (!any(small | large)) return;
    const Doubles factor = small   ? spread<Doubles>(1 / HEAVY)
                           : large ? spread<Doubles>(HEAVY)
                                   : spread<Doubles>(1.0);
    power += small ? spread<Doubles>(-256.0) : large ? spread<Doubles>(256.0) : Doubles{};
    for (int64_t c = 0; c < contexts; ++c) now[c] *= factor;
  }

  template <int K>  // symbols at once
  MERCER_INLINE void read() {
    const int64_t symbols = contexts == 1 ? 1 : k, rests = contexts / k;
    for (int64_t rest = 0; rest * symbols < contexts; ++rest)
      for (int64_t s = 0; s < symbols; s += K) {
        const int64_t t = rest * symbols + (s < symbols - K ? s : symbols - K);
        Doubles sum[K]{};
        for (int64_t p = 0; p < k; ++p) {
          const Doubles x = now[p * rests + rest];
          for (int q = 0; q < K; ++q) sum[q] += x * weight[p * contexts + t + q];
        }
        for (int q = 0; q < K; ++q) after[t + q] = sum[q];
      }
    exchange(now, after);
    settle();
  }
  void advance(int64_t steps) {
    const int64_t symbols = contexts == 1 ? 1 : k;
    for (; steps > 0; --steps)
      symbols >= 4 ? read<4>() : symbols == 3 ? read<3>() : symbols == 2 ? read<2>() : read<1>();
  }

  Doubles log_value() const {
    Doubles total{};
    for (int64_t c = 0; c < contexts; ++c) total += now[c] * stop[c];
    auto unsound = lost | (lossy & (total < HEAVY));
    Doubles log = logarithm(total) + power * LOG_2;
    return unsound ? spread<Doubles>(NAN) : total > 0.0 ? log : spread<Doubles>(-INFINITY);
  }
};

inline int64_t context_products(const ContextProductArguments& a) {
  const int64_t contexts = a.left.step.shape[1], k = a.left.step.shape[2];
  const int64_t columns = a.right.first.shape[0];
  Scratch scratch;
  ContextPairs{scratch, ContextGroup{scratch, contexts, k}};
  if (!scratch.allocate()) return OUT_OF_MEMORY;
  ContextGroup group{scratch, contexts, k};
  ContextPairs pairs{scratch, group};
  for (int64_t first = 0; first < columns; first += WIDTH) {
    group.gather(a.right, first);
    for (int64_t i = 0; i < a.left.first.shape[0]; ++i) {
      pairs.begin(a.left, i);
      for (int64_t h = 0, done = 0; h < a.steps.shape[0]; done = a.steps(h++)) {
        pairs.advance(a.steps(h) - done);
        store_some(a.log_value.at(h, i) + first, pairs.log_value(), columns - first);
      }
    }
  }
  return DONE;
}

}  // namespace mercer
