// Windows of series around some steps, at several scales: their channels may lose their means and
// sizes, and they may be whitened.
//
//     y = (window - center) W, then the time
//
// Lanes are whitened coordinates.
#pragma once
#include "view.hpp"

namespace mercer {

struct WindowPointArguments {
  View<const double, 2> values;      // [T c] series, one after the other
  View<const int64_t, 1> offsets;    // [S1] series s has the steps from offsets[s] on
  View<const int64_t, 1> steps;      // [n] in the middle of the windows, in increasing order
  View<const int64_t, 1> dilations;  // [M] steps between the values of a window, for every scale
  View<const double, 2> floor;       // [M c]? added to the sizes of channels, which are scaled
  View<const double, 2> center;      // [M v]? length values of every channel, v = c * length
  View<const double, 3> whitening;   // [M v p]?
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
    for (int64_t i = 0; i < v; ++i) window[i] -= a.center(m, i);
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

}  // namespace mercer
