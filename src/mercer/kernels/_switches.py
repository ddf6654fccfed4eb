"""Kernels that sum over the regime paths of switching systems: the seed of the draws, and standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._coupling import Switches
from mercer._random import seed_of
from mercer.kernels.base.model import CoupledKernel


class SwitchingKernel(CoupledKernel):
    """A kernel with the parameters ``n_paths`` and ``random_state``, the draws of paths of every model."""

    n_paths: int
    random_state: Any

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._seed = seed_of(self.random_state)

    def _learned(self) -> Any:
        return getattr(self, "_seed", None)

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), "random_state")

    def _switches(self, expected: bool) -> Switches:
        return Switches(expected, int(self.n_paths), getattr(self, "_seed", 0))

    def standard_errors(self, X: Any, Y: Any = None) -> Floats:
        """Return the standard error of each entry of ``kernel(X, Y)``, from the spread over the drawn regime paths.

        Zero if the kernel is exact, as it is for all models but `SwitchingLDSs`. Infinite, and the entry unreliable,
        if more than a twentieth of the norm of an object comes from paths paired with themselves: the norm is then too
        large.

        Parameters
        ----------
        X, Y : data
            As in ``kernel(X, Y)``.

        Returns
        -------
        array of shape (N, M)
        """
        kernel, a, b = self.operands(X, Y)
        b = a if b is None else b
        if not hasattr(a.operand, "errors"):
            return np.zeros((len(a), len(b)))
        found: Floats = a.operand.errors(b.operand, bool(kernel.normalize))
        return found
