// Small matrices in lanes: each entry is a number of LANES different matrices, none of which
// depends on another.
//
// Two vectors make the lanes of an entry, so that one hides the latency of the other. Sums of tiles
// of at most 2 x 4 entries stay in registers; each is the same sum in the same order in every tile.
// Limited by multiply-adds for more than about six rows, below that by loads and by calls.
#pragma once
#include "view.hpp"

namespace mercer {

constexpr int LANES = 2 * WIDTH;

struct Lanes {
  Doubles low, high;
};
struct Marks {  // all ones in marked lanes, else zero
  Words low, high;
};

MERCER_INLINE Lanes operator+(Lanes a, Lanes b) { return {a.low + b.low, a.high + b.high}; }
MERCER_INLINE Lanes operator-(Lanes a, Lanes b) { return {a.low - b.low, a.high - b.high}; }
MERCER_INLINE Lanes operator*(Lanes a, Lanes b) { return {a.low * b.low, a.high * b.high}; }
MERCER_INLINE Lanes operator/(Lanes a, Lanes b) { return {a.low / b.low, a.high / b.high}; }
MERCER_INLINE Lanes& operator+=(Lanes& a, Lanes b) { return a = a + b; }
MERCER_INLINE Lanes& operator-=(Lanes& a, Lanes b) { return a = a - b; }
MERCER_INLINE Lanes& operator*=(Lanes& a, Lanes b) { return a = a * b; }
MERCER_INLINE Marks operator<(Lanes a, Lanes b) { return {a.low < b.low, a.high < b.high}; }
MERCER_INLINE Marks operator<=(Lanes a, Lanes b) { return {a.low <= b.low, a.high <= b.high}; }
MERCER_INLINE Marks operator==(Lanes a, Lanes b) { return {a.low == b.low, a.high == b.high}; }
MERCER_INLINE Marks operator&(Marks a, Marks b) { return {a.low & b.low, a.high & b.high}; }
MERCER_INLINE Marks operator|(Marks a, Marks b) { return {a.low | b.low, a.high | b.high}; }
MERCER_INLINE Marks operator~(Marks a) { return {~a.low, ~a.high}; }
MERCER_INLINE bool any(Marks a) { return any(a.low | a.high); }
MERCER_INLINE Lanes all(double x) { return {spread<Doubles>(x), spread<Doubles>(x)}; }
MERCER_INLINE Lanes choose(Marks marks, Lanes a, Lanes b) {
  return {marks.low ? a.low : b.low, marks.high ? a.high : b.high};
}
MERCER_INLINE Lanes absolute(Lanes a) {
  return {from_bits<Doubles>(bits_of(a.low) & INT64_MAX),
          from_bits<Doubles>(bits_of(a.high) & INT64_MAX)};
}
MERCER_INLINE Lanes root(Lanes a) {
  double x[LANES];
  memcpy(x, &a, sizeof x);
  for (int lane = 0; lane < LANES; ++lane) x[lane] = sqrt(x[lane]);
  memcpy(&a, x, sizeof x);
  return a;
}
MERCER_INLINE double& lane_of(Lanes& entry, int lane) {
  return reinterpret_cast<double*>(&entry)[lane];
}
inline void put_lane(Lanes* to, int lane, const double* from, int64_t count) {
  for (int64_t k = 0; k < count; ++k) lane_of(to[k], lane) = from[k];
}
inline void read_lane(double* to, Lanes* from, int lane, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] = lane_of(from[k], lane);
}
inline void copy(Lanes* to, const Lanes* from, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] = from[k];
}
inline void fill(Lanes* to, double x, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] = all(x);
}

// Entry (i, j) lies at data[i * row + j * column]; short strides, so that a matrix is passed in two
// registers.
struct Matrix {
  Lanes* data;
  int32_t row, column;

  constexpr MERCER_INLINE Matrix(Lanes* data_, int64_t row_, int64_t column_)
      : data(data_), row(int32_t(row_)), column(int32_t(column_)) {}
  MERCER_INLINE Lanes& operator()(int64_t i, int64_t j) const { return data[i * row + j * column]; }
  MERCER_INLINE Doubles* at(int64_t i, int64_t j) const { return &(*this)(i, j).low; }
  MERCER_INLINE Matrix from(int64_t i, int64_t j) const { return {&(*this)(i, j), row, column}; }
  MERCER_INLINE Matrix transposed() const { return {data, column, row}; }
};
inline Lanes zero_entry{};
inline constexpr Matrix ZEROS{&zero_entry, 0, 0};

