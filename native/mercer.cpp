// What Python calls: one function per recursion, each with one struct of arguments
// (src/mercer/_native/signatures.py).
#include "best_path.hpp"
#include "chains.hpp"
#include "contexts.hpp"
#include "counts.hpp"
#include "csr.hpp"
#include "forest.hpp"
#include "forward.hpp"
#include "gaussian_rows.hpp"
#include "gaussians.hpp"
#include "kalman_pairs.hpp"
#include "kalman_smoother.hpp"
#include "moments.hpp"
#include "pairs_affine.hpp"
#include "pairs_affine_ranged.hpp"
#include "pairs_draws.hpp"
#include "pairs_general.hpp"
#include "pairs_matches.hpp"
#include "profile_paths.hpp"
#include "profile_product.hpp"
#include "profiles.hpp"
#include "windows.hpp"

using namespace mercer;

#define MERCER_EXPORT extern "C" __attribute__((visibility("default")))

MERCER_EXPORT const char* mercer_build() { return MERCER_BUILD; }

MERCER_EXPORT int64_t affine_pairs(const AffineArguments* a) { return affine_pairs(*a); }
MERCER_EXPORT int64_t ranged_affine(const RangedAffineArguments* a) { return ranged_affine(*a); }
MERCER_EXPORT int64_t kalman_room(const KalmanRoomArguments* a) { return kalman_room(*a); }
MERCER_EXPORT int64_t kalman(const KalmanArguments* a) { return kalman(*a); }
MERCER_EXPORT int64_t system_pairs(const SystemPairArguments* a) { return system_pairs(*a); }
MERCER_EXPORT int64_t walk(const WalkArguments* a) { return walk(*a); }
MERCER_EXPORT int64_t general_pairs(const GeneralPairArguments* a) {
  return with_states(a->model.silent.shape[0], [&]<int S>() { return general_pairs<S>(*a); });
}
MERCER_EXPORT int64_t general_expected(const GeneralExpectedArguments* a) {
  return with_states(a->model.silent.shape[0], [&]<int S>() { return general_expected<S>(*a); });
}
MERCER_EXPORT int64_t most_accurate(const MatchArguments* a) { return most_accurate(*a); }
MERCER_EXPORT int64_t chains(const ChainArguments* a) {
  return chain_instance(a->initial_a.shape[1], a->initial_b.shape[1],
                        [&]<int S, int R, int C>() { return chains<S, R, C>(*a); });
}
MERCER_EXPORT int64_t ranged_chains(const RangedChainArguments* a) { return ranged_chains(*a); }
MERCER_EXPORT int64_t discounted_chains(const DiscountedChainArguments* a) {
  return chain_instance(a->initial_a.shape[1], a->initial_b.shape[1],
                        [&]<int S, int R, int C>() { return discounted<S, R, C>(*a); });
}
MERCER_EXPORT int64_t csr_products(const CsrArguments* a) { return csr<RowProduct>(*a); }
MERCER_EXPORT int64_t csr_entropies(const CsrArguments* a) { return csr<SharedEntropy>(*a); }
MERCER_EXPORT int64_t gaussian_pairs(const GaussianPairArguments* a) { return gaussian_pairs(*a); }
MERCER_EXPORT int64_t point_sums(const PointArguments* a) { return point_sums(*a); }
MERCER_EXPORT int64_t window_sums(const WindowArguments* a) {
  return a->term == SUM ? window_sums<SUM>(*a) : window_sums<NEAREST>(*a);
}
MERCER_EXPORT int64_t difference_counts(const DifferenceArguments* a) {
  return difference_counts(*a);
}
MERCER_EXPORT int64_t forward(const ForwardArguments* a) { return forward(*a); }
MERCER_EXPORT int64_t best_paths(const PathArguments* a) { return best_paths(*a); }
MERCER_EXPORT int64_t gaussian_rows(const GaussianRowArguments* a) { return gaussian_rows(*a); }
MERCER_EXPORT int64_t moments(const MomentArguments* a) { return moments(*a); }
MERCER_EXPORT int64_t pair_cells(const PairCellArguments* a) { return pair_cells(*a); }
MERCER_EXPORT int64_t histories(const HistoryArguments* a) {
  return a->watched ? histories<true>(*a) : histories<false>(*a);
}
MERCER_EXPORT int64_t history_pairs(const HistoryPairArguments* a) {
  return a->watched ? history_pairs<true>(*a) : history_pairs<false>(*a);
}
MERCER_EXPORT int64_t count_sums(const CountSumArguments* a) { return count_sums(*a); }
MERCER_EXPORT int64_t log_count_sums(const LogCountSumArguments* a) { return log_count_sums(*a); }
MERCER_EXPORT int64_t count_mean_maps(const CountMeanMapArguments* a) {
  return count_mean_maps(*a);
}
MERCER_EXPORT int64_t profiles(const ProfileArguments* a) { return profiles(*a); }
MERCER_EXPORT int64_t profile_paths(const ProfilePathArguments* a) { return profile_paths(*a); }
MERCER_EXPORT int64_t profile_products(const ProfileProductArguments* a) {
  return profile_products(*a);
}
MERCER_EXPORT int64_t context_products(const ContextProductArguments* a) {
  return context_products(*a);
}
MERCER_EXPORT int64_t readings(const ReadingArguments* a) { return readings(*a); }
