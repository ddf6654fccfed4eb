// Windows of series at several scales, and mixtures of diagonal Gaussians over them (FK-5): what
// Fisher vectors are made of.
//
//     y = (window - center) W, then the time        share of k ~ exp(<factors_k, (y, y^2, 1)>)
//     sums over the windows of a part of a series: share_k (y, y^2, 1)
//
// Lanes are whitened coordinates, then components. ROWS windows of one part share the loads of
// factors, and loads and stores of sums, which limit the speed. A point that is NaN has no shares.
#pragma once
#include "view.hpp"

namespace mercer {

struct WindowPointArguments {
  View<const double, 2> values;      // [T c] series, one after the other
  View<const int64_t, 1> offsets;    // [S1] series s has the steps from offsets[s] on
  View<const int64_t, 1> steps;      // [n] in the middle of the windows, in increasing order
  View<const int64_t, 1> dilations;  // [M] steps between the values of a window, for every scale
  View<const double, 2> floor;       // [M c]? channels lose their mean and size, beyond this
  View<const double, 2> center;      // [M v]? length values of every channel, v = c * length
  View<const double, 3> whitening;   // [M v p]?
  View<const double, 1> reach;       // [M]? values are at most so far from the center
  View<double, 3> points;            // [M n q] q = p + 1: the last one is the time; or q = v
};

// The step of a series of last + 1 steps that is at `place`, if the series is reflected at its
// ends.
MERCER_INLINE int64_t reflected(int64_t place, int64_t last) {
  if (place < 0) place = -place;
  if (place > last) {
    place %= last ? 2 * last : 1;
    if (place > last) place = 2 * last - place;
  }
  return place;
}

// Subtract the mean of a channel, and divide by its root mean square plus a floor; NaN is left out.
MERCER_INLINE void standardize(double* values, int64_t length, double floor) {
  double count = 0.0, mean = 0.0, largest = 0.0, square = 0.0;
  for (int64_t k = 0; k < length; ++k) count += values[k] == values[k];
  for (int64_t k = 0; k < length; ++k) mean += values[k] == values[k] ? values[k] / count : 0.0;
  for (int64_t k = 0; k < length; ++k) {
    values[k] -= mean;
    largest = fabs(values[k]) > largest ? fabs(values[k]) : largest;  // whose square may overflow
  }
  for (int64_t k = 0; k < length && largest > 0.0; ++k) {
    const double part = values[k] / largest;
    square += part == part ? part * part : 0.0;
  }
  const double size = (largest > 0.0 ? largest * sqrt(square / count) : 0.0) + floor;
  for (int64_t k = 0; k < length && size > 0.0; ++k) values[k] /= size;
}

struct WindowScale {
  const WindowPointArguments& a;
  int64_t m;                                       // which one
  int64_t channels, v, length, p, width;           // width: p in whole vectors
  double *window = nullptr, *whitening = nullptr;  // (v), (v, width)

  WindowScale(const WindowPointArguments& a, int64_t m)
      : a(a),
        m(m),
        channels(a.values.shape[1]),
        v(a.center.given() ? a.center.shape[1] : a.points.shape[2]),
        length(channels ? v / channels : 0),
        p(a.whitening.shape[2]),
        width(whole(p, WIDTH)) {}
  void take(Scratch& scratch) { scratch.give(v, window), scratch.give(v * width, whitening); }
  void prepare() {
    for (int64_t i = 0; i < v; ++i)
      for (int64_t j = 0; j < width; ++j)
        whitening[i * width + j] = j < p ? a.whitening(m, i, j) : 0.0;
  }
  void cut(int64_t first, int64_t last, int64_t here) {
    for (int64_t k = 0; k < length; ++k) {
      const int64_t place = here + a.dilations(m) * (k - length / 2);
      const double* value = a.values.at(first + reflected(place, last));
      for (int64_t c = 0; c < channels; ++c) window[c * length + k] = value[c];
    }
    for (int64_t c = 0; a.floor.given() && c < channels; ++c)
      standardize(window + c * length, length, a.floor(m, c));
  }
  void whiten(double* point) {
    for (int64_t i = 0; i < v; ++i) {
      const double away = window[i] - a.center(m, i), reach = a.reach(m);
      window[i] = away < -reach ? -reach : away > reach ? reach : away;
    }
    for (int64_t j = 0; j < p; j += WIDTH) {
      Doubles sum{};
      for (int64_t i = 0; i < v; ++i) sum += window[i] * load<Doubles>(whitening + i * width + j);
      store_some(point + j, sum, p - j);
    }
  }
};

inline int64_t window_points(const WindowPointArguments& a) {
  Scratch scratch;
  for (int64_t m = 0; m < a.dilations.shape[0]; ++m) {
    WindowScale scale(a, m);
    if (!scratch.lay_out([&] { scale.take(scratch); })) return OUT_OF_MEMORY;
    scale.prepare();
    for (int64_t t = 0, s = 0; t < a.steps.shape[0]; ++t) {
      while (a.steps(t) >= a.offsets(s + 1)) ++s;
      const int64_t first = a.offsets(s), last = a.offsets(s + 1) - first - 1;
      const int64_t here = a.steps(t) - first;
      double* point = a.points.at(m, t);
      scale.cut(first, last, here);
      if (a.center.given()) {
        scale.whiten(point);
        point[scale.p] = 1.7320508075688772 * double(2 * here - last) / double(last ? last : 1);
      } else {
        memcpy(point, scale.window, size_t(scale.v) * 8);
      }
    }
  }
  return DONE;
}

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
