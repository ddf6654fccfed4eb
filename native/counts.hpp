// Sums over all vectors of counts: tables of totals that grow outcome by outcome.
//
//     PPK-3.3:   table'[n] = sum_k table[n - k] left[k] right[k]                 for each outcome
//     GMMK-10a:  table'[n][m] = sum_kj table[n - k][m - j] P(k) Q(j) exp(-gamma (k - j)^2)   each
//     word
//
// All terms are nonnegative, so nothing cancels. Lanes are members of the right side (PPK-3.3) or
// neighboring totals m (GMMK-10a). Tables grow in place, from the largest total down, after zeros
// that make all sums equally long: blocks of sums stay in registers. Limited by multiply-adds.
#pragma once
#include "number.hpp"
#include "view.hpp"

namespace mercer {

struct CountSumArguments {
  View<const double, 3> left;   // I w s: terms of w outcomes, for counts below s
  View<const double, 3> right;  // J w s
  View<double, 3> tables;       // I s J: sums for every total, in place
};

struct LogCountSumArguments {
  View<const double, 3> left;      // I w s: logarithms of terms
  View<const double, 3> right;     // J w s
  View<const int64_t, 1> rows;     // P: the member of the left side of each pair
  View<const int64_t, 1> columns;  // P
  View<double, 2> logs;            // P s: logarithms of the sums, in place
};

// Multiply a table by the terms of one outcome. T totals share the loads of T terms and of 2 T - 1
// sums; 2 T - 2 zeros are before the table, and T - 1 finite numbers after the terms.
template <int T, class N>
MERCER_INLINE void convolve(N* table, const N* term, int64_t size) {
  for (int64_t total = size - 1; total >= 0; total -= T) {
    N sum[T];
    for (int c = 0; c < T; ++c) sum[c] = Numbers<N>::zero();
    for (int64_t k = 0; k <= total; k += T) {
      N below[2 * T - 1];
      for (int q = 0; q < 2 * T - 1; ++q) below[q] = table[total - k - q];
      for (int u = 0; u < T; ++u) {
        const N factor = term[k + u];
        for (int c = 0; c < T; ++c) multiply_add(sum[c], below[c + u], factor);
      }
    }
    for (int c = 0; c < T; ++c) table[total - c] = sum[c];  // zeros for negative totals
  }
}

inline int64_t count_sums(const CountSumArguments& a) {
  constexpr int T = 4;
  const int64_t outcomes = a.left.shape[1], size = a.left.shape[2], columns = a.right.shape[0];
  Scratch scratch(Scratch::room<Doubles>(2 * T + size) + Scratch::room<Doubles>(size + T) +
                  Scratch::room<Doubles>(outcomes * size));
  if (scratch.failed()) return OUT_OF_MEMORY;
  Doubles* table = scratch.take<Doubles>(2 * T + size) + 2 * T;
  Doubles *term = scratch.take<Doubles>(size + T), *right = scratch.take<Doubles>(outcomes * size);
  for (int c = 0; c < 2 * T; ++c) table[-1 - c] = Doubles{};
  for (int c = 0; c < T; ++c) term[size + c] = Doubles{};
  for (int64_t first = 0; first < columns; first += WIDTH) {
    for (int lane = 0; lane < WIDTH; ++lane) {
      const double* from = a.right.at(first + lane < columns ? first + lane : columns - 1);
      for (int64_t c = 0; c < outcomes * size; ++c) right[c][lane] = from[c];
    }
    for (int64_t i = 0; i < a.left.shape[0]; ++i) {
      double* sums = a.tables.at(i) + first;
      for (int64_t n = 0; n < size; ++n)
        table[n] = load_some<Doubles>(sums + n * columns, columns - first);
      for (int64_t d = 0; d < outcomes; ++d) {
        const double* left = a.left.at(i, d);
        for (int64_t k = 0; k < size; ++k) term[k] = left[k] * right[d * size + k];
        convolve<T>(table, term, size);
      }
      for (int64_t n = 0; n < size; ++n) store_some(sums + n * columns, table[n], columns - first);
    }
  }
  return DONE;
}

// The same for given pairs in numbers of unlimited range; lanes are pairs.
inline int64_t log_count_sums(const LogCountSumArguments& a) {
  using N = RangedDoubles;
  const int64_t outcomes = a.left.shape[1], size = a.left.shape[2], pairs = a.rows.shape[0];
  Scratch scratch(2 * Scratch::room<N>(size) + Scratch::room<Doubles>(size));
  if (scratch.failed()) return OUT_OF_MEMORY;
  N *table = scratch.take<N>(size), *term = scratch.take<N>(size);
  Doubles* logs = scratch.take<Doubles>(size);
  for (int64_t first = 0; first < pairs; first += WIDTH) {
    auto pair = [&](int lane) { return first + lane < pairs ? first + lane : pairs - 1; };
    auto gather = [&](N* to, auto log) {
      for (int lane = 0; lane < WIDTH; ++lane)
        for (int64_t n = 0; n < size; ++n) logs[n][lane] = log(pair(lane), n);
      for (int64_t n = 0; n < size; ++n) to[n] = Numbers<N>::from_log(logs[n]);
    };
    gather(table, [&](int64_t p, int64_t n) { return a.logs(p, n); });
    for (int64_t d = 0; d < outcomes; ++d) {
      gather(term, [&](int64_t p, int64_t n) {
        return a.left(a.rows(p), d, n) + a.right(a.columns(p), d, n);
      });
      convolve<1>(table, term, size);
    }
    for (int lane = 0; lane < WIDTH && first + lane < pairs; ++lane)
      for (int64_t n = 0; n < size; ++n) a.logs(first + lane, n) = log_of(table[n], lane);
  }
  return DONE;
}

// ---- exact mean maps of two multinomial vectors of counts, pair by pair (GMMK-10a)
//
// x ~ Mult(s, a) is x_d ~ Poisson(s a_d) given that the total is s. So the kernel is an entry of a
// table of the two totals, computed word by word. A word of only one side needs a table of one
// total; a word of neither side is free.

struct CountMeanMapArguments {
  View<const double, 1> values_a;   // word frequencies
  View<const int64_t, 1> words_a;   // ascending within a row
  View<const int64_t, 1> begins_a;  // I + 1
  View<const int64_t, 1> totals_a;  // I: numbers of draws
  View<const double, 1> values_b;
  View<const int64_t, 1> words_b;
  View<const int64_t, 1> begins_b;       // J + 1
  View<const int64_t, 1> totals_b;       // J
  View<const double, 1> log_factorials;  // up to the largest total
  double gamma;
  View<const int64_t, 1> rows;     // P
  View<const int64_t, 1> columns;  // P
  View<double, 1> log_value;       // P: log E exp(-gamma |x - y|^2), up to factors of the totals
};

// Rows of numbers, each after zeros.
template <class N>
struct Grid {
  static constexpr bool RANGED = sizeof(N) > sizeof(Doubles);
  static constexpr int64_t BLOCK = 4 * WIDTH;
  double* value;
  int64_t* power;
  int64_t stride;

