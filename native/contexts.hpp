// Markov chains whose contexts are the last `order` symbols: products of two chains (PPK-4.2a), and
// sums over the readings of uncertain symbols (FK-6).
//
// A context is an integer, its symbols as digits, the oldest first: after the symbol s, the context
// c becomes (c k + s) % C with C = k^order. Products: lanes are chains of the right side,
//
//     now_0 = first o first',   now'[t] = sum_p now[p C / k + t / k] weight[p C + t],   k_L = now
//     stop
//
// with weight = step o step', where p is the symbol that is forgotten (for order 0, the only
// context reads p). Limited by loads of the weights. Sums over readings are scalar: few contexts
// are possible at a time, and each goes to few others.
#pragma once
#include "number.hpp"
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
  View<double, 3> log_value;     // [H I J]
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

// The state of one chain with a group: plain numbers are scaled and watched, ranged ones need not.
template <class N>
struct ContextPairs {
  static constexpr bool RANGED = sizeof(N) > sizeof(Doubles);
  Scratch& scratch;
  int64_t contexts, k;
  N *now = scratch.take<N>(contexts), *after = scratch.take<N>(contexts);
  N *weight = scratch.take<N>(contexts * k), *stop = scratch.take<N>(contexts);
  Doubles power{}, floor{};
  Words lossy{}, lost{};

  void begin(const ContextChains& left, int64_t i, const ContextGroup& group, double floor_a) {
    auto pair = [&](N* to, const double* mine, const Doubles* theirs, int64_t size) {
      for (int64_t c = 0; c < size; ++c)
        to[c] = Numbers<N>::of(spread<Doubles>(mine[c])) * Numbers<N>::of(theirs[c]);
    };
    pair(now, left.first.at(i), group.first, contexts);
    pair(weight, left.step.at(i), group.step, contexts * k);
    pair(stop, left.stop.at(i), group.stop, contexts);
    power = Doubles{}, lossy = lost = Words{}, floor = group.floor * floor_a;
    settle();
  }

