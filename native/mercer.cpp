// What Python calls: one function per recursion, each with one struct of arguments. The build reads
// the functions here and the structs in the headers, and the library carries their description.
// instances.hpp chooses the instance of a template.
#include "instances.hpp"

using namespace mercer;

#define MERCER_EXPORT extern "C" __attribute__((visibility("default")))
// A function that Python calls: its name, the struct of its arguments, and the instance that runs.
#define MERCER_CALL(name, Arguments, ...) \
  MERCER_EXPORT int64_t name(const Arguments* a) { return __VA_ARGS__; }

MERCER_EXPORT const char* mercer_build() { return MERCER_BUILD; }
MERCER_EXPORT const char* mercer_signatures() { return MERCER_SIGNATURES; }

MERCER_CALL(affine_pairs, AffineArguments, affine_pairs(*a))
MERCER_CALL(pairs, PairArguments, pairs(*a))
MERCER_CALL(kalman_room, KalmanRoomArguments, kalman_room(*a))
MERCER_CALL(kalman, KalmanArguments, kalman(*a))
MERCER_CALL(system_pairs, SystemPairArguments, system_pairs(*a))
MERCER_CALL(chains, ChainArguments, instances::chains(*a))
MERCER_CALL(ranged_chains, RangedChainArguments, ranged_chains(*a))
MERCER_CALL(csr_products, CsrArguments, csr<RowProduct>(*a))
MERCER_CALL(csr_entropies, CsrArguments, csr<SharedEntropy>(*a))
MERCER_CALL(gaussian_pairs, GaussianPairArguments, gaussian_pairs(*a))
MERCER_CALL(point_sums, PointArguments, instances::point_sums(*a))
MERCER_CALL(window_sums, WindowArguments, instances::window_sums(*a))
MERCER_CALL(window_points, WindowPointArguments, window_points(*a))
MERCER_CALL(mixture_sums, MixtureArguments, mixture_sums(*a))
MERCER_CALL(difference_counts, DifferenceArguments, difference_counts(*a))
MERCER_CALL(forward, ForwardArguments, instances::forward(*a))
MERCER_CALL(best_paths, PathArguments, best_paths(*a))
MERCER_CALL(gaussian_rows, GaussianRowArguments, gaussian_rows(*a))
MERCER_CALL(moments, MomentArguments, moments(*a))
MERCER_CALL(histories, HistoryArguments, instances::histories(*a))
MERCER_CALL(profile_room, ProfileRoomArguments, profile_room(*a))
MERCER_CALL(profiles, ProfileArguments, profiles(*a))
MERCER_CALL(profile_paths, ProfilePathArguments, profile_paths(*a))
MERCER_CALL(profile_products, ProfileProductArguments, profile_products(*a))
MERCER_CALL(context_products, ContextProductArguments, context_products(*a))
