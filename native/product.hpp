// Products of small matrices whose entries are vectors: the step of coupled chains.
//
// Entries are numbers with one pair of models per lane. A block of R x C sums stays in registers: R
// + C loads feed R C multiply-adds, and at least eight independent sums hide their latency. Columns
// are split into nearly equal blocks; the last block of rows overlaps the one before it. Each entry
// is the same sum in the same order wherever it is computed.
#pragma once
#include "number.hpp"

namespace mercer {

// Split `count` vectors into nearly equal parts of at most MOST: f<C>(first) processes C of them.
template <int C, class F>
MERCER_INLINE void one_part(int64_t count, int64_t first, F& f) {
  if (count == C) return f.template operator()<C>(first);
  if constexpr (C > 1) one_part<C - 1>(count, first, f);
}
template <int MOST, class F>
MERCER_INLINE void in_parts(int64_t count, F f) {
  const int64_t parts = (count + MOST - 1) / MOST;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t first = count * p / parts;
    one_part<MOST>(count * (p + 1) / parts - first, first, f);
  }
}

// One block of out = psi o (x y), or of x y where psi is null; y(c, a) is an entry of the right
// factor.
template <int R, int C, class N, class Y>
MERCER_INLINE void product_block(N* out, const N* psi, int64_t width, int64_t depth, const N* x,
                                 Y y) {
  N sum[R][C];
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sum[r][c] = Numbers<N>::zero();
  for (int64_t t = 0; t < depth; ++t) {
    N factor[R];
    for (int r = 0; r < R; ++r) factor[r] = x[r * depth + t];
    for (int c = 0; c < C; ++c) {
      N entry = y(t, c);
      if constexpr (R > 1 && __is_same(N, Doubles)) entry = rounded(entry);
      for (int r = 0; r < R; ++r) multiply_add(sum[r][c], factor[r], entry);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c)
      out[r * width + c] = psi ? sum[r][c] * psi[r * width + c] : sum[r][c];
}

template <int R, int C, class N, class Y>
MERCER_INLINE void product_columns(N* out, const N* psi, int64_t rows, int64_t width, int64_t depth,
                                   const N* x, Y y) {
  int64_t r = 0;
  if (rows >= R && rows % R != 1) {
    for (; r < rows; r += R) {
      int64_t at = r < rows - R ? r : rows - R;
      product_block<R, C>(out + at * width, psi ? psi + at * width : psi, width, depth,
                          x + at * depth, y);
    }
    return;
  }
  for (; r + R <= rows; r += R)
    product_block<R, C>(out + r * width, psi ? psi + r * width : psi, width, depth, x + r * depth,
                        y);
  for (; r < rows; ++r)
    product_block<1, C>(out + r * width, psi ? psi + r * width : psi, width, depth, x + r * depth,
                        y);
}

// out = psi o (x y) with x (rows, depth) and y (depth, width), in blocks of up to R x C.
template <int R, int C, class N, class Y>
MERCER_INLINE void product(N* out, const N* psi, int64_t rows, int64_t width, int64_t depth,
                           const N* x, Y y) {
  in_parts<C>(width, [&]<int K>(int64_t at) MERCER_LAMBDA {
    product_columns<R, K>(out + at, psi ? psi + at : psi, rows, width, depth, x,
                          [&](int64_t t, int64_t a) MERCER_LAMBDA { return y(t, at + a); });
  });
}

}  // namespace mercer