  // Scale sums that are far from one; lanes that may have lost a significant term are marked.
  MERCER_INLINE void settle() {
    if constexpr (!RANGED) {
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
  }

  template <int K>  // symbols at once
  MERCER_INLINE void read() {
    const int64_t symbols = contexts == 1 ? 1 : k, rests = contexts / k;
    for (int64_t rest = 0; rest * symbols < contexts; ++rest)
      for (int64_t s = 0; s < symbols; s += K) {
        const int64_t t = rest * symbols + (s < symbols - K ? s : symbols - K);
        N sum[K];
        for (int q = 0; q < K; ++q) sum[q] = Numbers<N>::zero();
        for (int64_t p = 0; p < k; ++p) {
          const N x = now[p * rests + rest];
          for (int q = 0; q < K; ++q) multiply_add(sum[q], x, weight[p * contexts + t + q]);
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

  Doubles log_value() const {  // NaN where it is not sound
    N total = Numbers<N>::zero();
    for (int64_t c = 0; c < contexts; ++c) multiply_add(total, now[c], stop[c]);
    if constexpr (RANGED) {
      Doubles log;
      for (int lane = 0; lane < WIDTH; ++lane) log[lane] = log_of(total, lane);
      return log;
    } else {
      auto unsound = lost | (lossy & (total < HEAVY));
      Doubles log = logarithm(total) + power * LOG_2;
      return unsound ? spread<Doubles>(NAN) : total > 0.0 ? log : spread<Doubles>(-INFINITY);
    }
  }

  // Write the values of all numbers of steps, or only those that are not sound yet; return whether
  // some are not.
  bool write(const ContextProductArguments& a, int64_t i, int64_t first) {
    bool unsound = false;
    for (int64_t h = 0, done = 0; h < a.steps.shape[0]; done = a.steps(h++)) {
      advance(a.steps(h) - done);
      const Doubles log = log_value();
      for (int lane = 0; lane < WIDTH && first + lane < a.right.first.shape[0]; ++lane) {
        double& value = a.log_value(h, i, first + lane);
        if (!RANGED || value != value) value = log[lane];
        unsound |= value != value;
      }
    }
    return unsound;
  }
};

inline int64_t context_products(const ContextProductArguments& a) {
  const int64_t rows = a.left.first.shape[0], contexts = a.left.step.shape[1],
                k = a.left.step.shape[2];
  Scratch scratch, more;
  scratch.take<double>(rows), ContextGroup{scratch, contexts, k};
  ContextPairs<Doubles>{scratch, contexts, k}, ContextPairs<RangedDoubles>{more, contexts, k};
  if (!scratch.allocate()) return OUT_OF_MEMORY;
  double* floors = scratch.take<double>(rows);
  for (int64_t i = 0; i < rows; ++i) floors[i] = a.left.smallest_weight(i);
  ContextGroup group{scratch, contexts, k};
  ContextPairs<Doubles> plain{scratch, contexts, k};
  for (int64_t first = 0; first < a.right.first.shape[0]; first += WIDTH) {
    group.gather(a.right, first);
    for (int64_t i = 0; i < rows; ++i) {
      plain.begin(a.left, i, group, floors[i]);
      if (!plain.write(a, i, first)) continue;
      if (!more.allocate()) return OUT_OF_MEMORY;
      ContextPairs<RangedDoubles> careful{more, contexts, k};
      careful.begin(a.left, i, group, floors[i]);
      careful.write(a, i, first);
    }
  }
  return DONE;
}

// ---- sequences with uncertain symbols under one chain: sums over all possible contexts

struct ReadingArguments {
  View<const double, 1> initial;  // [h] of the first `order` symbols; if end, of fewer after them
  View<const int64_t, 1> slots;   // [C] the row of every context
  View<const double, 2> rows;     // [R w] probabilities of symbols, and of the end
  int64_t order;
  int64_t end;                     // whether there is an end state
  View<const int64_t, 1> codes;    // [T]
  View<const int64_t, 1> offsets;  // [M1]
  View<const uint8_t, 2> members;  // [c k] the symbols that every code stands for
  int64_t nodes;             // largest number of possible contexts of a sequence, of all times
  View<double, 1> log_prob;  // [M]?
  View<int64_t, 1> owner;    // [E]? the sequence of an expected window
  View<int64_t, 1> window;   // [E]? context * w + symbol
  View<double, 1> number;    // [E]? how often it is expected
};

// The possible contexts of one sequence, layer by layer, with their forward weights.
struct Layers {
  Scratch& scratch;
  const ReadingArguments& a;
  int64_t k = a.members.shape[1], width = a.rows.shape[1], contexts = a.slots.shape[0];
  int64_t stride = contexts > 1;
  int64_t* where = scratch.take<int64_t>(contexts);  // place in the newest layer, or -1
  int64_t* context = scratch.take<int64_t>(a.nodes);
  int64_t* begin = scratch.take<int64_t>(a.codes.shape[0] + 3);
  double *alpha = scratch.take<double>(a.nodes), *beta = scratch.take<double>(a.nodes);

  const double* row(int64_t node) const { return a.rows.at(a.slots(context[node])); }
  // The contexts that follow: this one for symbol 0, and `stride` times s more for the symbol s.
  int64_t next(int64_t node) const { return context[node] * k % contexts; }

  // All readings of up to `order` codes, as integers; return their number.
  int64_t prefixes(int64_t start, int64_t stop) const {
    int64_t count = 1;
    context[0] = 0;
    for (int64_t t = start; t < stop; ++t) {
      int64_t possible = 0;
      const uint8_t* readings = a.members.at(a.codes(t));
      for (int64_t s = 0; s < k; ++s) possible += readings[s] != 0;
      for (int64_t i = count - 1; i >= 0; --i) {  // from the last, so that none is overwritten
        int64_t to = (i + 1) * possible;
        const int64_t prefix = context[i];
        for (int64_t s = k - 1; s >= 0; --s)
          if (readings[s]) context[--to] = prefix * k + s;
      }
      count *= possible;
    }
    return count;
  }

  // Read one symbol: the nodes from lo to hi lead to a new layer at `to`, scaled to sum 1; return
  // its end.
  int64_t read(const uint8_t* readings, int64_t lo, int64_t hi, int64_t to, double& total) const {
    int64_t count = to;
    total = 0.0;
    for (int64_t i = lo; i < hi; ++i) {
      const double* p = row(i);
      int64_t target = next(i);
      for (int64_t s = 0; s < k; ++s, target += stride) {
        const double x = alpha[i] * p[s];
        if (!readings[s] || !(x > 0.0)) continue;
        if (where[target] < 0) {
          where[target] = count;
          context[count] = target, alpha[count++] = 0.0;
        }
        alpha[where[target]] += x, total += x;
      }
    }
    for (int64_t i = to; i < count; ++i) where[context[i]] = -1, alpha[i] /= total;
    return count;
  }

  // Forward over the sequence; return its log probability. If only that is wanted, layers alternate
  // between two places, else all are kept.
  double forward(int64_t start, int64_t stop) const {
    int64_t lo = 0, hi = prefixes(start, start + a.order), layer = 0;
    begin[0] = 0, begin[1] = hi;
    for (int64_t i = 0; i < hi; ++i) alpha[i] = a.initial(context[i]);
    double value = 0.0, product = 1.0, factor, total = 0.0;  // one logarithm for many factors
    for (int64_t t = start + a.order; t < stop; ++t) {
      const int64_t to = !a.log_prob.given() ? hi : lo ? 0 : contexts;
      hi = read(a.members.at(a.codes(t)), lo, hi, to, factor), lo = to;
      begin[++layer + 1] = hi;
      if (product < 1e-150 || factor < 1e-150) value += log(product), product = 1.0;
      product *= factor;
    }
    for (int64_t i = lo; i < hi; ++i) {
      beta[i] = a.end ? row(i)[k] : 1.0;
      total += alpha[i] * beta[i];
    }
    for (int64_t i = lo; i < hi; ++i) beta[i] /= total;
    return total > 0.0 ? value + log(product) + log(total) : -INFINITY;
  }

  // The log probability of a sequence shorter than the order.
  double brief(int64_t start, int64_t stop) const {
    const int64_t count = prefixes(start, stop);
    int64_t size = 1, base = contexts;
    double total = 0.0;
    for (int64_t t = start; t < stop; ++t) base += size, size *= k;
    const int64_t share = a.end ? 1 : contexts / size;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < share; ++c)
        total += a.initial(a.end ? base + context[i] : context[i] * share + c);
    return log(total);
  }

  // Backward after `forward`: write the expected number of every window from `found` on; return the
  // new number of windows.
  int64_t windows(int64_t sequence, int64_t start, int64_t stop, int64_t found) const {
    auto add = [&](int64_t node, int64_t s, double number) {
      a.owner(found) = sequence, a.window(found) = context[node] * width + s;
      a.number(found++) = number;
    };
    int64_t layer = stop - start - a.order;
    for (int64_t i = begin[layer]; a.end && i < begin[layer + 1]; ++i)
      add(i, k, alpha[i] * beta[i]);
    for (--layer; layer >= 0; --layer) {
      const uint8_t* readings = a.members.at(a.codes(start + a.order + layer));
      double total = 0.0;
      for (int64_t i = begin[layer + 1]; i < begin[layer + 2]; ++i) where[context[i]] = i;
      auto targets = [&](int64_t i, auto visit) {
        const int64_t to = next(i);
        for (int64_t s = 0; s < k; ++s)
          if (int64_t target = where[to + s * stride]; readings[s] && target >= 0) visit(s, target);
      };
      for (int64_t i = begin[layer]; i < begin[layer + 1]; ++i) {
        beta[i] = 0.0;
        targets(i, [&](int64_t s, int64_t target) { beta[i] += row(i)[s] * beta[target]; });
        total += alpha[i] * beta[i];
      }
      for (int64_t i = begin[layer]; i < begin[layer + 1]; ++i) {
        targets(i, [&](int64_t s, int64_t target) {
          add(i, s, alpha[i] * row(i)[s] * beta[target] / total);
        });
        beta[i] /= total;
      }
      for (int64_t i = begin[layer + 1]; i < begin[layer + 2]; ++i) where[context[i]] = -1;
    }
    return found;
  }
};

// Log probabilities or expected windows; returns the number of windows. Impossible sequences have
// none.
inline int64_t readings(const ReadingArguments& a) {
  Scratch scratch;
  Layers{scratch, a};
  if (!scratch.allocate()) return OUT_OF_MEMORY;
  const Layers layers{scratch, a};
  for (int64_t c = 0; c < layers.contexts; ++c) layers.where[c] = -1;
  int64_t found = 0;
  for (int64_t m = 0; m + 1 < a.offsets.shape[0]; ++m) {
    const int64_t start = a.offsets(m), stop = a.offsets(m + 1);
    const bool brief = stop - start < a.order;
    const double log = brief ? layers.brief(start, stop) : layers.forward(start, stop);
    if (a.log_prob.given())
      a.log_prob(m) = log;
    else if (!brief && log > -INFINITY)
      found = layers.windows(m, start, stop, found);
  }
  return found;
}

}  // namespace mercer
