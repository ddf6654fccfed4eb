"""Test batteries for kernels, families, models and estimators, those of mercer and third-party ones.

A test class inherits a battery, and defines the tested object and a slow reference implementation. In your own
repository::

    from mercer.testing import KernelContract, by_pairs


    class TestMyKernel(KernelContract):
        def kernel(self):
            return MyKernel(gamma=0.3)

        def data(self, seed, n):
            return np.random.default_rng(seed).normal(size=(n, 5))

        def truth(self, X):
            return by_pairs(lambda x, y: ..., X)

===================  ================================================================================
`KernelContract`     kernels for any input: symmetry, positive semi-definiteness, threads, tiles, clone, pickle
`PluralContract`     kernels between batches: also other array libraries; with `Gradients`, torch's gradcheck
`FamilyContract`     exponential families: closed forms against quadrature or sums, scores, samples, shapes, files
`EstimatorContract`  estimators of families: maximum likelihood, priors, weights, caches, scikit-learn's conventions
`ModelContract`      structured models and their estimators: densities, couplings and samples against enumeration, fits
===================  ================================================================================

`find_counterexample` searches for objects on which a kernel is not positive semi-definite; `KernelContract` uses it for
kernels whose verdict is "always".

Needs ``pip install pytest hypothesis array-api-strict``.
"""

try:
    import pytest
except ImportError as error:
    raise ImportError("mercer.testing requires pytest; run pip install pytest hypothesis array-api-strict.") from error

# Before the batteries are imported, so that failures of their plain asserts show the values.
pytest.register_assert_rewrite(
    *(f"mercer.testing.{name}" for name in ("batches", "estimators", "families", "kernels", "models", "plain_families"))
)

from mercer.testing.counterexamples import Counterexample, find_counterexample  # noqa: E402
from mercer.testing.estimators import EstimatorContract  # noqa: E402
from mercer.testing.families import FamilyContract  # noqa: E402
from mercer.testing.kernels import Gradients, KernelContract, PluralContract, by_pairs  # noqa: E402
from mercer.testing.models import ModelContract  # noqa: E402
from mercer.testing.plain_families import PlainFamilyContract  # noqa: E402

__all__ = [
    "Counterexample",
    "EstimatorContract",
    "FamilyContract",
    "Gradients",
    "KernelContract",
    "ModelContract",
    "PlainFamilyContract",
    "PluralContract",
    "by_pairs",
    "find_counterexample",
]
