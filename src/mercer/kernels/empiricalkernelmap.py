"""The empirical kernel map: log kernels with the training data as features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, safe_log, to_numpy
from mercer._parameters import Rules, boolean, gamma, number, optional
from mercer._verdict import Verdict
from mercer.kernels._data import object_name
from mercer.kernels._evaluation import Side
from mercer.kernels._operands import Rows, finite
from mercer.kernels._trained import FeaturedWrapper
from mercer.kernels.base.transformer import WIDE, Bounds, NoFeatures

ROUNDING = 1e-13
"""Differences of log kernels below this fraction of their size are rounding errors."""


@dataclass(eq=False, repr=False)
class EmpiricalKernelMap(FeaturedWrapper):
    r"""Log kernels with the training data as features, a remedy for diagonal dominance.

    Parameters
    ----------
    kernel : Kernel
        A kernel that is never negative.
    gamma : float or None, default=None
        None for inner products of the features phi; a number for ``exp(-gamma |phi - phi'|^2 / n)``, with n the
        number of training objects.
    floor : float, default=-700.0
        Replaces log kernels of -inf, or the smallest finite one of the training data does if it is lower.
    center_rows : bool, default=False
        Whether to subtract the mean of the log kernels of each object: what raises or lowers all of them, such as the
        length of a sequence, then has no influence.
    normalize : bool, default=True
        Whether to normalize the kernel, so that every self-kernel is 1.
    on_zero : {"raise", "zero"}, default="raise"
        Whether objects of zero norm raise an error or get zeros.

    Notes
    -----
    KK-1: :math:`\phi(x) = (\log \hat k(x, z_1), \ldots, \log \hat k(x, z_n))` over the training objects z, with
    standardized columns; ``center_rows`` subtracts the mean of each row before. Positive semi-definite by
    construction.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.array([[0.0], [1.0], [20.0], [21.0]])
    >>> mc.EmpiricalKernelMap(mc.RBF(gamma=5.0)).fit_transform(X).round(2)[0]
    array([ 1.  ,  0.99, -1.  , -1.  ])
    """

    _parameters: ClassVar[Rules] = {
        "gamma": optional(gamma()),
        "floor": number("A log kernel of -inf is replaced by it."),
        "center_rows": boolean(),
    }
    _smooth: ClassVar[Bounds] = {"gamma": WIDE}

    _noise = 0.0
    """Size of the rounding errors of log kernels."""
    _why_zero = " (its kernel values are the mean of those of the training objects)"

    psd = Verdict("always", "an inner product, or a Gaussian, of explicit features (KK-1)")

    kernel: Any
    gamma: float | None = None
    floor: float = -700.0
    center_rows: bool = False
    normalize: bool = True
    on_zero: str = "raise"

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Linear, but log with ``gamma``: inner products can be negative, Gaussians cannot."""
        return "linear" if self.gamma is None else "log"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.kernel.domain != "log" and not self.kernel.nonnegative:
            raise ValueError(
                f"kernel must have no negative values; got {type(self.kernel).__name__}, whose logarithm is undefined. "
                "Pass a kernel with positive values, such as mc.RBF()."
            )

    def _learn_gram(self) -> None:
        logs = self._description(self._inner._train_side)
        finite = logs > -np.inf
        self._floor = min(float(self.floor), float(logs.min(where=finite, initial=np.inf)))
        logs = np.where(finite, logs, self._floor)
        self._noise = ROUNDING * max(self._self_size(), float(np.abs(logs).max()))
        logs = self._row_centered(logs)
        self._center = logs.mean(axis=0)
        spread = logs.std(axis=0)
        self._scale = np.where(spread > max(1e-12 * float(spread.max()), self._noise), spread, 1.0)

    def _self_size(self) -> float:
        """Return the magnitude of the terms that cancel in a log kernel, which bounds its rounding error."""
        inner = self._inner
        if inner.domain == "linear":
            return 1.0  # log k near k = 1
        side = inner._evaluation.prepared_side(inner._train_side)
        own = side.norm if inner.normalize else inner._evaluation.diagonal(side)
        return 0.0 if own is None else float(np.abs(finite(to_numpy(own))).max())

    def _description(self, objects: Side) -> Floats:
        """Log kernels with the training objects, normalized."""
        inner = self._inner
        logs = to_numpy(self._columns(objects, log=True))
        if inner.domain == "linear":
            logs = safe_log(logs)
        if inner.normalize:
            return logs
        evaluation = inner._evaluation
        sides = (evaluation.prepared_side(side) for side in (objects, inner._train_side))
        diagonals = [to_numpy(evaluation.diagonal(side)) for side in sides]
        if inner.domain == "linear":
            diagonals = [safe_log(diagonal) for diagonal in diagonals]
        own, theirs = (finite(diagonal) for diagonal in diagonals)
        return np.asarray(logs - (own[:, None] + theirs) / 2)

    def _map(self, objects: Side) -> Floats:
        logs = self._description(objects)
        rest = self._row_centered(np.where(logs > -np.inf, logs, self._floor)) - self._center
        rest[np.abs(rest) <= self._noise] = 0.0  # or it would be normalized, if all objects are alike
        return rest / self._scale

    def _row_centered(self, logs: Floats) -> Floats:
        return logs - logs.mean(axis=1, keepdims=True) if self.center_rows else logs

    def _tile(self, a: Rows, b: Rows) -> Array:
        if self.gamma is None:
            return super()._tile(a, b)
        return -self.gamma / a.width * a.squared_distances(b)

    def _self(self, a: Rows) -> Array:
        return super()._self(a) if self.gamma is None else np.zeros(len(a))

    def _distance_tile(self, a: Any, b: Any) -> Array | None:
        return super()._distance_tile(a, b) if self.gamma is None else None

    def _feature_names(self, width: int) -> list[str]:
        return [f"log k(., {object_name(self._inner.train_, i)})" for i in range(width)]

    def _features(self, a: Rows) -> Array:
        if self.gamma is not None:
            raise NoFeatures(f"EmpiricalKernelMap(gamma={self.gamma}) has no finite explicit features. Use gamma=None.")
        return super()._features(a)
