// Arrays as C++ sees them: a pointer and a shape, C-contiguous. Python checks them
// (src/mercer/_native), nothing here does.
#pragma once
#include "vector.hpp"

namespace mercer {

template <class T, int R>
struct View {
  T* data;
  int64_t shape[R];

  bool given() const { return data != nullptr; }
  int64_t size() const {
    int64_t n = 1;
    for (int axis = 0; axis < R; ++axis) n *= shape[axis];
    return n;
  }
  // Pointer to the block with these leading indices.
  template <class... Index>
  MERCER_INLINE T* at(Index... index) const {
    int64_t place = 0, axis = 0;
    ((place = place * shape[axis++] + index), ...);
    for (; axis < R; ++axis) place *= shape[axis];
    return data + place;
  }
  template <class... Index>
  MERCER_INLINE T& operator()(Index... index) const {
    static_assert(sizeof...(index) == R);
    return *at(index...);
  }
};

template <class T>
MERCER_INLINE void exchange(T& a, T& b) {
  T c = a;
  a = b, b = c;
}

// The next multiple of a unit.
MERCER_INLINE int64_t whole(int64_t number, int64_t unit) {
  return (number + unit - 1) / unit * unit;
}

// MORE: the work is not finished, and the next call goes on.
enum Status : int64_t { DONE = 0, OUT_OF_MEMORY = -1, MORE = 1 };

// Scratch memory of one call: counted first, allocated once, aligned to cache lines, freed at the
// end of the call. A struct whose members take their memory is made twice: to count, and to use.
class Scratch {
  char* base = nullptr;
  size_t used = 0, size = 0;
  bool own = true;

 public:
  Scratch() = default;
  // Memory that Python holds from call to call: at least as many numbers as `numbers` of an empty
  // one from which the same was taken.
  explicit Scratch(const View<double, 1>& held)
      : base(reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(held.data) + 63) / 64 * 64)),
        own(false) {}
  int64_t numbers() const { return int64_t(used + 64) / int64_t(sizeof(double)); }
  // Memory for all that was taken; what follows is taken from its beginning. Memory that is large
  // enough is kept. Returns whether there is enough.
  bool allocate() {
    if (!base || used > size) {
      free(base);
      size = used;
      if (posix_memalign(reinterpret_cast<void**>(&base), 64, size + 64) != 0) base = nullptr;
    }
    used = 0;
    return base != nullptr;
  }
  ~Scratch() {
    if (own) free(base);
  }
  Scratch(const Scratch&) = delete;
  template <class T>
  T* take(int64_t count) {
    const uintptr_t here = reinterpret_cast<uintptr_t>(base) + used;
    used += (size_t(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(here);
  }
  template <class... T>
  void give(int64_t count, T*&... arrays) {  // each of `count` entries
    ((arrays = take<T>(count)), ...);
  }
  // Call `takes` twice: to count the bytes that it takes, and then to hand out memory.
  template <class F>
  bool lay_out(F takes) {
    used = 0, takes();
    const bool enough = allocate();
    if (enough) takes();
    return enough;
  }
};

}  // namespace mercer