// Hands out parts of memory; with a null pointer it only counts.
struct Cursor {
  Lanes* base;
  int64_t used = 0;
  Lanes* take(int64_t count) {
    Lanes* here = base ? base + used : base;
    used += count;
    return here;
  }
  template <class T>
  T* take_as(int64_t count) {
    return reinterpret_cast<T*>(
        take((count * int64_t(sizeof(T)) + int64_t(sizeof(Lanes)) - 1) / int64_t(sizeof(Lanes))));
  }
};

// ---- products

enum Sign { PLUS, MINUS };
enum Shape { FULL, SYMMETRIC };

// One tile of start + a b or start - a b.
template <int R, int C, Sign SIGN>
MERCER_INLINE void tile(Matrix out, Matrix start, Matrix a, Matrix b, int64_t inner) {
  Doubles sum[R][C][2];  // not Lanes: compilers keep arrays of vectors in registers
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c)
      for (int q = 0; q < 2; ++q) sum[r][c][q] = start.at(r, c)[q];
  for (int64_t k = 0; k < inner; ++k) {
    Doubles factor[R][2];
    for (int r = 0; r < R; ++r)
      for (int q = 0; q < 2; ++q) factor[r][q] = a.at(r, k)[q];
    for (int c = 0; c < C; ++c)
      for (int q = 0; q < 2; ++q) {
        const Doubles entry = R > 1 ? rounded(b.at(k, c)[q]) : b.at(k, c)[q];
        for (int r = 0; r < R; ++r) {
          if (SIGN == PLUS)
            sum[r][c][q] += factor[r][q] * entry;
          else
            sum[r][c][q] -= factor[r][q] * entry;
        }
      }
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c)
      for (int q = 0; q < 2; ++q) out.at(r, c)[q] = sum[r][c][q];
}

template <int R, int C, Sign SIGN>
MERCER_INLINE void tiles(Matrix out, Matrix start, Matrix a, Matrix b, int64_t inner,
                         int64_t columns) {
  for (; columns > 0; columns -= C) {
    if (columns >= C) {
      tile<R, C, SIGN>(out, start, a, b, inner);
    } else {
      if (C > 3 && columns == 3) tile<R, C - 1, SIGN>(out, start, a, b, inner);
      if (C > 2 && columns == 2) tile<R, 2, SIGN>(out, start, a, b, inner);
      if (columns == 1) tile<R, 1, SIGN>(out, start, a, b, inner);
    }
    out = out.from(0, C), start = start.from(0, C), b = b.from(0, C);
  }
}

struct Size {
  int64_t rows, inner, columns = 0;  // as many columns as rows, if the product is symmetric
};

// out = start + a b, or start - a b; of a symmetric product, the lower triangle is computed and
// mirrored. `out` may be `start`.
template <Sign SIGN, Shape SHAPE>
__attribute__((noinline)) void multiplied(Matrix out, Matrix start, Matrix a, Matrix b, Size size) {
  constexpr int C = REGISTERS >= 32 ? 4 : 2;
  for (int64_t i = 0; i < size.rows; i += 2) {
    const bool two = i + 2 <= size.rows;
    const int64_t stop = SHAPE == FULL ? size.columns : two ? i + 2 : i + 1;
    if (two)
      tiles<2, C, SIGN>(out.from(i, 0), start.from(i, 0), a.from(i, 0), b, size.inner, stop);
    else
      tiles<1, 4, SIGN>(out.from(i, 0), start.from(i, 0), a.from(i, 0), b, size.inner, stop);
  }
  for (int64_t i = 1; SHAPE == SYMMETRIC && i < size.rows; ++i)
    for (int64_t j = 0; j < i; ++j) out(j, i) = out(i, j);
}
constexpr auto add_product = multiplied<PLUS, FULL>, subtract_product = multiplied<MINUS, FULL>;
constexpr auto add_symmetric = multiplied<PLUS, SYMMETRIC>,
               subtract_symmetric = multiplied<MINUS, SYMMETRIC>;

// x_{t+1} += x_t b for the rows of x, one after the other.
inline void chain(Matrix x, Matrix b, int64_t n, int64_t times) {
  for (int64_t t = 0; t < times; ++t, x = x.from(1, 0))
    tiles<1, 4, PLUS>(x.from(1, 0), x.from(1, 0), x, b, n, n);
}

// out += a, so many times: the same digits as in as many calls.
inline void add_times(Lanes* out, const Lanes* a, int64_t count, int64_t times) {
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    Lanes sum[4] = {out[k], out[k + 1], out[k + 2], out[k + 3]};
    for (int64_t t = 0; t < times; ++t)
      for (int c = 0; c < 4; ++c) sum[c] += a[k + c];
    for (int c = 0; c < 4; ++c) out[k + c] = sum[c];
  }
  for (; k < count; ++k)
    for (int64_t t = 0; t < times; ++t) out[k] += a[k];
}

// ---- Cholesky factors and triangular solves

