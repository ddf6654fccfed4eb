"""Kernels with random Fourier features in place of an exact base kernel, where ``n_components`` is a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer.kernels._evaluation import Prepared
from mercer.kernels._operands import Rows
from mercer.kernels._windows.random import spread
from mercer.kernels.base.kernel import Kernel


class RandomFeatures(Kernel):
    """A kernel in logarithms; with ``n_components``, its operands are rows of random features."""

    n_components: int | None

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Domain of the values: logarithms, except with random features, whose inner products can be negative."""
        return "log" if self.n_components is None else "linear"

    def _tile(self, a: Any, b: Any) -> Array:
        return super()._tile(a, b) if self.n_components is None else a.inner(b)

    def _self(self, a: Any) -> Array:
        return super()._self(a) if self.n_components is None else a.squares()

    def standard_errors(self, X: Any, Y: Any = None) -> Floats:
        """Return the standard error of each entry of ``kernel(X, Y)``, from the spread over the frequencies.

        For `SwitchingLDSs`, from the spread over the drawn regime paths. Zero if the kernel is exact: without
        ``n_components``, or for symbols. Infinite if fewer than about 20 frequencies contribute to an object's norm: it
        is then much wider than the base kernel, and the entry is unreliable. An error ten times smaller needs a hundred
        times as many frequencies.

        Parameters
        ----------
        X, Y : data
            As in ``kernel(X, Y)``.

        Returns
        -------
        array of shape (N, M)

        Examples
        --------
        >>> import mercer as mc
        >>> words = mc.Multinomials([[0.5, 0.5], [0.9, 0.1]], trials=4)
        >>> kernel = mc.MeanMap(gamma=0.1, base="counts", n_components=1000)
        >>> bool(abs(kernel(words)[0, 1] - 0.7056) < 3 * kernel.standard_errors(words)[0, 1])
        True
        """
        kernel, a, b = self.operands(X, Y)
        b = a if b is None else b
        if hasattr(a.operand, "errors"):
            found: Floats = a.operand.errors(b.operand, bool(kernel.normalize))
            return found
        if not isinstance(a.operand, Rows):
            return np.zeros((len(a), len(b)))
        return spread(kernel._frequencies(a), kernel._frequencies(b), bool(kernel.normalize))

    def _frequencies(self, a: Prepared) -> Floats:
        if self.n_components == 1:
            raise ValueError(
                "n_components must be 2 or more for standard errors; got 1, and one frequency has no spread."
            )
        return to_numpy(a.operand.dense())
