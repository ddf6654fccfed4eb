// Pairs of strings in lanes, and recursions that go through all rows forward and backward.
#pragma once
#include "number.hpp"
#include "view.hpp"

namespace mercer {

// Given pairs of strings of two sides: string i of the left one is left[left_offsets[i]] to
// left[left_offsets[i + 1] - 1].
struct PairStrings {
  View<const int32_t, 1> left;           // [A]
  View<const int64_t, 1> left_offsets;   // [I1]
  View<const int32_t, 1> right;          // [B]
  View<const int64_t, 1> right_offsets;  // [J1]
  View<const int64_t, 1> rows;           // [P] the left string of each pair
  View<const int64_t, 1> columns;        // [P] similar sizes next to each other share lanes well
};

// The pairs that share the W lanes of one group; the last one fills the other lanes.
template <int W>
struct PairLanes {
  int64_t first, live, tall = 0, wide = 0;
  const int32_t *s[W], *t[W];
  int64_t n[W], m[W];

  bool ends_in(int64_t i) const {  // whether a string s ends at row i
    bool found = false;
    for (int lane = 0; lane < W; ++lane) found = found || n[lane] == i;
    return found;
  }
  PairLanes(const PairStrings& of, int64_t first_)
      : first(first_), live(of.rows.shape[0] - first_ < W ? of.rows.shape[0] - first_ : W) {
    for (int64_t lane = 0; lane < W; ++lane) {
      const int64_t p = first + (lane < live ? lane : live - 1), i = of.rows(p), j = of.columns(p);
      s[lane] = of.left.data + of.left_offsets(i), t[lane] = of.right.data + of.right_offsets(j);
      n[lane] = of.left_offsets(i + 1) - of.left_offsets(i);
      m[lane] = of.right_offsets(j + 1) - of.right_offsets(j);
      tall = n[lane] > tall ? n[lane] : tall, wide = m[lane] > wide ? m[lane] : wide;
    }
  }
};

// All rows forward, then all backward. Where many rows do not fit the memory, some are kept and the
// rows of a block between them computed again, so that the memory grows with the square root of
// their number.
template <class T>
struct Rows {
  static constexpr int64_t ENOUGH = 1 << 22;  // bytes of rows that need not be computed again
  int64_t count, line, block, parts;
  T *kept, *rows;

  static int64_t block_of(int64_t count, int64_t line) {
    const int64_t root = int64_t(ceil(sqrt(double(count)))),
                  fits = ENOUGH / int64_t(line * sizeof(T));
    const int64_t block = root > fits ? root : fits;
    return block < count ? block : count;
  }
  void take(Scratch& scratch, int64_t count_, int64_t line_) {
    count = count_, line = line_, block = block_of(count, line);
    parts = (count + block - 1) / block;
    kept = scratch.take<T>(parts * line), rows = scratch.take<T>((block + 1) * line);
  }
  void copy(T* to, const T* from) const {
    for (int64_t at = 0; at < line; ++at) to[at] = from[at];
  }
  // forward(i, row above, row, whether for the first time); backward(i, row). The row before the
  // first one is that at `rows`.
  template <class Forward, class Backward>
  void sweep(Forward forward, Backward backward) const {
    for (int64_t at = 0; at < steps(); ++at) step(at, forward, backward);
  }
  // The same in steps, one for each block forward, then one for each block backward.
  int64_t steps() const { return 2 * parts; }
  template <class Forward, class Backward>
  void step(int64_t at, Forward forward, Backward backward) const {
    if (at < parts) {
      copy(kept + at * line, rows);
      const int64_t size = go(at, forward, true);
      if (at + 1 < parts) copy(rows, rows + size * line);
      return;
    }
    const int64_t part = 2 * parts - 1 - at;
    if (part + 1 < parts) copy(rows, kept + part * line), go(part, forward, false);
    const int64_t low = part * block, top = low + block < count ? low + block : count;
    for (int64_t i = top - 1; i >= low; --i) backward(i, rows + (i - low + 1) * line);
  }

 private:
  template <class Forward>
  int64_t go(int64_t part, Forward forward, bool fresh) const {
    const int64_t low = part * block, top = low + block < count ? low + block : count;
    for (int64_t i = low; i < top; ++i)
      forward(i, rows + (i - low) * line, rows + (i - low + 1) * line, fresh);
    return top - low;
  }
};

}  // namespace mercer