  static int64_t line(int64_t width) { return BLOCK + (width + BLOCK - 1) / BLOCK * BLOCK; }
  static size_t room(int64_t rows, int64_t width) {
    return (RANGED ? 2 : 1) * Scratch::room<double>(rows * line(width));
  }
  Grid(Scratch& scratch, int64_t rows, int64_t width) : stride(line(width)) {
    value = scratch.take<double>(rows * stride);
    power = RANGED ? scratch.take<int64_t>(rows * stride) : nullptr;
    for (int64_t at = 0; at < rows * stride; at += WIDTH) put(at, Numbers<N>::zero());
  }
  MERCER_INLINE int64_t at(int64_t row, int64_t column) const {
    return row * stride + BLOCK + column;
  }
  MERCER_INLINE N get(int64_t place) const {
    if constexpr (RANGED)
      return {load<Doubles>(value + place), load<Words>(power + place)};
    else
      return load<Doubles>(value + place);
  }
  MERCER_INLINE N spread_out(int64_t place) const {
    if constexpr (RANGED)
      return {spread<Doubles>(value[place]), Words{} + power[place]};
    else
      return spread<Doubles>(value[place]);
  }
  MERCER_INLINE void put(int64_t place, N x) const {
    if constexpr (RANGED)
      store(value + place, x.value), store(power + place, x.power);
    else
      store(value + place, x);
  }
};

// The factor of a word: a table of both counts, whose rows matter from `low` to `high`.
template <class N>
struct WordFactor {
  Grid<N> entries;
  double *log_p, *log_q;  // log probabilities of its counts on both sides
  int64_t *low, *high;

