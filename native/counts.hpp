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
  View<const double, 3> left;   // [I w s] terms of w outcomes, for counts below s
  View<const double, 3> right;  // [J w s]
  View<double, 3> tables;       // [I s J] sums for every total, in place
};

struct LogCountSumArguments {
  View<const double, 3> left;      // [I w s] logarithms of terms
  View<const double, 3> right;     // [J w s]
  View<const int64_t, 1> rows;     // [P] the member of the left side of each pair
  View<const int64_t, 1> columns;  // [P]
  View<double, 2> logs;            // [P s] logarithms of the sums, in place
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
  Scratch scratch;
  Doubles *table, *term, *right;
  if (!scratch.lay_out([&] {
        scratch.give(2 * T + size, table), scratch.give(size + T, term);
        scratch.give(outcomes * size, right);
      }))
    return OUT_OF_MEMORY;
  table += 2 * T;
  for (int c = 0; c < 2 * T; ++c) table[-1 - c] = Doubles{};
  for (int c = 0; c < T; ++c) term[size + c] = Doubles{};
  for (int64_t first = 0; first < columns; first += WIDTH) {
    for (int lane = 0; lane < WIDTH; ++lane) {
      const double* from = a.right.at(minimum(first + lane, columns - 1));
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
  Scratch scratch;
  N *table, *term;
  Doubles* logs;
  if (!scratch.lay_out([&] { scratch.give(size, table, term, logs); })) return OUT_OF_MEMORY;
  for (int64_t first = 0; first < pairs; first += WIDTH) {
    auto gather = [&](N* to, auto log) {
      for (int lane = 0; lane < WIDTH; ++lane)
        for (int64_t n = 0; n < size; ++n) logs[n][lane] = log(minimum(first + lane, pairs - 1), n);
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

struct WordCounts {
  View<const double, 1> values;   // [e] word frequencies
  View<const int64_t, 1> words;   // [e] ascending within a row
  View<const int64_t, 1> begins;  // [I1]
  View<const int64_t, 1> totals;  // [I] numbers of draws
};
struct CountMeanMapArguments {
  WordCounts left;
  WordCounts right;                      // [e=f I1=J1 I=J]
  View<const double, 1> log_factorials;  // [n] up to the largest total
  double gamma;
  View<const int64_t, 1> rows;     // [P]
  View<const int64_t, 1> columns;  // [P]
  View<double, 1> log_value;       // [P] log E exp(-gamma |x - y|^2), up to factors of the totals
};

// Rows of numbers, each after zeros.
template <class N>
struct Grid {
  static constexpr bool RANGED = sizeof(N) > sizeof(Doubles);
  static constexpr int64_t BLOCK = 4 * WIDTH;
  Scratch& scratch;
  int64_t rows, width, stride = BLOCK + (width + BLOCK - 1) / BLOCK * BLOCK;
  double* value = scratch.take<double>(rows * stride);
  int64_t* power = scratch.take<int64_t>(RANGED ? rows * stride : 0);

  void clear() const {
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
  Scratch& scratch;
  int64_t s, t;
  Grid<N> entries{scratch, s + 1, t + 1};
  // log probabilities of its counts on both sides
  double *log_p = scratch.take<double>(s + 1), *log_q = scratch.take<double>(t + 1 + WIDTH);
  int64_t *low = scratch.take<int64_t>(s + 1), *high = scratch.take<int64_t>(s + 1);

  // A side whose total is zero does not have the word. Factors of at most `least` are left out: as
  // P, Q and the Gaussian are log-concave, the others of a row are neighbors.
  void fill(const CountMeanMapArguments& a, double rate_a, double rate_b, double least) const {
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
MERCER_INLINE void grow(Grid<N> table, const WordFactor<N>& factor) {
  const Grid<N> entries = factor.entries;
  const int64_t *low = factor.low, *high = factor.high, s = factor.s, t = factor.t;
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
void multiply(Grid<N> table, const WordFactor<N>& factor) {
  factor.t >= 2 * WIDTH ? grow<4>(table, factor) : grow<2>(table, factor);
}

template <class N>
struct MeanMapTables {
  Scratch& scratch;
  int64_t s, t;
  Grid<N> left{scratch, 1, s + 1}, right{scratch, 1, t + 1}, table{scratch, s + 1, t + 1};
  WordFactor<N> mine{scratch, 0, s}, theirs{scratch, 0, t}, both{scratch, s, t};
};

// The logarithm of the coefficient of both totals; NaN if there is not enough memory.
template <class N>
double log_mean_map(const CountMeanMapArguments& a, int64_t row, int64_t column, double least) {
  const WordCounts &x = a.left, &y = a.right;
  const int64_t s = x.totals(row), t = y.totals(column);
  Scratch scratch;
  MeanMapTables<N>{scratch, s, t};
  if (!scratch.allocate()) return NAN;
  const MeanMapTables<N> of{scratch, s, t};
  of.left.clear(), of.right.clear(), of.table.clear();
  of.mine.entries.clear(), of.theirs.entries.clear(), of.both.entries.clear();
  N one = Numbers<N>::zero();
  Numbers<N>::put(one, 0, 1.0);
  of.left.put(of.left.at(0, 0), one), of.right.put(of.right.at(0, 0), one);
  auto merge = [&](auto only_a, auto only_b, auto shared) {
    const int64_t end = x.begins(row + 1), other_end = y.begins(column + 1);
    int64_t i = x.begins(row), j = y.begins(column);
    while (i < end || j < other_end) {
      if (j == other_end || (i < end && x.words(i) < y.words(j)))
        only_a(x.values(i++) * double(s));
      else if (i == end || y.words(j) < x.words(i))
        only_b(y.values(j++) * double(t));
      else
        shared(x.values(i) * double(s), y.values(j) * double(t)), ++i, ++j;
    }
  };
  merge(
      [&](double rate) {
        if (s) of.mine.fill(a, 0.0, rate, 0.0), multiply(of.left, of.mine);
      },
      [&](double rate) {
        if (t) of.theirs.fill(a, 0.0, rate, 0.0), multiply(of.right, of.theirs);
      },
      [](double, double) {});
  for (int64_t n = 0; n <= s; ++n)
    for (int64_t m = 0; m <= t; m += WIDTH)
      of.table.put(of.table.at(n, m),
                   of.left.spread_out(of.left.at(0, n)) * of.right.get(of.right.at(0, m)));
  merge([](double) {}, [](double) {},
        [&](double rate, double other) {
          of.both.fill(a, rate, other, least), multiply(of.table, of.both);
        });
  return log_of(of.table.get(of.table.at(s, t)), 0);
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
