// Sums over the words that two sparse rows share: inner products (PPK-3.3, s = 1) and entropies
// (DJS-2, DJS-4).
//
// One row at a time walks through the inverted index of the rows of the right side: each of its
// words adds one term to every row that holds the word. Lanes are rows of the right side. Words in
// most rows are listed for all of them, so that nothing is scattered. Limited by loads and stores
// of the row of results.
#pragma once
#include "view.hpp"

namespace mercer {

struct CsrArguments {
  View<const double, 1> values;        // [e] entries of the left side
  View<const double, 1> logs;          // [e]? their logarithms
  View<const int64_t, 1> indices;      // [e] their words
  View<const int64_t, 1> indptr;       // [I1]
  View<const int64_t, 1> words;        // [s] the words of the index
  View<const int64_t, 1> starts;       // [s1] their postings
  View<const int32_t, 1> rows;         // [p] rows of the right side
  View<const double, 1> postings;      // [p] their entries
  View<const double, 1> posting_logs;  // [p]? logarithms, zero for absent words
  int64_t n_columns;
  View<double, 2> out;  // [I J]
};

struct RowProduct {
  static constexpr bool LOGARITHMS = false;
  static MERCER_INLINE Doubles term(Doubles a, Doubles, Doubles b, Doubles) { return a * b; }
};

// (a + b) log(a + b) - a log a - b log b for positive a; zero for an absent word, b = 0 with log_b
// = 0.
//
// With M the larger and m the smaller number this is (a + b) log(1 + m / M) + m log(M / m): two
// nonnegative terms, so nothing cancels when m is tiny, and the only new logarithm is 2 artanh(z)
// with z = m / (M + a + b) in [0, 1/3]: z times a polynomial of z^2, interpolated at the Chebyshev
// nodes of [0, 1/9]; relative error 9e-17.
struct SharedEntropy {
  static constexpr bool LOGARITHMS = true;
  static MERCER_INLINE Doubles term(Doubles a, Doubles log_a, Doubles b, Doubles log_b) {
    Doubles small = minimum(a, b), large = maximum(a, b), total = a + b,
            z = small / (large + total);
    Doubles x = z * z, x2 = x * x, difference = log_a - log_b;
    Doubles low =
        (2.0 + 0.6666666666668257 * x) + x2 * (0.399999999952876 + 0.2857142911165716 * x);
    Doubles high = ((0.22222190861346283 + 0.1818285980047391 * x) +
                    x2 * (0.15363676248891633 + 0.13591305485579894 * x)) +
                   (x2 * x2) * (0.09880789048764786 + 0.17780763826113302 * x);
    return total * (z * (low + (x2 * x2) * high)) +
           small * (difference < 0.0 ? -difference : difference);
  }
};

// The postings of one word: their terms with one entry of the left side.
template <class Term>
struct Postings {
  double value, log;
  const double *b, *log_b;
  const int32_t* rows;

  MERCER_INLINE Doubles term(int64_t p, int64_t count) const {
    Doubles logs = Term::LOGARITHMS ? load_some<Doubles>(log_b + p, count) : Doubles{};
    return Term::term(spread<Doubles>(value), spread<Doubles>(log),
                      load_some<Doubles>(b + p, count), logs);
  }
  MERCER_INLINE void add_all(double* line, int64_t p, int64_t count) const {
    store_some(line + p, load_some<Doubles>(line + p, count) + term(p, count), count);
  }
  MERCER_INLINE void add_some(double* line, int64_t p, int64_t count) const {
    double terms[WIDTH];
    if (Term::LOGARITHMS) store(terms, term(p, count));
    for (int64_t k = 0; k < count; ++k)  // the same multiply-add as that of vectors
      line[rows[p + k]] += Term::LOGARITHMS ? terms[k] : value * b[p + k];
  }
};

template <class Term>
int64_t csr(const CsrArguments& a) {
  const int64_t columns = a.out.shape[1];
  Scratch scratch;
  int32_t* slots;
  if (!scratch.lay_out([&] { scratch.give(a.n_columns, slots); })) return OUT_OF_MEMORY;
  memset(slots, -1, size_t(a.n_columns) * sizeof(int32_t));
  for (int64_t s = 0; s < a.words.shape[0]; ++s) slots[a.words(s)] = int32_t(s);
  for (int64_t i = 0; i < a.out.shape[0]; ++i) {
    double* line = a.out.at(i);
    memset(line, 0, size_t(columns) * sizeof(double));
    for (int64_t k = a.indptr(i); k < a.indptr(i + 1); ++k) {
      const int64_t s = slots[a.indices(k)];
      if (s < 0) continue;
      const int64_t size = a.starts(s + 1) - a.starts(s), whole = size - size % WIDTH;
      const int64_t begin = a.starts(s);
      const Postings<Term> word{
          a.values(k), Term::LOGARITHMS ? a.logs(k) : 0.0, a.postings.data + begin,
          Term::LOGARITHMS ? a.posting_logs.data + begin : nullptr, a.rows.data + begin};
      if (size == columns) {  // all rows, in order
        for (int64_t p = 0; p < whole; p += WIDTH) word.add_all(line, p, WIDTH);
        if (whole < size) word.add_all(line, whole, size - whole);
      } else {
        for (int64_t p = 0; p < whole; p += WIDTH) word.add_some(line, p, WIDTH);
        if (whole < size) word.add_some(line, whole, size - whole);
      }
    }
  }
  return DONE;
}

}  // namespace mercer