  static size_t room(int64_t s, int64_t t) {
    return Grid<N>::room(s + 1, t + 1) + Scratch::room<double>(s + 1) +
           Scratch::room<double>(t + 1 + WIDTH) + 2 * Scratch::room<int64_t>(s + 1);
  }
  WordFactor(Scratch& scratch, int64_t s, int64_t t)
      : entries(scratch, s + 1, t + 1),
        log_p(scratch.take<double>(s + 1)),
        log_q(scratch.take<double>(t + 1 + WIDTH)),
        low(scratch.take<int64_t>(s + 1)),
        high(scratch.take<int64_t>(s + 1)) {}

  // A side whose total is zero does not have the word. Factors of at most `least` are left out: as
  // P, Q and the Gaussian are log-concave, the others of a row are neighbors.
  void fill(const CountMeanMapArguments& a, int64_t s, int64_t t, double rate_a, double rate_b,
            double least) {
    auto poisson = [&](double* log_p, int64_t total, double rate) {
      for (int64_t n = 0; n <= total; ++n)
        log_p[n] = total ? double(n) * log(rate) - rate - a.log_factorials(n) : 0.0;
    };
    poisson(log_p, s, rate_a), poisson(log_q, t, rate_b);
    Doubles lane;
    for (int c = 0; c < WIDTH; ++c) lane[c] = c;
    for (int64_t k = 0; k <= s; ++k) {
      for (int64_t j = 0; j <= t; j += WIDTH) {
        const Doubles difference = lane + double(j - k);
        const Doubles log = load_some<Doubles>(log_q + j, t + 1 - j) + log_p[k];
        entries.put(entries.at(k, j),
                    Numbers<N>::from_log(log - a.gamma * difference * difference));
      }
      low[k] = 0, high[k] = t;
      const double* row = entries.value + entries.at(k, 0);
      while (low[k] <= high[k] && !(row[low[k]] > least)) ++low[k];
      while (low[k] <= high[k] && !(row[high[k]] > least)) --high[k];
    }
  }
};

// Multiply a table of the totals s and t by a factor; B vectors of totals m at once.
template <int B, class N>
MERCER_INLINE void grow(Grid<N> table, const WordFactor<N>& factor, int64_t s, int64_t t) {
  const Grid<N> entries = factor.entries;
  const int64_t *low = factor.low, *high = factor.high;
  for (int64_t n = s; n >= 0; --n)
    for (int64_t m = t / (B * WIDTH) * (B * WIDTH); m >= 0; m -= B * WIDTH) {
      N sum[B];
      for (int q = 0; q < B; ++q) sum[q] = Numbers<N>::zero();
      for (int64_t k = 0; k <= n; ++k) {
        const int64_t last = high[k] < m + B * WIDTH - 1 ? high[k] : m + B * WIDTH - 1;
        int64_t weight = entries.at(k, low[k]), below = table.at(n - k, m - low[k]);
        for (int64_t j = low[k]; j <= last; ++j, ++weight, --below) {
          const N w = entries.spread_out(weight);
          for (int q = 0; q < B; ++q) multiply_add(sum[q], table.get(below + q * WIDTH), w);
        }
      }
      for (int q = 0; q < B; ++q) table.put(table.at(n, m + q * WIDTH), sum[q]);
    }
}
template <class N>
void multiply(Grid<N> table, const WordFactor<N>& factor, int64_t s, int64_t t) {
  t >= 2 * WIDTH ? grow<4>(table, factor, s, t) : grow<2>(table, factor, s, t);
}

// The logarithm of the coefficient of both totals; NaN if there is not enough memory.
template <class N>
double log_mean_map(const CountMeanMapArguments& a, int64_t row, int64_t column, double least) {
  const int64_t s = a.totals_a(row), t = a.totals_b(column);
  const int64_t end = a.begins_a(row + 1), other_end = a.begins_b(column + 1);
  Scratch scratch(2 * Grid<N>::room(1, s + 1) + 2 * Grid<N>::room(1, t + 1) +
                  WordFactor<N>::room(0, s) + WordFactor<N>::room(0, t) +
                  Grid<N>::room(s + 1, t + 1) + WordFactor<N>::room(s, t));
  if (scratch.failed()) return NAN;
  Grid<N> left(scratch, 1, s + 1), right(scratch, 1, t + 1), table(scratch, s + 1, t + 1);
  WordFactor<N> mine(scratch, 0, s), theirs(scratch, 0, t), both(scratch, s, t);
  N one = Numbers<N>::zero();
  Numbers<N>::put(one, 0, 1.0);
  left.put(left.at(0, 0), one), right.put(right.at(0, 0), one);
  auto merge = [&](auto only_a, auto only_b, auto shared) {
    int64_t i = a.begins_a(row), j = a.begins_b(column);
    while (i < end || j < other_end) {
      if (j == other_end || (i < end && a.words_a(i) < a.words_b(j)))
        only_a(a.values_a(i++) * double(s));
      else if (i == end || a.words_b(j) < a.words_a(i))
        only_b(a.values_b(j++) * double(t));
      else
        shared(a.values_a(i) * double(s), a.values_b(j) * double(t)), ++i, ++j;
    }
  };
  merge(
      [&](double rate) {
        if (s) mine.fill(a, 0, s, 0.0, rate, 0.0), multiply(left, mine, 0, s);
      },
      [&](double rate) {
        if (t) theirs.fill(a, 0, t, 0.0, rate, 0.0), multiply(right, theirs, 0, t);
      },
      [](double, double) {});
  for (int64_t n = 0; n <= s; ++n)
    for (int64_t m = 0; m <= t; m += WIDTH)
      table.put(table.at(n, m), left.spread_out(left.at(0, n)) * right.get(right.at(0, m)));
  merge([](double) {}, [](double) {},
        [&](double rate, double other) {
          both.fill(a, s, t, rate, other, least), multiply(table, both, s, t);
        });
  return log_of(table.get(table.at(s, t)), 0);
}

inline int64_t count_mean_maps(const CountMeanMapArguments& a) {
  // Above exp(-41), factors below 1e-40 are negligible; above exp(-575), no significant term was
  // lost by underflow.
  for (int64_t p = 0; p < a.rows.shape[0]; ++p) {
    double value = log_mean_map<Doubles>(a, a.rows(p), a.columns(p), 1e-40);
    if (value <= -41.0) value = log_mean_map<Doubles>(a, a.rows(p), a.columns(p), 0.0);
    if (value <= -575.0) value = log_mean_map<RangedDoubles>(a, a.rows(p), a.columns(p), 0.0);
    if (value != value) return OUT_OF_MEMORY;
    a.log_value(p) = value;
  }
  return DONE;
}

}  // namespace mercer
