"""Kernels that sum over the regime paths of switching systems, or estimate powers of their marginal densities."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, Indices
from mercer._coupling import Switches
from mercer._random import seed_of
from mercer.kernels._draws import in_numpy
from mercer.kernels._operands import LogFeatures
from mercer.kernels._sampled import common_errors
from mercer.kernels.base.model import CoupledKernel
from mercer.kernels.sampled import Sampled

__all__ = ["MarginalPowers", "SampledPowers", "SwitchingKernel"]


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
        large. With ``marginal=True``, the spread is that over the sampled series, as in `Sampled`.

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


class MarginalPowers:
    """Powers of the marginal densities of models, at series sampled from the average of the training models (PPK-5b).

    Parameters
    ----------
    models : batch of shape (N,)
        The training models.
    size, seed : int
        Number of series, and their seed.
    """

    def __init__(self, models: Any, size: int, seed: int) -> None:
        self.models = models
        self.size = size
        self.seed = seed
        self._samplers: dict[int, Sampled] = {}
        self._digests: list[bytes] | None = None

    def digests(self) -> list[bytes]:
        """Return the digests of all models that samples are drawn from."""
        return self.models.digests() if self._digests is None else self._digests

    def operand(self, source: Any, rho: float, lengths: tuple[int, ...]) -> SampledPowers:
        """Return the powers of the densities of ``source`` at samples of each length."""
        found: list[Any] = []
        for length in lengths:
            if length not in self._samplers:
                sampler = Sampled(n_samples=self.size, length=length, random_state=self.seed)
                self._samplers[length] = sampler.fit(self.models)
            sampler = copy.copy(self._samplers[length])  # another thread may evaluate another rho
            sampler.rho = rho
            found.append(sampler._prepare(sampler.train_ if source is self.models else in_numpy(source)))
        return SampledPowers(found)

    def taken(self, index: Indices, lengths: tuple[int, ...]) -> MarginalPowers:
        """Return a copy with the samples of these lengths, that keeps the models at ``index`` only."""
        self.operand(self.models[:1], 1.0, lengths)  # draws the samples, from all models
        kept = copy.copy(self)
        kept._digests = self.digests()
        kept.models = self.models[index]
        kept._samplers = {length: self._samplers[length]._take(index) for length in lengths}
        return kept


class SampledPowers:
    """Models that answer tiles from features, for each length."""

    by_length: ClassVar[bool] = True
    order: ClassVar[Any] = None
    tile_hint: ClassVar[int] = 512

    def __init__(self, features: list[LogFeatures]) -> None:
        self.features = features

    def __len__(self) -> int:
        return len(self.features[0])

    def __getitem__(self, key: Any) -> SampledPowers:
        return SampledPowers([part[key] for part in self.features])

    def pair(self, other: SampledPowers) -> Floats:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths."""
        return np.stack([a.pair(b) for a, b in zip(self.features, other.features, strict=True)])

    def alone(self) -> Floats:
        """Log kernel of every model with itself, ``(H, N)``."""
        return np.stack([part.alone() for part in self.features])

    def errors(self, other: SampledPowers, normalize: bool) -> Floats:
        """Return the standard error of every pair, ``(I, J)``, at the first length."""
        return common_errors(self.features[0], other.features[0], normalize)
