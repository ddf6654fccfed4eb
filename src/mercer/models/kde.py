"""Batches of kernel density estimates: sets of points, each with its own bandwidth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np

from mercer._array import Floats, as_float, to_numpy
from mercer._batch import Batch
from mercer._checks import check_gamma, check_rho
from mercer._coupling import Coupling, Leaf, Operand
from mercer._parallel import n_threads, thread_map
from mercer._random import random_generator, whole_size
from mercer._wording import counted
from mercer.data import Sequences
from mercer.data.segments import point_name
from mercer.families.characteristic import log_polar
from mercer.models._ragged_points import Points, log_sums, log_sums_at

if TYPE_CHECKING:
    from mercer.models.kde_estimator import KDE

TILE_PAIRS = 2e6
"""Pairs of points per tile: a few milliseconds of work for a thread."""
VALUES = 1 << 18
"""Maximum number of values exp(i <w, x>) at single points in memory at once, so that they fit into the cache."""


class KDEs(Batch):
    r"""A batch of Gaussian kernel density estimates, of shape (N,): one per set of points.

    Parameters
    ----------
    points : Sequences, list of N arrays of shape (m_i, d), or array of shape (N, m, d)
        The sets of points, of any sizes; one-dimensional arrays are points with one coordinate.
    bandwidth : float or array of shape (N,)
        The **variance** of each coordinate around a point, not a standard deviation.

    Notes
    -----
    The density is :math:`\frac1m \sum_i (2\pi h)^{-d/2} e^{-\|x-x_i\|^2/2h}`. Mean map (GMMK-4), with
    :math:`\lambda = 2\gamma` and :math:`h_0 = 1 + \lambda(h+h')`,

    .. math:: k(p, q) = \frac1{m m' h_0^{d/2}} \sum_{ij} e^{-\lambda\|x_i-y_j\|^2 / 2h_0},

    and the probability product at :math:`\rho = 1`, the expected likelihood, where the bandwidths add up:

    .. math:: k_1(p, q) = \frac1{m m'} \sum_{ij} \mathcal N(x_i - y_j; 0, (h+h') I).

    At other powers an estimate is a mixture of m Gaussians with equal weights, and the kernel is that of the joint
    distribution of component and point, as for all mixtures (PPK-4.0, PPK-4.1):

    .. math:: \tilde k_\rho(p, q) = \frac{(4\pi^2 h h')^{(1-\rho)d/2}}{\rho^d\,(m m')^\rho}
        \sum_{ij} \mathcal N(x_i - y_j; 0, \tfrac{h+h'}{\rho} I).

    Sums are computed in float64 without a table of
    all pairs of points; if all terms underflow, the largest term is factored out. All arrays are NumPy arrays.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.models.KDEs(
    ...     [np.array([[0.0], [1.0]]), np.array([[0.5], [2.0], [2.5]])], bandwidth=0.25
    ... )
    >>> p
    KDEs(shape=(2,), 2 to 3 points of 1 coordinate)
    >>> p.log_prob(np.array([[0.0], [2.0]])).round(4)
    array([[-0.792 , -2.9165],
           [-1.8238, -0.8434]])
    >>> mc.MeanMap(gamma=0.5)(p).round(4)
    array([[1.    , 0.7341],
           [0.7341, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"bandwidth": 0, "points": 1}
    _compound: ClassVar[dict[str, Any]] = {"points": Points}

    points: Points
    bandwidth: Floats

    def __init__(self, points: Any, bandwidth: Any) -> None:
        points = _checked(points) if isinstance(points, Points) else _read(points)
        lead = () if points.single else (len(points),)
        given = np.asarray(to_numpy(bandwidth))
        if given.dtype.kind not in "biuf" or given.shape not in ((), lead):
            raise ValueError(
                f"bandwidth must be one variance, or one per estimate, shape {lead}; got shape {given.shape} and dtype "
                f"{given.dtype}."
            )
        widths = np.broadcast_to(given.astype(np.float64), lead)
        bad = np.flatnonzero(~((widths > 0) & np.isfinite(widths)))
        if len(bad):
            raise ValueError(
                f"bandwidth must be positive and finite; got {widths.reshape(-1)[bad[0]]} at index {bad[0]}. To "
                "compare points without a bandwidth, use mc.EmpiricalMeanMap."
            )
        self._freeze(bandwidth=widths, points=points)

    @classmethod
    def from_sklearn(cls, models: Any) -> KDEs:
        """Convert a scikit-learn ``KernelDensity`` with a Gaussian kernel, or a list of them.

        Its bandwidth is a standard deviation, which is converted to a variance.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> from sklearn.neighbors import KernelDensity
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> mc.models.KDEs.from_sklearn(KernelDensity(bandwidth=0.5).fit(x)).bandwidth
        array([0.25])
        """
        from mercer.models._interop import joined

        found: KDEs = joined(models, _kernel_density, cls.concat)
        return found

    # -- storage -------------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.points.dimension

    @property
    def n_points(self) -> Floats:
        """Number of points of each estimate, in the batch shape."""
        return np.asarray(self.points.sizes.reshape(self.shape))

    @property
    def nbytes(self) -> int:
        """Size of points and bandwidths in bytes."""
        return self.points.nbytes + int(self.bandwidth.nbytes)

    def __repr__(self) -> str:
        count = self.points.counted("point")
        return f"KDEs(shape={self.shape}, {count} of {counted(self.dimension, 'coordinate')})"

    def estimator(self) -> KDE:
        """Return an estimator that accepts the samples of these estimates."""
        from mercer.models.kde_estimator import KDE

        return KDE()

    def reshape(self, *shape: int) -> Self:
        """Return the same estimates with one batch axis, or with none for a single estimate."""
        wanted = self.points.new_shape(shape)
        return self._make(bandwidth=self.bandwidth.reshape(wanted), points=self.points.shaped(wanted == ()))

    # -- densities -----------------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Floats:
        """Log density of each point, ``(N,) x (T, d) -> (N, T)``; ``(T,)`` for a single estimate."""
        x = np.asarray(to_numpy(as_float(x, "x")), dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.dimension:
            raise ValueError(f"x must have shape (T, {self.dimension}), as the estimates; got shape {x.shape}.")
        bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if len(bad):
            raise ValueError(
                f"A kernel density estimate needs finite coordinates; got {x[bad[0]]} at point {bad[0]}. Leave it out."
            )
        widths, sizes = self.bandwidth.reshape(-1), self.points.sizes
        sets, asked = self.points.packed, Points(x, [0, len(x)]).packed
        out = np.empty((len(sizes), len(x)))

        def work(i: int) -> None:
            out[i] = log_sums_at(x, asked, sets, i, 0.5 / float(widths[i]))

        every = list(range(len(sizes)))
        for i in every[:1]:  # in this thread, so that the loops are compiled before other threads need them
            work(i)
        thread_map(work, every[1:], threads=n_threads(), label="densities")
        out -= (np.log(sizes) + self.dimension / 2 * np.log(2 * math.pi * widths))[:, None]
        return out.reshape(*self.shape, len(x))

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` points from each estimate, ``(N, size, d)``."""
        size = whole_size(size)
        rng = random_generator(random_state)
        begin, sizes = self.points.indptr[:-1, None], self.points.sizes[:, None]
        chosen = begin + rng.integers(sizes, size=(len(sizes), size))
        noise = rng.standard_normal((len(sizes), size, self.dimension))
        drawn = self.points.data[chosen] + np.sqrt(self.bandwidth.reshape(-1))[:, None, None] * noise
        return np.asarray(drawn.reshape(*self.shape, size, self.dimension))

    # -- kernels -------------------------------------------------------------------------------------------

    def log_mean_map(self, other: Self, gamma: float = 1.0) -> Floats:
        r"""Log expected base kernel :math:`e^{-\gamma\|x-y\|^2}` of all pairs, ``(N, M)`` (GMMK-4)."""
        return self._tile(other, *self._smoothing(gamma))

    def log_product(self, other: Self, rho: float = 1.0) -> Floats:
        r"""Log probability product of all pairs, ``(N, M)``; of component and point for rho other than 1 (PPK-4.1)."""
        check_rho(rho)
        rho = float(rho)
        values = self._tile(other, 0.0, 2 * math.pi / rho, math.pi)
        if rho == 1:
            return values
        return values + self._log_powered(rho)[:, None] + other._log_powered(rho)

    def _log_powered(self, rho: float) -> Floats:
        """Log of what one estimate adds at rho: weights m^-rho in place of 1/m, and N(h)^rho = c N(h/rho) (PPK-3.1)."""
        widths = self.dimension / 2 * ((1 - rho) * np.log(2 * math.pi * self.bandwidth) - math.log(rho))
        return np.asarray((1 - rho) * np.log(self.points.sizes) + widths)

    def log_characteristic(self, frequencies: Floats) -> tuple[Floats, Floats]:
        """Log modulus and angle of E exp(i <w, x>) at each row w of ``frequencies (F, d)``, each ``(N, F)``.

        This is the mean of exp(i <w, x>) over the points times exp(-h |w|^2 / 2); the cost is linear in the points.
        """
        turned, count = np.ascontiguousarray(frequencies.T), len(frequencies)
        characteristic = np.zeros((2, len(self.points), count))
        step = max(1, VALUES // max(count, 1))
        for i, size in enumerate(self.points.sizes):  # one set at a time: its mean does not depend on the others
            points = self.points.set(i)
            for begin in range(0, size, step):
                angle = points[begin : begin + step] @ turned
                characteristic[:, i] += np.cos(angle).sum(axis=0), np.sin(angle).sum(axis=0)
            characteristic[:, i] /= size
        logs, angle = log_polar(*characteristic)
        logs -= np.outer(self.bandwidth.reshape(-1) / 2, np.sum(turned**2, axis=0))
        return logs.reshape(*self.shape, count), angle.reshape(*self.shape, count)

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile: a few milliseconds of work."""
        average = len(self.points.data) / max(len(self.points), 1)
        return int(np.clip(math.sqrt(TILE_PAIRS) / max(average, 1.0), 1, 256))

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling."""
        self._require_axis()
        _ = self.points.packed  # so that tiles share it
        return KDELeaf(self, coupling)

    def _smoothing(self, gamma: float) -> tuple[float, float, float]:
        check_gamma(gamma)
        return 1.0, 2 * float(gamma), float(gamma)

    def _tile(self, other: Self, constant: float, slope: float, factor: float) -> Floats:
        """Compute log of w^(-d/2) mean exp(-factor |x - y|^2 / w), w = constant + slope (h + h'), of all pairs."""
        if not isinstance(other, Batch):
            raise TypeError(f"Expected KDEs on the other side; got {type(other).__name__}.")
        self._require_axis()
        other._require_axis()
        self._check_alike(other)
        n, m = len(self), len(other)
        left, right = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
        return self._log_means(other, left, right, constant, slope, factor).reshape(n, m)

    def _log_means(
        self, other: Self, left: Floats, right: Floats, constant: float, slope: float, factor: float
    ) -> Floats:
        """Compute the pairs ``left[p], right[p]``."""
        if factor == 0 or not len(left):  # the base kernel is 1
            return np.zeros(len(left))
        width = constant + slope * (self.bandwidth[left] + other.bandwidth[right])
        logs = log_sums(self.points.packed, other.points.packed, left, right, factor / width)
        logs -= np.log(self.points.sizes)[left] + np.log(other.points.sizes)[right]
        return np.asarray(logs - self.dimension / 2 * np.log(width))


class KDELeaf(Leaf):
    """Kernel density estimates under a coupling."""

    def reshape(self, *shape: int) -> NoReturn:
        """Raise TypeError: kernel density estimates cannot be part of another model."""
        raise TypeError("Kernel density estimates cannot be part of another model.")

    def alone(self) -> Floats:
        """Compute the self-kernel of each member, with the same bits as `pair`."""
        single = (self[i : i + 1] for i in range(len(self)))
        return np.array([one.pair(one)[0, 0] for one in single])


def _read(points: Any) -> Points:
    """Convert sets of points to `Points`, or raise."""
    sets = Sequences(points).require("vectors", "KDE", "Use mc.Categorical for symbols.").require_nonempty()
    bad = np.flatnonzero(~np.isfinite(sets.values).all(axis=1))
    if len(bad):
        raise ValueError(
            f"A kernel density estimate needs finite coordinates; got {sets.values[bad[0]]} at "
            f"{point_name(sets, bad[0])}. Leave it out."
        )
    return Points(sets.values, sets.offsets)


def _checked(points: Points) -> Points:
    """Raise unless sets have points, and finite ones; an estimator has checked its own, a file may contain any."""
    if len(points) and (points.sizes.min() < 1 or not np.isfinite(points.data).all()):
        raise ValueError("A kernel density estimate needs one or more points with finite coordinates.")
    return points


def _kernel_density(model: Any) -> KDEs:
    """Convert one KernelDensity to a batch of shape ``(1,)``."""
    if not hasattr(model, "kernel") or not hasattr(model, "bandwidth"):
        raise TypeError(f"models must be KernelDensity of scikit-learn; got a {type(model).__name__}.")
    if not hasattr(model, "tree_"):
        raise ValueError(f"The {type(model).__name__} has no tree_. Fit it first.")
    if model.kernel != "gaussian" or model.metric not in ("euclidean", "l2"):
        raise ValueError(
            "The KernelDensity must have kernel='gaussian' and metric='euclidean'; got "
            f"{model.kernel!r} and {model.metric!r}."
        )
    weights = model.tree_.sample_weight
    if weights is not None and np.ptp(np.asarray(weights)) > 0:
        raise ValueError("The KernelDensity has sample weights, which KDEs do not support. Fit it without weights.")
    data = np.asarray(model.tree_.data, dtype=np.float64)
    return KDEs(Points(data, [0, len(data)]), float(model.bandwidth_) ** 2)
