// Single strings under pair HMMs with affine gaps (MK-5b, MK-5d): log probabilities, and gradients
// in every parameter as a free weight.
//
// A position has four states: the flank before the first match, match, insertion between matches,
// the flank after the last one. Global alignments are those whose flanks are distributed as gaps.
// All states of a position depend on those of the previous one, so that one scale for them is
// enough. Lanes are different strings, which keep their states after their end. Limited by the
// divisions, logarithms and scattered sums of a position.
#pragma once
#include "view.hpp"

namespace mercer {

struct AffineSingleArguments {
  View<const int32_t, 1> values;
  View<const int64_t, 1> offsets;   // S+1
  View<const double, 1> match;      // C: probability of a code as a match
  View<const double, 1> insertion;  // C
  View<const double, 1> rates;      // 5: open, extend, continuation, open and extend of flanks
  View<double, 1> log_prob;         // S
  View<double, 2>
      events;  // S 6: in continuation, open, extend, open and extend of flanks; no match; or null
  View<double, 2> matched;  // S C: in the probability of a code as a match
  View<double, 2> letters;  // S C: and as an insertion
};

class AffineSingle {
  using V = Doubles;
  const AffineSingleArguments& a;
  const double o, e, c, fo, fe;
  V *forward, *scale, *match, *insertion;  // [position][state], [position]
  const int32_t* string[WIDTH];
  Words size;
  int64_t longest = 0;

 public:
  static size_t room(int64_t longest) {
    return Scratch::room<V>(4 * (longest + 1)) + 3 * Scratch::room<V>(longest + 1);
  }
  AffineSingle(Scratch& scratch, const AffineSingleArguments& a_, int64_t most)
      : a(a_), o(a_.rates(0)), e(a_.rates(1)), c(a_.rates(2)), fo(a_.rates(3)), fe(a_.rates(4)) {
    forward = scratch.take<V>(4 * (most + 1)), scale = scratch.take<V>(most + 1);
    match = scratch.take<V>(most + 1), insertion = scratch.take<V>(most + 1);
  }

  void run(int64_t first, int64_t live) {
    gather(first, live);
    V logs = go();
    V *last = forward + 4 * longest, start = size == 0 ? spread<V>(1.0) : V{};
    const V none = (1 - c) * ((1 - fo) * start + (1 - fe) * last[0]);
    const V end = none + (1 - c) * (1 - fo) * last[1] + (1 - fe) * last[3];
    for (int64_t lane = 0; lane < live; ++lane)
      a.log_prob(first + lane) = end[lane] > 0 ? logs[lane] + log(end[lane]) : -INFINITY;
    if (!a.events.given()) return;
    const V inverse = end > 0.0 ? 1.0 / end : V{};
    for (int64_t lane = 0; lane < live; ++lane)
      a.events(first + lane, 5) = none[lane] * inverse[lane];
    back(first, live, inverse);
  }

 private:
  void gather(int64_t first, int64_t live) {
    longest = 0;
    for (int64_t lane = 0; lane < WIDTH; ++lane) {
      const int64_t r = first + (lane < live ? lane : live - 1);
      string[lane] = a.values.data + a.offsets(r), size[lane] = a.offsets(r + 1) - a.offsets(r);
      longest = size[lane] > longest ? size[lane] : longest;
    }
    for (int64_t i = 1; i <= longest; ++i)
      for (int lane = 0; lane < WIDTH; ++lane) {
        const bool inside = i <= size[lane];
        match[i][lane] = inside ? a.match(string[lane][i - 1]) : 0.0;
        insertion[i][lane] = inside ? a.insertion(string[lane][i - 1]) : 0.0;
      }
  }

  // The states before a match, without the match itself.
  MERCER_INLINE V before(int64_t i) const {
    const V* at = forward + 4 * i;
    const V begin = spread<V>(i == 0 ? 1 - fo : 0.0);
    return begin + (1 - fe) * at[0] + (1 - o) * at[1] + (1 - e) * at[2];
  }

