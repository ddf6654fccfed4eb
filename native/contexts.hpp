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

struct ContextProductArguments {
  View<const double, 2> first_a;  // I C
  View<const double, 3> step_a;   // I C k
  View<const double, 2> stop_a;   // I C: weights of contexts at the end
  View<const double, 2> first_b;  // J C
  View<const double, 3> step_b;   // J C k
  View<const double, 2> stop_b;   // J C
  View<const int64_t, 1> steps;   // H, ascending
  View<double, 3> log_value;      // H I J
};

constexpr double SAFE = 1e-290;     // numbers below this may underflow soon
constexpr double HEAVY = 0x1p-256;  // sums above this have lost nothing that matters

inline double smallest_weight(View<const double, 3> step, View<const double, 2> stop, int64_t i) {
  double least = 1.0;
  const int64_t contexts = step.shape[1], k = step.shape[2];
  for (int64_t c = 0; c < contexts; ++c) {
    for (int64_t s = 0; s < k; ++s)
      if (double x = step(i, c, s); x > 0.0 && x < least) least = x;
    if (double x = stop(i, c); x > 0.0 && x < least) least = x;
  }
  return least;
}

// The chains of the right side that share the lanes of one group.
struct ContextGroup {
  int64_t contexts, k;
  Doubles *first, *step, *stop, floor;

  static size_t room(int64_t contexts, int64_t k) {
    return 2 * Scratch::room<Doubles>(contexts) + Scratch::room<Doubles>(contexts * k);
  }
  ContextGroup(Scratch& scratch, int64_t contexts_, int64_t k_)
      : contexts(contexts_),
        k(k_),
        first(scratch.take<Doubles>(contexts_)),
        step(scratch.take<Doubles>(contexts_ * k_)),
        stop(scratch.take<Doubles>(contexts_)) {}

  void gather(const ContextProductArguments& a, int64_t begin) {
    const int64_t last = a.first_b.shape[0] - 1;
    for (int lane = 0; lane < WIDTH; ++lane) {
      const int64_t j = begin + lane < last ? begin + lane : last;
      const double* from = a.step_b.at(j);
      for (int64_t c = 0; c < contexts; ++c)
        first[c][lane] = a.first_b(j, c), stop[c][lane] = a.stop_b(j, c);
      for (int64_t c = 0; c < contexts * k; ++c) step[c][lane] = from[c];
      floor[lane] = smallest_weight(a.step_b, a.stop_b, j);
    }
  }
};

// The state of one chain with a group: plain numbers are scaled and watched, ranged ones need not.
template <class N>
struct ContextPairs {
  static constexpr bool RANGED = sizeof(N) > sizeof(Doubles);
  int64_t contexts, k;
  N *now, *after, *weight, *stop;
  Doubles power, floor;
  Words lossy, lost;

  static size_t room(int64_t contexts, int64_t k) {
    return 3 * Scratch::room<N>(contexts) + Scratch::room<N>(contexts * k);
  }
  ContextPairs(Scratch& scratch, int64_t contexts_, int64_t k_)
      : contexts(contexts_),
        k(k_),
        now(scratch.take<N>(contexts_)),
        after(scratch.take<N>(contexts_)),
        weight(scratch.take<N>(contexts_ * k_)),
        stop(scratch.take<N>(contexts_)) {}

  void begin(const ContextProductArguments& a, int64_t i, const ContextGroup& group,
             double floor_a) {
    auto pair = [&](N* to, const double* mine, const Doubles* theirs, int64_t size) {
      for (int64_t c = 0; c < size; ++c)
        to[c] = Numbers<N>::of(spread<Doubles>(mine[c])) * Numbers<N>::of(theirs[c]);
    };
    pair(now, a.first_a.at(i), group.first, contexts);
    pair(weight, a.step_a.at(i), group.step, contexts * k);
    pair(stop, a.stop_a.at(i), group.stop, contexts);
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
    N* swap = now;
    now = after, after = swap;
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
      for (int lane = 0; lane < WIDTH && first + lane < a.first_b.shape[0]; ++lane) {
        double& value = a.log_value(h, i, first + lane);
        if (!RANGED || value != value) value = log[lane];
        unsound |= value != value;
      }
    }
    return unsound;
  }
};

