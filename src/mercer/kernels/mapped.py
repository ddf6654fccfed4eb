"""Kernels made from a kernel and its training data: centred, mapped, repaired. All map test rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from mercer._array import Array, namespace, safe_log, to_numpy
from mercer._checks import check_gamma, is_number
from mercer._verdict import Verdict
from mercer.data.segments import data_digests
from mercer.kernels._base import NoFeatures, Prepared
from mercer.kernels._operands import InnerProducts, Rows, WithNumbers, finite
from mercer.kernels.algebra import Together, Wrapper

Floats = np.ndarray[Any, Any]


class _Trained(Wrapper):
    """A wrapper that compares every object with the training data."""

    domain = "linear"

    @property
    def _needs_fit(self) -> str:
        return f"{type(self).__name__} is about the training data"

    def _training(self, X: Any) -> Any:
        source = super()._training(X)
        self._train = self._prepares_training()
        self._learn_gram()
        return source

    def _prepares_training(self) -> Callable[[], Prepared]:
        """Return what prepares the training objects when first needed: the memo may know all of their pairs."""
        inner = self._inner
        return cache(lambda: inner._prepared(inner.train_))

    def _learn_gram(self) -> None:
        raise NotImplementedError

    def _prepare(self, source: Any) -> Any:
        return super()._prepare(self._matched(source))

    def _matched(self, source: Together) -> Together:
        """Return objects as the training objects are stored."""
        return self._match(source, Together((self._inner.train_,)))

    def _gram(self, *, log: bool = False) -> Array:
        """Kernel of the training objects, ``(n_train, n_train)``, remembered: a search fits them again and again."""
        return self._inner._remembered(self._inner.train_, None, log=log, last=self._train)

    def _columns(self, matched: Together, *, log: bool = False) -> Array:
        """Kernel of every object with the training objects, ``(N, n_train)``."""
        return self._inner._remembered(matched.parts[0], self._inner.train_, log=log, last=self._train)

    def _learned(self) -> Any:
        return super()._learned(), data_digests(self._inner.train_)

    def __getstate__(self) -> dict[str, Any]:
        # The prepared training objects can be made again, and may be large or live on a device.
        return {name: value for name, value in super().__getstate__().items() if name != "_train"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "kernels_") and hasattr(self._inner, "train_"):
            self._train = self._prepares_training()


class Centered(_Trained):
    r"""A kernel about the mean of the training data in feature space.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    normalize : bool, default=False
        Whether every object has the kernel 1 with itself after centering.
    on_zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Notes
    -----
    :math:`k(x,y) - \bar k(x) - \bar k(y) + \bar{\bar k}`, the bars being means over the training data: KK-3 with a
    constant as the only confound.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Centered(mc.Linear(normalize=False)).fit_transform([[1.0], [3.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    def __init__(self, kernel: Any, normalize: bool = False, on_zero: str = "raise") -> None:
        self.kernel = kernel
        self.normalize = normalize
        self.on_zero = on_zero

    def _learn_gram(self) -> None:
        matrix = self._gram()
        self._mean = namespace(matrix).mean(matrix)

    def _prepare(self, source: Any) -> Any:
        operand = super()._prepare(source)
        columns = self._columns(self._matched(source))
        return WithNumbers(operand, namespace(columns).mean(columns, axis=-1))

    def _tile(self, a: Any, b: Any) -> Array:
        values = self._tiles(a.operand, b.operand)[0]
        return values - a.numbers[:, None] - b.numbers[None, :] + self._mean

    def _self(self, a: Any) -> Array:
        own = self._diagonals(a.operand)[0]
        xp = namespace(own)
        values = own - 2 * a.numbers + self._mean
        rounding = 1e-14 * (xp.abs(own) + 2 * xp.abs(a.numbers) + xp.abs(self._mean))
        return xp.where(xp.abs(values) > rounding, values, 0.0)  # an object at the centre has no direction

    @property
    def psd(self) -> Verdict:
        """As the kernel."""
        return Verdict(str(self._inner.psd), f"inner products about a mean (KK-3); {self._inner.psd.reason}")


class _Featured(InnerProducts, _Trained):
    """A wrapper with explicit features, computed from the columns of the training data."""

    def _map(self, matched: Together) -> Floats:
        raise NotImplementedError

    def _prepare(self, source: Any) -> Rows:
        return Rows(self._map(self._matched(source)))


class EmpiricalKernelMap(_Featured):
    r"""Objects described by their log kernels with the training data: a cure for diagonal dominance.

    Parameters
    ----------
    kernel : Kernel
        A kernel that is never negative.
    gamma : float or None, default=None
        None takes inner products of the descriptions; a number takes ``exp(-gamma |phi - phi'|^2 / n)`` of them, n the
        number of training objects.
    floor : float, default=-700.0
        What a log kernel of -inf counts as, or the smallest finite one of the training data where that is lower.
    normalize : bool, default=True
        Whether every object has the kernel 1 with itself.
    on_zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Notes
    -----
    KK-1: :math:`\phi(x) = (\log \hat k(x, z_1), \ldots, \log \hat k(x, z_n))` over the training objects z, columns
    standardised. Positive semi-definite by construction.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.array([[0.0], [1.0], [20.0], [21.0]])
    >>> mc.EmpiricalKernelMap(mc.RBF(gamma=5.0)).fit_transform(X).round(2)[0]
    array([ 1.  ,  0.99, -1.  , -1.  ])
    """

    def __init__(
        self,
        kernel: Any,
        gamma: float | None = None,
        floor: float = -700.0,
        normalize: bool = True,
        on_zero: str = "raise",
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.floor = floor
        self.normalize = normalize
        self.on_zero = on_zero

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), "floor")

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Inner products can be negative, Gaussians cannot."""
        return "linear" if self.gamma is None else "log"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.gamma is not None:
            check_gamma(self.gamma)
        if self.kernel.domain != "log" and not self.kernel.nonnegative:
            raise ValueError(
                f"{type(self.kernel).__name__} can be negative, and has no logarithm: map a kernel with positive values"
            )
        if not is_number(self.floor):
            raise ValueError(f"floor = {self.floor!r}: give the finite number that a log kernel of -inf counts as")

    def _learn_gram(self) -> None:
        logs = self._description(None)
        finite = logs > -np.inf
        self._floor = min(float(self.floor), float(logs.min(where=finite, initial=np.inf)))
        logs = np.where(finite, logs, self._floor)
        self._center = logs.mean(axis=0)
        spread = logs.std(axis=0)
        self._scale = np.where(spread > 1e-12 * max(float(spread.max()), 1e-300), spread, 1.0)

    def _description(self, matched: Together | None) -> Floats:
        """Log kernels with the training objects, normalised; None: of these themselves."""
        inner = self._inner
        logs = to_numpy(self._gram(log=True) if matched is None else self._columns(matched, log=True))
        if inner.domain == "linear":
            logs = safe_log(logs)
        if inner.normalize:
            return logs
        train = self._train()
        sides = (train if matched is None else inner._prepared(matched.parts[0]), train)
        diagonals = [to_numpy(inner._diagonal(side)) for side in sides]
        if inner.domain == "linear":
            diagonals = [safe_log(diagonal) for diagonal in diagonals]
        own, theirs = (finite(diagonal) for diagonal in diagonals)
        return np.asarray(logs - (own[:, None] + theirs) / 2)

    def _map(self, matched: Together) -> Floats:
        logs = self._description(matched)
        return (np.where(logs > -np.inf, logs, self._floor) - self._center) / self._scale

    def _tile(self, a: Rows, b: Rows) -> Array:
        if self.gamma is None:
            return super()._tile(a, b)
        return -self.gamma / a.width * a.squared_distances(b)

    def _self(self, a: Rows) -> Array:
        return super()._self(a) if self.gamma is None else np.zeros(len(a))

    def _features(self, a: Rows) -> Array:
        if self.gamma is not None:
            raise NoFeatures(
                f"a Gaussian of descriptions (gamma={self.gamma}) has no finite explicit features: gamma=None has"
            )
        return super()._features(a)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "an inner product, or a Gaussian, of explicit descriptions (KK-1)")


class Repaired(_Featured):
    r"""A kernel made positive semi-definite by clipping the negative eigenvalues of its training matrix.

    Parameters
    ----------
    kernel : Kernel
        A kernel that is not always positive semi-definite.
    method : {"clip"}, default="clip"
        What happens to negative eigenvalues: they become zero.
    tolerance : float, default=1e-12
        Eigenvalues below this fraction of the largest count as zero.

    Attributes
    ----------
    clipped_ : float
        Sum of the clipped eigenvalues as a fraction of the trace of absolute values: how much was repaired.

    Notes
    -----
    With :math:`K = V \Lambda V^\top` and the positive part :math:`V_+, \Lambda_+`, objects are mapped to
    :math:`k(x, \cdot) V_+ \Lambda_+^{-1/2}`: the training matrix becomes its nearest positive semi-definite one, and
    test rows are projected the same way.

    Examples
    --------
    >>> import mercer as mc
    >>> X = [[0.0], [1.0], [2.0]]
    >>> K = mc.Repaired(mc.RBF(gamma=1.0) + (-0.9) * mc.RBF(gamma=3.0)).fit_transform(X)
    >>> bool(mc.gram.psd.check(K))
    True
    """

    def __init__(self, kernel: Any, method: str = "clip", tolerance: float = 1e-12) -> None:
        self.kernel = kernel
        self.method = method
        self.tolerance = tolerance

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), "method", "tolerance")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.method != "clip":
            raise ValueError(f"method = {self.method!r}: the one repair that maps test rows consistently is 'clip'")
        if not is_number(self.tolerance) or self.tolerance < 0:
            raise ValueError(f"tolerance = {self.tolerance!r}: give a fraction of the largest eigenvalue, 0 or more")

    def _learn_gram(self) -> None:
        values, vectors = np.linalg.eigh(to_numpy(self._gram()))
        keep = values > self.tolerance * np.abs(values).max()
        self.clipped_ = float(np.abs(values[values < 0]).sum() / max(np.abs(values).sum(), np.finfo(float).tiny))
        self._projection = vectors[:, keep] / np.sqrt(values[keep])

    def _map(self, matched: Together) -> Floats:
        return np.asarray(to_numpy(self._columns(matched)) @ self._projection)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "an inner product of explicit features, after clipping negative eigenvalues")