// a = out out': the lower triangle of `out`, and its inverse diagonal; NaN in lanes whose matrix is
// not positive definite.
inline void cholesky(Matrix out, Lanes* inverse, Matrix a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    Lanes value = a(j, j);
    for (int64_t k = 0; k < j; ++k) value -= out(j, k) * out(j, k);
    out(j, j) = root(choose(all(0.0) < value, value, all(NAN)));
    inverse[j] = all(1.0) / out(j, j);
    for (int64_t i = j + 1; i < n; ++i) {
      Lanes sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= out(i, k) * out(j, k);
      out(i, j) = sum * inverse[j];
    }
  }
}

// Solve lower out = b, C columns at a time; `out` may be `b`.
template <int C>
MERCER_INLINE void solved(Matrix out, Matrix b, Matrix lower, const Lanes* inverse, int64_t next,
                          int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Doubles sum[C][2];
    for (int c = 0; c < C; ++c)
      for (int q = 0; q < 2; ++q) sum[c][q] = b.at(i, c)[q];
    for (int64_t k = 0; k < i; ++k)
      for (int q = 0; q < 2; ++q) {
        const Doubles factor = lower.at(i, k)[q];
        for (int c = 0; c < C; ++c) sum[c][q] -= factor * out.at(k, c)[q];
      }
    const Doubles scale[2] = {inverse[i * next].low, inverse[i * next].high};
    for (int c = 0; c < C; ++c)
      for (int q = 0; q < 2; ++q) out.at(i, c)[q] = sum[c][q] * scale[q];
  }
}
__attribute__((noinline)) inline void solve(Matrix out, Matrix b, Matrix lower,
                                            const Lanes* inverse, int64_t next, int64_t n,
                                            int64_t columns) {
  for (; columns >= 4; columns -= 4, out = out.from(0, 4), b = b.from(0, 4))
    solved<4>(out, b, lower, inverse, next, n);
  if (columns == 3) solved<3>(out, b, lower, inverse, next, n);
  if (columns == 2) solved<2>(out, b, lower, inverse, next, n);
  if (columns == 1) solved<1>(out, b, lower, inverse, next, n);
}
inline void solve_lower(Matrix out, Matrix b, Matrix lower, const Lanes* inverse, int64_t n,
                        int64_t columns) {
  solve(out, b, lower, inverse, 1, n, columns);
}
// Solve lower' out = b: the same from the last row.
inline void solve_upper(Matrix out, Matrix b, Matrix lower, const Lanes* inverse, int64_t n,
                        int64_t columns) {
  auto reversed = [&](Matrix m) { return Matrix{&m(n - 1, 0), -m.row, m.column}; };
  solve(reversed(out), reversed(b), {&lower(n - 1, n - 1), -lower.column, -lower.row},
        inverse + n - 1, -1, n, columns);
}

// ---- checks

constexpr double CANCELED = 1e-4;  // a difference that leaves less of a variance has lost digits
constexpr double STEADY = 4e-16;   // changes up to this fraction of the diagonal are none

// Lanes in which digits were lost in the difference of covariances.
inline Marks canceled(const Lanes* after, const Lanes* before, int64_t n) {
  Marks found{};
  for (int64_t k = 0; k < n * n; k += n + 1) found = found | (after[k] < all(CANCELED) * before[k]);
  return found;
}

// Set positive semi-definite matrices that do not change any more to what they were; returns their
// lanes. Matrices that are about to overflow are not among them.
inline Marks keep_converged(Lanes* after, const Lanes* before, int64_t n) {
  Marks kept = all(0.0) == all(0.0);
  for (int64_t i = 0; i < n; ++i) kept = kept & (after[i * n + i] < all(0x1p1023));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      const Lanes bound = all(STEADY) * (after[i * n + i] + after[j * n + j]);
      kept = kept & (absolute(after[i * n + j] - before[i * n + j]) <= bound);
    }
  if (any(kept))
    for (int64_t k = 0; k < n * n; ++k) after[k] = choose(kept, before[k], after[k]);
  return kept;
}

// A positive number of unlimited range, mantissa 2^exponent; NaN stays NaN.
struct Scaled {
  Lanes mantissa, exponent;
};
MERCER_INLINE Scaled split(Lanes x) {
  Scaled s;
  split(x.low, s.mantissa.low, s.exponent.low);
  split(x.high, s.mantissa.high, s.exponent.high);
  s.mantissa = choose(all(0.0) < x, s.mantissa, all(NAN));
  return s;
}
MERCER_INLINE void multiply(Scaled& number, Scaled factor) {
  const Scaled carried = split(number.mantissa * factor.mantissa);
  number = {carried.mantissa, number.exponent + (factor.exponent + carried.exponent)};
}

}  // namespace mercer
