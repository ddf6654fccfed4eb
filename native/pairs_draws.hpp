// Random trajectories of a pair HMM (MK-5) and the symbols that they emit, one visit of all
// trajectories at a time. Uniform numbers are those of NumPy's generator, whose function is called.
// Limited by these calls.
#pragma once
#include "view.hpp"

namespace mercer {

struct WalkArguments {
  int64_t next;  // address of double next(void* generator)
  int64_t generator;
  View<const double, 2> step;     // [n n1] cumulative; the last outcome is the end
  View<const double, 1> silent;   // [n]
  View<const double, 2> letters;  // [n k] cumulative
  View<int64_t, 1> state;         // [N]
  View<int64_t, 1> on;            // [N] first the trajectories that have not ended,
  int64_t count;                  // of this number
  View<int32_t, 2> owner;         // [copies room] room >= count; the trajectory of each symbol,
  View<int32_t, 2> symbol;        // [copies room] and the symbol
  View<int64_t, 1> used;          // [copies] how many there are
};

constexpr int64_t VISITS_OF_A_CALL = 1 << 20;

// Returns how many trajectories have not ended when the room or the work of a call is used up.
inline int64_t walk(const WalkArguments& a) {
  const auto next = reinterpret_cast<double (*)(void*)>(a.next);
  void* const generator = reinterpret_cast<void*>(a.generator);
  const int64_t n = a.silent.shape[0], copies = a.used.shape[0];
  int64_t count = a.count, most = 0;
  auto outcome = [&](const double* upper, int64_t size) {
    const double draw = next(generator) * upper[size - 1];
    int64_t k = 0;
    while (k < size - 1 && draw >= upper[k]) ++k;
    return k;
  };
  Scratch scratch;
  char* loud;
  if (!scratch.lay_out([&] { scratch.give(count, loud); })) return OUT_OF_MEMORY;
  for (int64_t visits = 0;
       count > 0 && most + count <= a.owner.shape[1] && visits < VISITS_OF_A_CALL;
       visits += count) {
    for (int64_t copy = 0; copy < copies; ++copy) {
      for (int64_t q = 0; q < count; ++q) loud[q] = next(generator) >= a.silent(a.state(a.on(q)));
      for (int64_t q = 0; q < count; ++q) {
        if (!loud[q]) continue;
        const int64_t at = a.used(copy)++;
        a.owner(copy, at) = int32_t(a.on(q));
        a.symbol(copy, at) = int32_t(outcome(a.letters.at(a.state(a.on(q))), a.letters.shape[1]));
      }
      most = a.used(copy) > most ? a.used(copy) : most;
    }
    int64_t left = 0;
    for (int64_t q = 0; q < count; ++q) {
      const int64_t who = a.on(q);
      a.state(who) = outcome(a.step.at(a.state(who)), n + 1);
      if (a.state(who) < n) a.on(left++) = who;
    }
    count = left;
  }
  return count;
}

}  // namespace mercer
