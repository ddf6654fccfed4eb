"""What a subclass of `Kernel` writes, and what it may say about itself."""

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
    """The methods and attributes of a kernel that a subclass writes; those with a body have a sensible default."""

    domain: str = "log"
    """What ``_tile`` and ``_self`` return: "log", or "linear" for kernels that can be negative."""
    nonnegative: bool = False
    """Whether a "linear" kernel is never negative all the same, so that it has a logarithm, of zero -inf."""
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
    """Half a sentence in brackets: what an object of zero norm is like."""

    def _accept(self, X: Any, *, reset: bool) -> Any:
        """Turn what a user passes into checked data."""
        raise NotImplementedError

    def _learn(self, X: Any, y: Any = None) -> None:
        """Learn from accepted training data what the kernel needs: a context, a model, a center."""

    def _source(self, X: Any) -> Any:
        """Turn accepted data into what is compared: a batch of models, or the data themselves."""
        return X

    def _training(self, X: Any) -> Any:
        """Return the source of the accepted training data, and learn what depends on it; comes after `_learn`."""
        source = self._source(X)
        # The caller may write into a matrix later; all else is a copy already.
        return frozen(source) if is_numpy_array(source) else source

    def _match(self, source: Any, reference: Any) -> Any:
        """Check that two sources can be compared, and return the first as the second is stored."""
        return source

    def _prepare(self, source: Any) -> Any:
        """Do once per source what does not depend on the other side; returns an operand."""
        raise NotImplementedError

    def _tile(self, a: Any, b: Any) -> Array:
        """Answer a tile from two operands, ``(..., I, J)``: pure and thread-safe."""
        raise NotImplementedError

    def _value_tile(self, a: Any, b: Any) -> Array | None:
        """Answer a tile of a "log" kernel without logarithms, not normalized; None where that is no faster."""
        return None

    def _distance_tile(self, a: Prepared, b: Prepared) -> Array | None:
        """Answer squared distances from differences, which do not cancel; None to take them from kernel values."""
        return None

    def _self(self, a: Any) -> Array:
        """Answer every object with itself, ``(..., N)``."""
        raise NotImplementedError

    def _features(self, a: Any) -> Array:
        """Return explicit features in the kernel's domain: their logarithms, where the kernel gives logarithms."""
        name = type(self).__name__
        raise NoFeatures(
            f"{name} has no finite explicit features: use its Gram matrix, Landmarks({name}(...)) or "
            f"EmpiricalKernelMap({name}(...))"
        )

    def _cheap_pairs(self, source: Any) -> bool:
        """Whether a pair costs less than remembering it, so that the memo of pairs is not used."""
        return False

    def _smooth_parameters(self) -> tuple[str, ...]:
        """Name those of ``_smooth`` on which the kernel depends with its present parameters."""
        return tuple(self._smooth)

    @property
    def _learns_from_call(self) -> bool:
        """Whether ``kernel(X)`` before ``fit`` learns from X what changes values, such as a prior or an alphabet."""
        return False

    @property
    def _needs_fit(self) -> str:
        """Why the kernel cannot answer before ``fit``; empty if it can."""
        return ""

    @property
    def _takes_confounds(self) -> bool:
        """Whether the kernel takes objects with their confounds (`Confounded`)."""
        return False

    def _learned(self) -> Any:
        """Return what was learned and changes kernel values, as something that can be hashed."""
        return None

    def _fixed_by_fit(self) -> tuple[str, ...]:
        """Name the parameters that went into what ``fit`` learned; all others take effect at once."""
        return ()

    @property
    def psd(self) -> Verdict:
        """Whether every Gram matrix is positive semi-definite, and why."""
        raise NotImplementedError
