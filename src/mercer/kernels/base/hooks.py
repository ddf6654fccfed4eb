"""The methods and attributes that a subclass of `Kernel` overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from array_api_compat import is_numpy_array

from mercer._array import Array, frozen
from mercer._parameters import CheckedParameters, Rules, boolean, one_of
from mercer._verdict import Verdict
from mercer.kernels._evaluation import Prepared

Bounds = Mapping[str, tuple[float, float]]
"""Parameter -> smallest and largest value in a search."""
WIDE = (1e-5, 1e5)
"""Bounds of a parameter that a Gaussian process searches, scikit-learn's own."""


class NoFeatures(TypeError):
    """A kernel has no finite explicit features."""


class Hooks(CheckedParameters):
    """The methods and attributes of a kernel that a subclass overrides; those with a body have a sensible default."""

    domain: str = "log"
    """What ``_tile`` and ``_self`` return: "log", or "linear" for kernels that can be negative."""
    nonnegative: bool = False
    """Whether a "linear" kernel is never negative, so that its logarithm is defined (-inf for 0)."""
    infinitely_divisible: bool = False
    """Whether every positive power of the normalized kernel is a positive semi-definite kernel too."""
    normalize: bool = False
    on_zero: str = "raise"
    _parameters: ClassVar[Rules] = {
        "normalize": boolean(),
        "on_zero": one_of("raise", "zero", cure="With 'zero', objects of zero norm get zeros."),
    }
    _smooth: ClassVar[Bounds] = {}
    """Positive parameters of which the kernel is a smooth function, with the usual bounds of a search (``as_gp``)."""
    _stationary: ClassVar[bool] = False
    """Whether the kernel depends on the difference of two vectors only."""
    _why_zero: str = ""
    """For messages, in brackets: what an object of zero norm looks like."""

    def _accept(self, X: Any, *, reset: bool) -> Any:
        """Convert the input to checked data."""
        raise NotImplementedError

    def _learn(self, X: Any, y: Any = None) -> None:
        """Learn what the kernel needs from accepted training data: a context, a model, a center."""

    def _source(self, X: Any) -> Any:
        """Convert accepted data to the compared objects: a batch of models, or the data themselves."""
        return X

    def _training(self, X: Any) -> Any:
        """Return the source of the accepted training data, and learn what depends on it; called after `_learn`."""
        source = self._source(X)
        # The caller may write into a matrix later; everything else is a copy already.
        return frozen(source) if is_numpy_array(source) else source

    @property
    def _learns_from_values(self) -> bool:
        """Whether ``fit`` evaluates the kernel, or parts of it, on pairs of training objects."""
        return False

    def _learn_from_values(self, y: Any = None) -> None:
        """Learn from the kernel values of all pairs of ``train_``, whose targets are ``y``; the last step of ``fit``.

        `Landmarks` calls it with the landmarks as the training objects, so that its cost stays linear.
        """

    def _match(self, source: Any, reference: Any) -> Any:
        """Check that two sources can be compared, and return the first in the format of the second."""
        return source

    def _prepare(self, source: Any) -> Any:
        """Return an operand: the work that does not depend on the other side, done once per source."""
        raise NotImplementedError

    def _tile(self, a: Any, b: Any) -> Array:
        """Return the tile of two operands, ``(..., I, J)``; must be pure and thread-safe."""
        raise NotImplementedError

    def _value_tile(self, a: Any, b: Any) -> Array | None:
        """Return a tile of a "log" kernel without logarithms, not normalized; None if that is not faster."""
        return None

    def _distance_tile(self, a: Prepared, b: Prepared) -> Array | None:
        """Return squared distances from differences, which do not cancel; None to use kernel values."""
        return None

    def _self(self, a: Any) -> Array:
        """Return the self-kernel of every object, ``(..., N)``."""
        raise NotImplementedError

    def _features(self, a: Any) -> Array:
        """Return explicit features in the kernel's domain: their logarithms in the log domain."""
        name = type(self).__name__
        raise NoFeatures(
            f"{name} has no finite explicit features. Use its Gram matrix, Landmarks({name}(...)) or "
            f"EmpiricalKernelMap({name}(...))."
        )

    def _feature_names(self, width: int) -> list[str]:
        """Return the names of the ``width`` columns of ``features``; called after ``fit``."""
        name = type(self).__name__.lower()
        return [f"{name}{i}" for i in range(width)]

    def _accepts_empty(self) -> bool:
        """Whether a new sequence may be empty: it has zero norm (``on_zero``), or the model defines its law."""
        return False

    def _cheap_pairs(self, source: Any) -> bool:
        """Whether a pair is cheaper to compute than to look up, so that the memo of pairs is not used."""
        return False

    def _smooth_parameters(self) -> tuple[str, ...]:
        """Return the names in ``_smooth`` on which the kernel depends with its current parameters."""
        return tuple(self._smooth)

    @property
    def _learns_from_call(self) -> bool:
        """Whether ``kernel(X)`` before ``fit`` learns something from X that changes values, such as a prior."""
        return False

    @property
    def _needs_fit(self) -> str:
        """Why the kernel cannot be evaluated before ``fit``; empty if it can."""
        return ""

    @property
    def _takes_confounds(self) -> bool:
        """Whether the kernel accepts objects with their confounds (`Confounded`)."""
        return False

    def _learned(self) -> Any:
        """Return the learned state that kernel values depend on, as something that can be hashed."""
        return None

    def _fixed_by_fit(self) -> tuple[str, ...]:
        """Return the names of the parameters that ``fit`` used; changes of all others take effect at once."""
        return ()

    @property
    def psd(self) -> Verdict:
        """Whether every Gram matrix is positive semi-definite, and why."""
        raise NotImplementedError