  V go() {
    V logs{};
    for (int k = 0; k < 4; ++k) forward[k] = V{};
    for (int64_t i = 1; i <= longest; ++i) {
      const V *at = forward + 4 * (i - 1), q = insertion[i];
      V* to = forward + 4 * i;
      const double start = i == 1 ? fo : 0.0;
      V new_state[4] = {q * (start + fe * at[0]), c * match[i] * before(i - 1),
                        q * (o * at[1] + e * at[2]), q * ((1 - c) * fo * at[1] + fe * at[3])};
      auto inside = size >= i;
      V sum = new_state[0] + new_state[1] + new_state[2] + new_state[3];
      sum = inside & (sum > 0.0) ? sum : spread<V>(1.0);  // an impossible string has only zeros
      scale[i] = sum;
      for (int k = 0; k < 4; ++k) to[k] = inside ? new_state[k] / sum : at[k];
      for (int lane = 0; lane < WIDTH; ++lane)
        logs[lane] += sum[lane] == 1.0 ? 0.0 : log(sum[lane]);
    }
    return logs;
  }

  // Products of backward and forward values sum to one at every position.
  void back(int64_t first, int64_t live, V inverse) {
    V b0 = (1 - c) * (1 - fe) * inverse, b1 = (1 - c) * (1 - fo) * inverse, b2{},
      b3 = (1 - fe) * inverse;
    V events[5] = {};
    for (int64_t i = longest; i > 0; --i) {
      const V *at = forward + 4 * (i - 1), unit = 1.0 / scale[i], q = insertion[i] * unit;
      const double start = i == 1 ? 1.0 : 0.0;
      const V mix = before(i - 1) * b1 * unit;
      auto inside = size >= i;
      events[0] += match[i] * mix;
      events[1] += at[1] * q * b2;
      events[2] += at[2] * q * b2;
      events[3] += q * (start * b0 + (1 - c) * at[1] * b3);
      events[4] += q * (at[0] * b0 + at[3] * b3);
      const V entered = (fo * start + fe * at[0]) * b0 + (o * at[1] + e * at[2]) * b2;
      const V letter = (entered + ((1 - c) * fo * at[1] + fe * at[3]) * b3) * unit;
      for (int64_t lane = 0; lane < live; ++lane) {
        if (i > size[lane]) continue;
        a.matched(first + lane, string[lane][i - 1]) += c * mix[lane];
        a.letters(first + lane, string[lane][i - 1]) += letter[lane];
      }
      const V to_match = c * match[i] * b1 * unit;
      const V n0 = (1 - fe) * to_match + fe * q * b0;
      const V n1 = (1 - o) * to_match + q * (o * b2 + (1 - c) * fo * b3);
      const V n2 = (1 - e) * to_match + e * q * b2, n3 = fe * q * b3;
      b0 = inside ? n0 : b0, b1 = inside ? n1 : b1, b2 = inside ? n2 : b2, b3 = inside ? n3 : b3;
    }
    for (int64_t lane = 0; lane < live; ++lane)
      for (int k = 0; k < 5; ++k) a.events(first + lane, k) += events[k][lane];
  }
};

inline int64_t affine_single(const AffineSingleArguments& a) {
  const int64_t count = a.log_prob.shape[0];
  int64_t longest = 0;
  for (int64_t r = 0; r < count; ++r) {
    const int64_t size = a.offsets(r + 1) - a.offsets(r);
    longest = size > longest ? size : longest;
  }
  Scratch scratch(AffineSingle::room(longest));
  if (scratch.failed()) return OUT_OF_MEMORY;
  AffineSingle work(scratch, a, longest);
  for (int64_t first = 0; first < count; first += WIDTH)
    work.run(first, count - first < WIDTH ? count - first : WIDTH);
  return DONE;
}

}  // namespace mercer
