// Mixtures of diagonal Gaussians over points (FK-5): what Fisher vectors are made of.
//
//     share of k ~ exp(<factors_k, (y, y^2, 1)>)        sums over a part: share_k (y, y^2, 1)
//
// Lanes are components. ROWS points of one part share the loads of factors, and loads and stores of
// sums, which limit the speed. A point that is NaN has no shares.
#pragma once
#include "view.hpp"

namespace mercer {

struct MixtureArguments {
  View<const double, 3> points;   // [M n q]
  View<const double, 3> factors;  // [M f K] f = 2 q + 1
  View<const int64_t, 1> ends;    // [S1] part s has the points from ends[s] on
  View<double, 4> sums;           // [M S f K]
  View<double, 3> shares;         // [M n K]?
};

struct MixtureBlock {
  static constexpr int ROWS = REGISTERS >= 32 ? 8 : 4;
  int64_t q, f, width;                   // width: number of components, in whole vectors
  double *factors, *wide, *share, *sum;  // (f, width), (f, ROWS), (ROWS, width), (f, width)
  bool known[ROWS];

  void take(Scratch& scratch) {
    scratch.give(f * width, factors, sum);
    scratch.give(f * ROWS, wide), scratch.give(ROWS * width, share);
  }
  // Lanes beyond the last component have no density.
  void prepare(const View<const double, 3>& given, int64_t m) {
    const int64_t components = given.shape[2];
    for (int64_t j = 0; j < f; ++j)
      for (int64_t k = 0; k < width; ++k)
        factors[j * width + k] = k < components ? given(m, j, k) : j + 1 < f ? 0.0 : -1e300;
  }
  // y, y^2 and 1 of some points; zeros after the last one and where a coordinate is NaN.
  void load_points(const double* points, int64_t count) {
    for (int r = 0; r < ROWS; ++r) {
      const double* y = points + (r < count ? r : 0) * q;
      known[r] = r < count;
      for (int64_t i = 0; i < q; ++i) known[r] &= y[i] == y[i];
      for (int64_t i = 0; i < q; ++i) {
        const double value = known[r] ? y[i] : 0.0;
        wide[i * ROWS + r] = value, wide[(q + i) * ROWS + r] = value * value;
      }
      wide[2 * q * ROWS + r] = 1.0;
    }
  }
  void find_shares() {
    Doubles top[ROWS], total[ROWS];
    for (int r = 0; r < ROWS; ++r) top[r] = spread<Doubles>(-INFINITY), total[r] = Doubles{};
    for (int64_t k = 0; k < width; k += WIDTH) {
      Doubles log[ROWS] = {};
      for (int64_t j = 0; j < f; ++j) {
        const Doubles factor = rounded(load<Doubles>(factors + j * width + k));
        for (int r = 0; r < ROWS; ++r) log[r] += wide[j * ROWS + r] * factor;
      }
      for (int r = 0; r < ROWS; ++r) {
        top[r] = maximum(top[r], log[r]);
        store(share + r * width + k, log[r]);
      }
    }
    for (int r = 0; r < ROWS; ++r) top[r] = spread<Doubles>(-smallest_lane(-top[r]));
    for (int64_t k = 0; k < width; k += WIDTH)
      for (int r = 0; r < ROWS; ++r) {
        const Doubles log = load<Doubles>(share + r * width + k) - top[r];
        const Doubles part = exponential(maximum(log, spread<Doubles>(-690.0)));
        total[r] += part;
        store(share + r * width + k, part);
      }
    for (int r = 0; r < ROWS; ++r) {
      const double factor = known[r] ? 1.0 / sum_of_lanes(total[r]) : 0.0;
      for (int64_t k = 0; k < width; k += WIDTH)
        store(share + r * width + k, load<Doubles>(share + r * width + k) * factor);
    }
  }
  void add() {
    for (int64_t k = 0; k < width; k += WIDTH) {
      Doubles part[ROWS];
      for (int r = 0; r < ROWS; ++r) part[r] = load<Doubles>(share + r * width + k);
      for (int64_t j = 0; j < f; ++j) {
        Doubles value = load<Doubles>(sum + j * width + k);
        for (int r = 0; r < ROWS; ++r) value += wide[j * ROWS + r] * part[r];
        store(sum + j * width + k, value);
      }
    }
  }
};

inline int64_t mixture_sums(const MixtureArguments& a) {
  const int64_t components = a.factors.shape[2];
  MixtureBlock block{a.points.shape[2], a.factors.shape[1], whole(components, WIDTH)};
  Scratch scratch;
  if (!scratch.lay_out([&] { block.take(scratch); })) return OUT_OF_MEMORY;
  for (int64_t m = 0; m < a.points.shape[0]; ++m) {
    block.prepare(a.factors, m);
    for (int64_t s = 0; s + 1 < a.ends.shape[0]; ++s) {
      for (int64_t k = 0; k < block.f * block.width; ++k) block.sum[k] = 0.0;
      for (int64_t t = a.ends(s); t < a.ends(s + 1); t += MixtureBlock::ROWS) {
        const int64_t left = a.ends(s + 1) - t;
        const int64_t count = left < MixtureBlock::ROWS ? left : MixtureBlock::ROWS;
        block.load_points(a.points.at(m, t), count);
        block.find_shares();
        block.add();
        for (int64_t r = 0; a.shares.given() && r < count; ++r)
          memcpy(a.shares.at(m, t + r), block.share + r * block.width, size_t(components) * 8);
      }
      for (int64_t j = 0; j < block.f; ++j)
        memcpy(a.sums.at(m, s, j), block.sum + j * block.width, size_t(components) * 8);
    }
  }
  return DONE;
}

}  // namespace mercer