inline int64_t context_products(const ContextProductArguments& a) {
  using Plain = ContextPairs<Doubles>;
  using Careful = ContextPairs<RangedDoubles>;
  const int64_t rows = a.first_a.shape[0], contexts = a.step_a.shape[1], k = a.step_a.shape[2];
  Scratch scratch(Scratch::room<double>(rows) + ContextGroup::room(contexts, k) +
                  Plain::room(contexts, k));
  if (scratch.failed()) return OUT_OF_MEMORY;
  double* floors = scratch.take<double>(rows);
  for (int64_t i = 0; i < rows; ++i) floors[i] = smallest_weight(a.step_a, a.stop_a, i);
  ContextGroup group(scratch, contexts, k);
  Plain plain(scratch, contexts, k);
  for (int64_t first = 0; first < a.first_b.shape[0]; first += WIDTH) {
    group.gather(a, first);
    for (int64_t i = 0; i < rows; ++i) {
      plain.begin(a, i, group, floors[i]);
      if (!plain.write(a, i, first)) continue;
      Scratch more(Careful::room(contexts, k));
      if (more.failed()) return OUT_OF_MEMORY;
      Careful careful(more, contexts, k);
      careful.begin(a, i, group, floors[i]);
      careful.write(a, i, first);
    }
  }
  return DONE;
}

// ---- sequences with uncertain symbols under one chain: sums over all possible contexts

struct ReadingArguments {
  View<const double, 1> initial;  // of the first `order` symbols, then of shorter sequences if end
  View<const int64_t, 1> slots;   // C: the row of every context
  View<const double, 2> rows;     // R w: probabilities of symbols, and of the end
  int64_t order;
  int64_t end;                     // whether there is an end state
  View<const int64_t, 1> codes;    // T
  View<const int64_t, 1> offsets;  // M + 1
  View<const uint8_t, 2> members;  // codes k: the symbols that every code stands for
  int64_t nodes;             // largest number of possible contexts of a sequence, of all times
  View<double, 1> log_prob;  // M; or null
  View<int64_t, 1> owner;    // E: the sequence of an expected window; or null
  View<int64_t, 1> window;   // E: context * w + symbol
  View<double, 1> number;    // E: how often it is expected
};

// The possible contexts of one sequence, layer by layer, with their forward weights.
struct Layers {
  const ReadingArguments& a;
  const int64_t k, width, contexts, stride;
  int64_t *where, *context, *begin;  // place of a context in the newest layer, or -1
  double *alpha, *beta;

  static size_t room(const ReadingArguments& a) {
    return Scratch::room<int64_t>(a.slots.shape[0]) + Scratch::room<int64_t>(a.nodes) +
           Scratch::room<int64_t>(a.codes.shape[0] + 3) + 2 * Scratch::room<double>(a.nodes);
  }
  Layers(Scratch& scratch, const ReadingArguments& given)
      : a(given),
        k(given.members.shape[1]),
        width(given.rows.shape[1]),
        contexts(given.slots.shape[0]),
        stride(contexts > 1),
        where(scratch.take<int64_t>(contexts)),
        context(scratch.take<int64_t>(given.nodes)),
        begin(scratch.take<int64_t>(given.codes.shape[0] + 3)),
        alpha(scratch.take<double>(given.nodes)),
        beta(scratch.take<double>(given.nodes)) {
    for (int64_t c = 0; c < contexts; ++c) where[c] = -1;
  }
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
  Scratch scratch(Layers::room(a));
  if (scratch.failed()) return OUT_OF_MEMORY;
  const Layers layers(scratch, a);
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
