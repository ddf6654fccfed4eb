// Sums over all pairs of points of two sets (EMMK-1, EST-6), or of windows of two sequences
// (EMMK-2).
//
//     sum of 2^(scale |x - y|^2 + shift), of its square, of its product with <v, w>; or the
//     smallest |x - y|^2
//
// Lanes are points of the right side, given coordinate by coordinate; POINT_ROWS points of the left
// side share the loads. Distances are sums of squared differences in registers, so that nothing
// cancels. Limited by the polynomial of 2^t.
#pragma once
#include "view.hpp"

namespace mercer {

// The sets, or sequences, of each pair.
struct Spans {
  View<const int64_t, 1> begin_x;  // [P]
  View<const int64_t, 1> size_x;   // [P]
  View<const int64_t, 1> begin_y;  // [P]
  View<const int64_t, 1> size_y;   // [P]
};
struct PointArguments : Spans {
  View<const double, 2> x;      // [T d] points of the left side
  View<const double, 2> v;      // [T m]? their weights
  View<const double, 2> y;      // [d U] points of the right side, and WIDTH of padding
  View<const double, 2> w;      // [m U]? their weights
  View<const double, 1> scale;  // [P]
  View<const double, 1> shift;  // [S] S is P, or one per point of the left set
  int64_t term;                 // a Term
  int64_t each;         // whether there is one result per point of the left set of the only pair
  View<double, 2> out;  // [S 2] the second number is of TWO_SUMS
};

enum Term : int64_t { SUM = 1, NEAREST = 2, TWO_SUMS = 3, WEIGHTED = 4 };

constexpr int POINT_ROWS = WIDTH == 8 ? 5 : 6;

MERCER_INLINE Words lanes_below(int64_t count) {
  Words lane;
  for (int k = 0; k < WIDTH; ++k) lane[k] = k;
  return lane < count;
}

// Squared distances of POINT_ROWS points from a vector of points, given by coordinates.
MERCER_INLINE void add_squares(Doubles* square, const double* const* points, const double* y,
                               int64_t stride, int64_t d) {
  for (int64_t k = 0; k < d; ++k) {
    const Doubles theirs = load<Doubles>(y + k * stride);
    for (int r = 0; r < POINT_ROWS; ++r) {
      const Doubles apart = points[r][k] - theirs;
      square[r] += apart * apart;
    }
  }
}

template <int TERM>
struct Reduced {  // over the points of the right side, for some of the left
  // Smaller exponents are raised to this: such terms are below rounding.
  static constexpr double SMALLEST = TERM == TWO_SUMS ? -500.0 : -1020.0;
  Doubles first[POINT_ROWS], second[POINT_ROWS];

  MERCER_INLINE void begin() {
    for (int r = 0; r < POINT_ROWS; ++r)
      first[r] = TERM == NEAREST ? spread<Doubles>(INFINITY) : Doubles{}, second[r] = Doubles{};
  }
  // Add one vector of squared distances per row, of which `count` lanes are points.
  MERCER_INLINE void add(Doubles (&square)[POINT_ROWS], double scale, const double* shift,
                         const Doubles* weight, int64_t count) {
    const bool all = count >= WIDTH;
    const Words valid = lanes_below(count);
    if (TERM == NEAREST) {
      for (int r = 0; r < POINT_ROWS; ++r) {
        if (!all) square[r] = valid ? square[r] : spread<Doubles>(INFINITY);
        first[r] = minimum(square[r], first[r]);
      }
      return;
    }
    for (int r = 0; r < POINT_ROWS; ++r) {
      square[r] = square[r] * scale + shift[r];
      square[r] = square[r] < SMALLEST ? spread<Doubles>(SMALLEST) : square[r];
    }
    exp2_of(square);
    for (int r = 0; r < POINT_ROWS; ++r) {
      if (!all) square[r] = valid ? square[r] : Doubles{};
      if (TERM == TWO_SUMS) second[r] += square[r] * square[r];
      if (TERM == WEIGHTED)
        first[r] += square[r] * weight[r];
      else
        first[r] += square[r];
    }
  }
  // Add the rows of a block to the result of a pair; rows beyond the end of the set do not count.
  MERCER_INLINE void total(int64_t rows, Doubles& one, Doubles& two) const {
    for (int r = 0; r < rows; ++r) {
      one = TERM == NEAREST ? minimum(one, first[r]) : one + first[r];
      if (TERM == TWO_SUMS) two += second[r];
    }
  }
};

// One block of points of the left side with all points of a set of the right side.
template <int TERM>
MERCER_INLINE void point_block(const PointArguments& a, int64_t p, const int64_t* row,
                               const double* shift, Reduced<TERM>& found) {
  const int64_t d = a.x.shape[1], m = TERM == WEIGHTED ? a.v.shape[1] : 0, stride = a.y.shape[1];
  const int64_t size = a.size_y(p), begin = a.begin_y(p);
  const double scale = a.scale(p), *points[POINT_ROWS], *weights[POINT_ROWS];
  for (int r = 0; r < POINT_ROWS; ++r)
    points[r] = a.x.at(row[r]), weights[r] = TERM == WEIGHTED ? a.v.at(row[r]) : nullptr;
  found.begin();
  auto group = [&](int64_t j, int64_t count) MERCER_LAMBDA {
    const double *y = a.y.data + begin + j, *w = TERM == WEIGHTED ? a.w.data + begin + j : nullptr;
    Doubles square[POINT_ROWS] = {}, weight[POINT_ROWS] = {};
    add_squares(square, points, y, stride, d);
    for (int64_t k = 0; k < m; ++k) {
      const Doubles theirs = load<Doubles>(w + k * stride);
      for (int r = 0; r < POINT_ROWS; ++r) weight[r] += weights[r][k] * theirs;
    }
    found.add(square, scale, shift, weight, count);
  };
  const int64_t whole = size - size % WIDTH;
  for (int64_t j = 0; j < whole; j += WIDTH) group(j, WIDTH);
  if (whole < size) group(whole, size - whole);
}

template <int TERM>
int64_t point_sums(const PointArguments& a) {
  Reduced<TERM> found;
  for (int64_t p = 0; p < a.begin_x.shape[0]; ++p) {
    const int64_t size = a.size_x(p), begin = a.begin_x(p);
    Doubles one = TERM == NEAREST ? spread<Doubles>(INFINITY) : Doubles{}, two{};
    for (int64_t i = 0; i < size; i += POINT_ROWS) {
      int64_t row[POINT_ROWS];
      double shift[POINT_ROWS];
      for (int r = 0; r < POINT_ROWS; ++r) {
        const int64_t here = minimum(i + r, size - 1);
        row[r] = begin + here, shift[r] = a.shift(a.each ? here : p);
      }
      point_block<TERM>(a, p, row, shift, found);
      const int64_t rows = size - i < POINT_ROWS ? size - i : POINT_ROWS;
      if (!a.each) found.total(rows, one, two);
      for (int r = 0; a.each && r < rows; ++r)
        a.out(i + r, 0) =
            TERM == NEAREST ? smallest_lane(found.first[r]) : sum_of_lanes(found.first[r]);
    }
    if (a.each) continue;
    a.out(p, 0) = TERM == NEAREST ? smallest_lane(one) : sum_of_lanes(one);
    a.out(p, 1) = TERM == TWO_SUMS ? sum_of_lanes(two) : 0.0;
  }
  return DONE;
}

}  // namespace mercer
