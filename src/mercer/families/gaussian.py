"""Gaussian distributions: full, diagonal or isotropic covariance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, beside, frozen, identity, namespace, safe_log, to_numpy
from mercer._checks import check_gamma, check_rho
from mercer._random import random_generator, whole_size
from mercer._verdict import Verdict
from mercer.families._covariance import (
    block_diagonal,
    check_covariances,
    covariance_information,
    flat,
    structure_of,
    upper,
)
from mercer.families._gaps import determinant_gap, log_mean_gap
from mercer.families._gaussian_pairs import GaussianPairs
from mercer.families.coordinatewise import observed_scores
from mercer.families.gaussian_gaps import patterns
from mercer.families.student_t import StudentTs

if TYPE_CHECKING:
    from mercer.families.gaussian_estimator import Gaussian

_LOG_2PI = float(np.log(2 * np.pi))


class Gaussians(GaussianPairs):
    r"""A batch of Gaussian distributions.

    Parameters
    ----------
    mean : array of shape (..., d)
        Means.
    covariance : array of shape (..., d, d), (..., d) or (...)
        Full covariances, variances of the coordinates, or one variance for all coordinates. Singular ones are allowed
        where the mathematics allows them (rho = 1, mean maps).

    Notes
    -----
    Probability product (PPK-3.1), with Cholesky of S + S' only:

    .. math::

        \log k ={}& (1-2\rho)\tfrac d2\log 2\pi - \tfrac d2\log\rho + \tfrac{1-\rho}2(\log|S|+\log|S'|) \\
        & - \tfrac12\log|S+S'| - \tfrac\rho2 (m-m')^\top (S+S')^{-1}(m-m')

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.Gaussians(mean=[[0.0, 0.0], [1.0, 0.0]], covariance=[1.0, 1.0])
    >>> p.shape, p.dimension
    ((2,), 2)
    >>> np.exp(p.log_product(p, rho=0.5)).round(4)
    array([[1.    , 0.8825],
           [0.8825, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"mean": 1, "covariance": 2}
    _shared: ClassVar[tuple[str, ...]] = ("structure",)

    def __init__(self, mean: Any, covariance: Any) -> None:
        mean, covariance = as_float(mean, "mean"), as_float(covariance, "covariance")
        if len(mean.shape) == 0 or mean.shape[-1] == 0:
            raise ValueError(f"mean must have d >= 1 coordinates in its last axis; got shape {tuple(mean.shape)}.")
        structure = structure_of(tuple(mean.shape), tuple(covariance.shape))
        check_covariances(mean, covariance, structure)
        self._freeze(mean=mean, covariance=covariance, structure=structure)

    @classmethod
    def from_network(cls, offset: Any, coefficients: Any, noise_covariance: Any, observed: Any = None) -> Self:
        r"""Return the distributions of linear Gaussian networks, with hidden coordinates integrated out (PPK-4.4).

        Parameters
        ----------
        offset : array of shape (..., d)
            Constant terms b of all coordinates.
        coefficients : array of shape (..., d, d)
            ``coefficients[..., i, j]`` is the effect B of coordinate j on coordinate i, zero unless j is a parent of i.
        noise_covariance : array of shape (..., d, d)
            Covariance S of the noise.
        observed : list of int or None, default=None
            The coordinates that are compared; None compares all.

        Notes
        -----
        :math:`x = b + Bx + \varepsilon` has the mean :math:`(I-B)^{-1}b` and the covariance
        :math:`(I-B)^{-1}S(I-B)^{-\top}`.

        Examples
        --------
        >>> import mercer as mc
        >>> chain = mc.Gaussians.from_network(
        ...     [[1.0, 0.0]], [[[0.0, 0.0], [2.0, 0.0]]], [[[1.0, 0.0], [0.0, 1.0]]]
        ... )
        >>> chain.mean, chain.covariance
        (array([[1., 2.]]), array([[[1., 2.],
                [2., 5.]]]))
        """
        b, B, S = (
            as_float(v, n)
            for v, n in ((offset, "offset"), (coefficients, "coefficients"), (noise_covariance, "noise_covariance"))
        )
        xp, d = namespace(b, B, S), b.shape[-1]
        power = B
        for _ in range(d - 1):
            power = power @ B
        if bool(xp.any(power != 0)):
            raise ValueError("coefficients have a cycle: a coordinate depends on itself. Leave out one of its parents.")
        spread = xp.linalg.inv(identity(B, d) - B)
        mean, covariance = (spread @ b[..., None])[..., 0], spread @ S @ xp.matrix_transpose(spread)
        covariance = (covariance + xp.matrix_transpose(covariance)) / 2
        at = np.arange(d) if observed is None else np.asarray(observed)
        return cls(xp.take(mean, at, axis=-1), xp.take(xp.take(covariance, at, axis=-1), at, axis=-2))

    def _event_axes(self, name: str) -> int:
        if name == "mean":
            return 1
        return {"full": 2, "diagonal": 1, "isotropic": 0}[self.structure]

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution: means, and entries of the covariance by structure."""
        d = self.dimension
        return d + {"full": d * (d + 1) // 2, "diagonal": d, "isotropic": 1}[self.structure]

    @property
    def tile_hint(self) -> int:  # type: ignore[override]
        """Rows of a tile: many for the compiled loop, else as many as keep the planes in the cache."""
        if self._in_lanes():
            return 192
        planes = self.dimension * (self.dimension + 3) // 2 if self.structure == "full" else 4
        return int(np.clip(np.sqrt(4e6 / (8 * planes)), 24, 256))

    # -- the exponential family ------------------------------------------------------------------------

    def statistics(self, x: Array) -> Array:
        """Return x and, by structure, x x', the squares of the coordinates, or |x|^2."""
        xp = namespace(x)
        if self.structure == "full":
            outer = x[..., :, None] * x[..., None, :]
            return xp.concat([x, xp.reshape(outer, (*x.shape[:-1], -1))], axis=-1)
        squares = x * x
        if self.structure == "isotropic":
            squares = xp.sum(squares, axis=-1, keepdims=True)
        return xp.concat([x, squares], axis=-1)

    def log_base(self, x: Array) -> Array:
        """Return a constant: -(d/2) log 2 pi."""
        xp = namespace(x)
        return xp.zeros_like(x[..., 0]) - 0.5 * self.dimension * _LOG_2PI

    @property
    def natural_parameters(self) -> Array:
        """S^{-1} m and -S^{-1}/2, flattened to match `statistics`."""
        self._require_regular("natural parameters")
        xp = namespace(self.mean)
        if self.structure == "full":
            precision = xp.linalg.inv(self.covariance)
            linear = (precision @ self.mean[..., None])[..., 0]
            return xp.concat([linear, xp.reshape(-precision / 2, (*self.shape, -1))], axis=-1)
        precision = 1 / self._variances
        square = -precision[..., :1] / 2 if self.structure == "isotropic" else -precision / 2
        return xp.concat([precision * self.mean, square], axis=-1)

    def log_partition(self, theta: Array) -> Array:
        """Return (m' S^{-1} m + log|S|) / 2."""
        xp, d = namespace(theta), self.dimension
        linear = theta[..., :d]
        if self.structure == "full":
            precision = xp.reshape(-2 * theta[..., d:], (*theta.shape[:-1], d, d))
            quadratic = xp.sum(linear * xp.linalg.solve(precision, linear[..., None])[..., 0], axis=-1)
            return quadratic / 2 - xp.linalg.slogdet(precision)[1] / 2
        precision = -2 * theta[..., d:]
        log_det = xp.sum(xp.log(precision), axis=-1) * (d if self.structure == "isotropic" else 1)
        return (xp.sum(linear * linear / precision, axis=-1) - log_det) / 2

    @property
    def mean_parameters(self) -> Array:
        """Mean and second moment, flattened to match `statistics`."""
        xp, m = namespace(self.mean), self.mean
        if self.structure == "full":
            second = self.covariance + m[..., :, None] * m[..., None, :]
            return xp.concat([m, xp.reshape(second, (*self.shape, -1))], axis=-1)
        if self.structure == "diagonal":
            return xp.concat([m, self.covariance + m * m], axis=-1)
        total = self.covariance * self.dimension + xp.sum(m * m, axis=-1)
        return xp.concat([m, total[..., None]], axis=-1)

    def dual(self, mu: Array) -> Array:
        """Return -log|S|/2, constants dropped (DJS-4); +inf where the covariance is singular."""
        xp, covariance = namespace(mu), self._covariance_at(mu)
        if self.structure == "full":
            sign, log_det = xp.linalg.slogdet(covariance)
            return xp.where(sign > 0, -log_det / 2, xp.inf)
        if self.structure == "diagonal":
            return -xp.sum(safe_log(covariance), axis=-1) / 2
        return -self.dimension * safe_log(covariance) / 2

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the Gaussians with these moments."""
        mean, covariance = frozen(mu[..., : self.dimension]), self._covariance_at(mu)
        if self.structure == "full":
            covariance = (covariance + namespace(mu).matrix_transpose(covariance)) / 2
        return self._make(mean=mean, covariance=covariance, structure=self.structure)

    def _covariance_at(self, mu: Array) -> Array:
        """Return the covariances with these moments."""
        xp, d = namespace(mu), self.dimension
        m, second = mu[..., :d], mu[..., d:]
        if self.structure == "full":
            return xp.reshape(second, (*mu.shape[:-1], d, d)) - m[..., :, None] * m[..., None, :]
        return second - m * m if self.structure == "diagonal" else (second[..., 0] - xp.sum(m * m, axis=-1)) / d

    def estimator(self) -> Gaussian:
        """Return the estimator of Gaussians with this structure."""
        from mercer.families.gaussian_estimator import Gaussian

        return Gaussian(covariance=self.structure)

    def predictive(self, count: Any) -> StudentTs:
        """Return what members with these mean parameters predict after ``count (..., 1)`` observations in all.

        The conjugate prior has one weight for means and second moments, so that n + 3 degrees of freedom are left, or
        more where one variance is that of all coordinates; the covariance of the prediction is the member's (PPK-2a).
        """
        if self.structure == "diagonal" and self.dimension > 1:
            raise ValueError(
                "Gaussians of independent coordinates predict no multivariate Student t distribution. Use "
                "covariance='full' or 'isotropic'."
            )
        d = self.dimension if self.structure == "isotropic" else 1
        full, degrees = self._as_full(), d * (np.asarray(count)[..., 0] + 1) + 2
        return StudentTs(full.mean, full.covariance * ((degrees - 2) / degrees)[..., None, None], degrees)

    # -- capabilities -----------------------------------------------------------------------------------

    def log_prob(self, x: Array) -> Array:
        """Log density of every point, ``(*B, n) x (*B, T, d) -> (*B, n, T)``; NaN coordinates are marginalized."""
        single, x = self._crossable(self._checked_points(as_float(x)))
        single._require_regular("a density")
        xp = namespace(x, self.mean)
        missing = xp.isnan(x)
        if bool(xp.any(missing)) and self.structure == "full":
            value = single._log_prob_observed(to_numpy(x))
        elif bool(xp.any(missing)):
            variances = single._variances[..., :, None, :]
            difference = x[..., None, :, :] - single.mean[..., :, None, :]
            terms = -(_LOG_2PI + xp.log(variances) + difference * difference / variances) / 2
            value = xp.sum(xp.where(xp.isnan(terms), xp.zeros_like(terms), terms), axis=-1)
        else:
            planes = [x[..., None, :, i] - single.mean[..., :, None, i] for i in range(self.dimension)]
            with np.errstate(over="ignore", invalid="ignore"):  # far from the mean, the density is zero
                log_det, quadratic = single._solve_planes(single._planes(), planes)
            value = -(self.dimension * _LOG_2PI + log_det + quadratic) / 2
        far = xp.any(xp.isinf(x), axis=-1)[..., None, :]
        if bool(xp.any(far)):  # infinities of two coordinates may have canceled
            value = xp.where(far, -xp.inf, value)
        return value if self.shape else value[..., 0, :]

    def _log_prob_observed(self, x: Floats) -> Floats:
        """Marginalize unobserved coordinates: one pass per pattern of missing coordinates."""
        _check_flat(x)
        out = np.zeros((*self.shape, len(x)))
        for rows, seen in patterns(x):
            out[..., rows] = self.marginal(seen).log_prob(x[np.ix_(rows, seen)])
        return out

    def marginal(self, coordinates: Any) -> Gaussians:
        """Return the distribution of some coordinates."""
        keep = np.asarray(coordinates)
        if (
            keep.ndim != 1
            or keep.dtype.kind not in "iub"
            or (
                keep.dtype.kind != "b"
                and keep.size
                and not (-self.dimension <= keep.min() <= keep.max() < self.dimension)
            )
        ):
            raise ValueError(f"coordinates must be a list of numbers below {self.dimension}; got {coordinates!r}.")
        covariance = self.covariance
        if self.structure == "full":
            covariance = covariance[..., keep[:, None], keep]
        elif self.structure == "diagonal":
            covariance = covariance[..., keep]
        return Gaussians(self.mean[..., keep], covariance)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the integral of p^rho q^rho (PPK-3.1), ``(*B, n) x (*B, m) -> (*B, n, m)``."""
        check_rho(rho)
        self._check_pair(other)
        if rho == 1:
            self._require_regular_sums(other)
        else:
            for side in (self, other):
                side._require_regular(f"the probability product at rho = {rho}")
        d = self.dimension
        constant = (1 - 2 * rho) * d / 2 * _LOG_2PI - d / 2 * math.log(rho)
        sides = [] if rho == 1 else [(1 - rho) / 2 * side._log_det() for side in (self, other)]
        return self._log_kernels(other, 1.0, 0.0, rho / 2, sides, constant)

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of E exp(-gamma |x - y|^2) (GMMK-2), also for singular covariances."""
        check_gamma(gamma)
        self._check_pair(other)
        return self._log_kernels(other, 2 * gamma, 1.0, gamma)

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus -w'Sw / 2 and angle w'm of E exp(i <w, x>) at every row w of ``frequencies (F, d)``."""
        w = beside(self.mean, np.ascontiguousarray(frequencies.T), self.mean.dtype)  # (d, F)
        xp, c = namespace(self.mean), self.covariance
        if self.structure == "full":  # one coordinate at a time: tables of members by frequencies, and no larger ones
            quadratic = sum((c[..., i, :] @ w) * w[i, :] for i in range(self.dimension))
        elif self.structure == "diagonal":
            quadratic = c @ (w * w)
        else:
            quadratic = c[..., None] * xp.sum(w * w, axis=0)
        return -xp.clip(quadratic, 0.0, None) / 2, self.mean @ w

    _least_divergence = 1e-24

    def dual_divergence(self, other: Self) -> Array:
        """Dual Jensen-Shannon divergence (DJS-4): of the Gaussian with the pooled moments."""
        self._check_pair(other)
        for side in (self, other):
            side._require_regular("the dual divergence")
        xp, d = namespace(self.mean, other.mean), self.dimension
        a, b = self.covariance, other.covariance
        # Of variances a and b: log((a + b)/2) - log(ab)/2, which does not cancel where they are nearly equal, and
        # log(1 + v^2 / (2 (a + b))) of a difference of means v.
        if self.structure == "isotropic":
            (variance,), difference = self._pair_planes(other)
            squared = sum(plane * plane for plane in difference)
            apart = log_mean_gap(a[..., :, None], b[..., None, :])
            return d / 2 * (apart + xp.log1p(squared / (2 * d * variance[0])))
        if self.structure == "diagonal":
            planes, difference = self._pair_planes(other)
            return (
                sum(
                    log_mean_gap(a[..., :, None, i], b[..., None, :, i]) + xp.log1p(v * v / (2 * planes[i][0]))
                    for i, v in enumerate(difference)
                )
                / 2
            )
        # |Sbar| = |(S + S')/2| (1 + v' (S + S')^{-1} v / 2), v = m - m'
        log_det, quadratic = self._pair_solve(other)
        ends = self._log_det()[..., :, None] + other._log_det()[..., None, :]
        apart = determinant_gap(a, b, log_det - d * math.log(2.0) - ends / 2)
        return (apart + xp.log1p(quadratic / 2)) / 2

    def kl(self, other: Self) -> Array:
        """Kullback-Leibler divergence KL(p || q) of every pair."""
        self._check_pair(other)
        for side in (self, other):
            side._require_regular("the Kullback-Leibler divergence")
        full, target = self._as_full(), other._as_full()
        xp = namespace(full.mean, target.mean)
        precision = xp.linalg.inv(target.covariance)
        trace = flat(full.covariance) @ xp.matrix_transpose(flat(precision))
        difference = full.mean[..., :, None, :] - target.mean[..., None, :, :]
        solved = (precision[..., None, :, :, :] @ difference[..., None])[..., 0]
        quadratic = xp.sum(difference * solved, axis=-1)
        dets = target._log_det()[..., None, :] - full._log_det()[..., :, None]
        return (trace + quadratic - self.dimension + dets) / 2

    def fisher_scores(self, x: Array) -> Array:
        """Scores in (mean, log sd) or, full, (mean, symmetric covariance gradient) (FK-0, FK-4).

        They are those of the coordinates that were observed (not NaN); all others have the score zero.
        """
        single, x = self._crossable(self._checked_points(as_float(x)))
        single._require_regular("the Fisher score")
        xp = namespace(x, self.mean)
        difference = x[..., None, :, :] - single.mean[..., :, None, :]
        if self.structure == "full":
            if bool(xp.any(xp.isinf(x))):
                raise ValueError("Fisher scores of full covariances need finite coordinates; a point has inf.")
            if bool(xp.any(xp.isnan(x))):
                value = single._scores_observed(to_numpy(x))
                return value if self.shape else value[..., 0, :, :]
            precision = xp.linalg.inv(single.covariance)[..., None, :, :]
            g = (precision @ difference[..., None])[..., 0]
            gradient = (g[..., :, None] * g[..., None, :] - precision) / 2
            value = xp.concat([g, upper(gradient)], axis=-1)
        else:
            variances = single._variances[..., None, :]
            g = difference / variances
            g, spread = observed_scores(g), observed_scores(difference * g - 1)
            if self.structure == "isotropic":
                spread = xp.sum(spread, axis=-1, keepdims=True)
            value = xp.concat([g, spread], axis=-1)
        return value if self.shape else value[..., 0, :, :]

    def _scores_observed(self, x: Floats) -> Floats:
        """Scores of the coordinates that were observed: one pass per pattern of missing coordinates."""
        _check_flat(x)
        d = self.dimension
        out = np.zeros((*self.shape, len(x), self.n_parameters))
        for rows, seen in patterns(x):
            own = np.isin(np.arange(d), seen)
            left, right = np.triu_indices(d)
            columns = np.flatnonzero(np.concatenate([own, own[left] & own[right]]))
            out[..., rows[:, None], columns] = self.marginal(seen).fisher_scores(x[np.ix_(rows, seen)])
        return out

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        d = self.dimension
        means = [f"mean[{i}]" for i in range(d)]
        if self.structure == "full":
            return means + [f"covariance[{i}, {j}]" for i in range(d) for j in range(i, d)]
        return means + (["log_sd"] if self.structure == "isotropic" else [f"log_sd[{i}]" for i in range(d)])

    def fisher_information(self) -> Array:
        """Information matrices of the parametrization of `fisher_scores`, ``(*B, P, P)``."""
        self._require_regular("the Fisher information")
        xp, d = namespace(self.mean), self.dimension
        if self.structure == "full":
            precision = xp.linalg.inv(self.covariance)
            return block_diagonal(precision, covariance_information(precision))
        ones = xp.ones_like(self.mean)
        if self.structure == "diagonal":
            diagonal = xp.concat([1 / self.covariance, 2 * ones], axis=-1)
        else:
            diagonal = xp.concat([ones / self.covariance[..., None], 2.0 * d * ones[..., :1]], axis=-1)
        return diagonal[..., :, None] * identity(diagonal, diagonal.shape[-1])

    def dual_psd(self, form: str, t: float) -> Verdict:
        """Whether JensenShannon is positive semi-definite (DJS-5): full covariances in d >= 2 are special."""
        d = self.dimension
        if self.structure != "full" or d == 1:
            return Verdict("always", "the dual divergence of 1-D, diagonal and isotropic Gaussians is CND (DJS-5)")
        gindikin = f"the Gindikin set {{1, .., {d - 1}}} u [{d - 1}, inf)"
        if form == "exp" and (t >= d - 1 or (t == int(t) and t >= 1)):
            return Verdict("always", f"t = {t} is in {gindikin} (DJS-5)")
        if d == 2:
            witness = (
                "the 7 covariances I, diag(1+-.9, 1+-.9), [[1, +-.95], [+-.95, 1]] have an eigenvalue of -0.020 at "
                "t = .2, -0.19 for centering and -0.001 for the inverse form at t = 10 (DJS-5)"
            )
        elif d == 3:
            witness = "the 29 matrices of DJS-5 have an eigenvalue of -2.1e-5 for the form exp at t = 1.5"
        elif form == "exp":
            witness = f"t = {t} is not in {gindikin} (DJS-5)"
        else:
            witness = f"{gindikin} does not contain every t > 0, so the divergence is not CND (DJS-5)"
        cure = f"use form='exp' with t >= {d - 1} or t in {{1, .., {d - 1}}}, or diagonal covariances"
        return Verdict("no", f"Gaussians with full covariance in d = {d}: {witness}; {cure}")

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        size = whole_size(size)
        noise = random_generator(random_state).standard_normal((*self.shape, size, self.dimension))
        mean = to_numpy(self.mean)[..., None, :]
        if self.structure != "full":
            return mean + noise * np.sqrt(to_numpy(self._variances))[..., None, :]
        values, vectors = np.linalg.eigh(to_numpy(self.covariance))  # also right for singular covariances
        root = vectors * np.sqrt(np.maximum(values, 0))[..., None, :]
        return mean + noise @ np.swapaxes(root, -1, -2)

    # -- helpers ----------------------------------------------------------------------------------------

    def _as_full(self) -> Gaussians:
        if self.structure == "full":
            return self
        eye = identity(self.mean, self.dimension)
        return Gaussians._make(mean=self.mean, covariance=self._variances[..., None] * eye, structure="full")

    def _log_det(self) -> Array:
        xp = namespace(self.mean)
        if self.structure == "full":
            return xp.linalg.slogdet(self.covariance)[1]
        if self.structure == "diagonal":
            return xp.sum(xp.log(self.covariance), axis=-1)
        return self.dimension * xp.log(self.covariance)


def _check_flat(x: Floats) -> None:
    """Raise if points with missing coordinates are not the rows of one matrix."""
    if x.ndim != 2:
        raise ValueError(
            "Missing coordinates can be marginalized under full covariances only for points of shape (T, d)."
        )
