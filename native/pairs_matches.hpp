// The alignment of maximum expected accuracy: the increasing chain of cells with the largest sum of
// probabilities. Limited by memory: one number per cell is stored.
//
//     best(i,j) = max(best(i-1,j), best(i,j-1), best(i-1,j-1) + p(i,j))
#pragma once
#include "view.hpp"

namespace mercer {

struct MatchArguments {
  View<const double, 2> probability;  // [n m]
  double least;                       // cells with a smaller one are left out
  View<double, 2> best;               // [n1 m1] memory
  View<int64_t, 2> cells;             // [k 2] k = min(n, m): the chain, last cell first
};

// Returns the number of cells; of chains with equal sums, the one with fewer cells.
inline int64_t most_accurate(const MatchArguments& a) {
  int64_t i = a.probability.shape[0], j = a.probability.shape[1], count = 0;
  for (int64_t row = 0; row <= i; ++row)
    for (int64_t c = 0; c <= j; ++c) {
      double best = 0;
      if (row > 0 && c > 0) {
        best = a.best(row - 1, c) > a.best(row, c - 1) ? a.best(row - 1, c) : a.best(row, c - 1);
        const double p = a.probability(row - 1, c - 1), sum = a.best(row - 1, c - 1) + p;
        if (p > 0 && p >= a.least && sum > best) best = sum;
      }
      a.best(row, c) = best;
    }
  while (i > 0 && j > 0) {
    if (a.best(i, j) == a.best(i - 1, j)) {
      --i;
    } else if (a.best(i, j) == a.best(i, j - 1)) {
      --j;
    } else {
      --i, --j;
      a.cells(count, 0) = i, a.cells(count++, 1) = j;
    }
  }
  return count;
}

}  // namespace mercer
