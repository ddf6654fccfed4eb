// Sums over all pairs of windows of two sequences (EMMK-2): of vectors, or of symbols.
//
// Squared distances of points are computed a block at a time; those of windows are sums along its
// diagonals. Lanes are windows of the right side. Symbols: along each diagonal the number of
// differences changes by one step at a time.
#pragma once
#include "points.hpp"

namespace mercer {

struct WindowArguments : Spans {
  View<const double, 2> x;  // [T d] and padding: vectors of the left side
  View<const double, 2> y;  // [d U] and padding: those of the right side, by coordinates
  int64_t width;            // vectors in a window
  double scale;
  View<const double, 1> shift;  // [P]
  int64_t term;                 // SUM or NEAREST
  View<double, 1> out;          // [P]
};

constexpr int64_t BLOCK_ROWS = 64,
                  BLOCK_COLUMNS = 256;  // windows of a block, whose distances stay in the cache

// Squared distances of points: rows of the left side, `across` points of the right; anything beyond
// the ends.
inline void window_table(const WindowArguments& a, int64_t p, int64_t row, int64_t column,
                         int64_t lines, int64_t across, double* table, int64_t stride) {
  const int64_t d = a.x.shape[1], length = a.y.shape[1], left = a.size_x(p) - row,
                right = a.size_y(p) - column;
  for (int64_t i = 0; i < lines; i += POINT_ROWS) {
    const double* points[POINT_ROWS];
    for (int r = 0; r < POINT_ROWS; ++r)
      points[r] = a.x.at(a.begin_x(p) + row + minimum(i + r, left - 1));
    const double* y = a.y.data + a.begin_y(p) + column;
    for (int64_t j = 0; j < across && j < right; j += WIDTH) {
      Doubles square[POINT_ROWS] = {};
      add_squares(square, points, y + j, length, d);
      for (int r = 0; r < POINT_ROWS; ++r) store(table + (i + r) * stride + j, square[r]);
    }
  }
}

template <int TERM>
int64_t window_sums(const WindowArguments& a) {
  const int64_t width = a.width;
  const int64_t height = whole(width > BLOCK_ROWS ? width : BLOCK_ROWS, POINT_ROWS);
  const int64_t breadth = whole(width > BLOCK_COLUMNS ? width : BLOCK_COLUMNS, WIDTH);
  const int64_t stride = breadth + whole(width - 1, WIDTH),
                lines = whole(height + width - 1, POINT_ROWS);
  Scratch scratch;
  double* table;
  if (!scratch.lay_out([&] { scratch.give(lines * stride + WIDTH, table); })) return OUT_OF_MEMORY;
  Reduced<TERM> found;
  for (int64_t p = 0; p < a.out.shape[0]; ++p) {
    const int64_t n = a.size_x(p) - width + 1, m = a.size_y(p) - width + 1;
    Doubles total = TERM == NEAREST ? spread<Doubles>(INFINITY) : Doubles{}, unused{};
    double shift[POINT_ROWS];
    for (int r = 0; r < POINT_ROWS; ++r) shift[r] = a.shift(p);
    for (int64_t row = 0; row < n; row += height)
      for (int64_t column = 0; column < m; column += breadth) {
        const int64_t rows = n - row < height ? n - row : height;
        const int64_t columns = whole(m - column < breadth ? m - column : breadth, WIDTH);
        const int64_t all = whole(whole(rows, POINT_ROWS) + width - 1, POINT_ROWS);
        window_table(a, p, row, column, all < lines ? all : lines,
                     whole(columns + width - 1, WIDTH), table, stride);
        for (int64_t i = 0; i < rows; i += POINT_ROWS) {
          found.begin();
          for (int64_t j = 0; j < columns; j += WIDTH) {
            Doubles square[POINT_ROWS] = {};
            for (int64_t k = 0; k < width; ++k)
              for (int r = 0; r < POINT_ROWS; ++r)
                square[r] += load<Doubles>(table + (i + r + k) * stride + j + k);
            found.add(square, a.scale, shift, nullptr, m - column - j);
          }
          found.total(rows - i < POINT_ROWS ? rows - i : POINT_ROWS, total, unused);
        }
      }
    a.out(p) = TERM == NEAREST ? smallest_lane(total) : sum_of_lanes(total);
  }
  return DONE;
}

struct DifferenceArguments : Spans {
  View<const int32_t, 1> x;  // [T] symbols of the left side
  View<const int32_t, 1> y;  // [U] symbols of the right side
  View<double, 2> out;       // [P c] c = w + 1: pairs of windows that differ in 0, 1, ... positions
};

inline int64_t difference_counts(const DifferenceArguments& a) {
  const int64_t width = a.out.shape[1] - 1, pairs = a.out.shape[0];
  int64_t longest = 0;
  for (int64_t p = 0; p < pairs; ++p) longest = a.size_x(p) > longest ? a.size_x(p) : longest;
  Scratch scratch;
  int64_t *even, *odd;  // alternate: an increment does not wait for the one before it
  uint8_t* differ;
  if (!scratch.lay_out([&] { scratch.give(width + 1, even, odd), scratch.give(longest, differ); }))
    return OUT_OF_MEMORY;
  for (int64_t p = 0; p < pairs; ++p) {
    const int32_t *x = a.x.data + a.begin_x(p), *y = a.y.data + a.begin_y(p);
    const int64_t n = a.size_x(p), m = a.size_y(p);
    for (int64_t c = 0; c <= width; ++c) even[c] = odd[c] = 0;
    for (int64_t lag = width - n; lag <= m - width; ++lag) {
      const int64_t begin = lag < 0 ? -lag : 0, end = n < m - lag ? n : m - lag, size = end - begin;
      const int32_t *s = x + begin, *t = y + begin + lag;
      for (int64_t k = 0; k < size; ++k) differ[k] = s[k] != t[k];
      int64_t different = 0, k = width;
      for (int64_t r = 0; r < width; ++r) different += differ[r];
      even[different] += 1;
      for (; k + 1 < size; k += 2) {
        different += int64_t(differ[k]) - differ[k - width];
        odd[different] += 1;
        different += int64_t(differ[k + 1]) - differ[k + 1 - width];
        even[different] += 1;
      }
      if (k < size) odd[different + differ[k] - differ[k - width]] += 1;
    }
    for (int64_t c = 0; c <= width; ++c) a.out(p, c) = double(even[c] + odd[c]);
  }
  return DONE;
}

}  // namespace mercer
