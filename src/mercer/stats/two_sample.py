"""Are two samples from one distribution? Maximum mean discrepancy with any kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._checks import is_listing
from mercer._notices import notify, warns_once
from mercer._random import random_generator
from mercer.gram import psd
from mercer.kernels import Confounded, Residualized
from mercer.kernels.base import Kernel, concatenated
from mercer.stats._assignments import Design, all_or_drawn
from mercer.stats._discrepancy import Discrepancy, interval
from mercer.stats._fused import Widths, fused
from mercer.stats._input import (
    Indices,
    check_count,
    check_kernel,
    check_level,
    check_vectors,
    checked_gram,
    columns,
    critical_share,
    fitted_gram,
    numbered,
    p_of,
    pooled,
    unit_numbers,
)
from mercer.stats._regression import Adjusted, Regression, adjusted
from mercer.stats._shown import Permuted, seed_of


@dataclass(frozen=True, repr=False)
class TwoSample(Permuted):
    r"""Result of `two_sample_test`.

    Parameters
    ----------
    p_value : float
        Probability of a statistic at least as large if both samples have one distribution.
    statistic : float
        The unbiased squared maximum mean discrepancy; without a kernel, the soft maximum over several widths.
    effect_size : float
        Distance of the mean embeddings in units of the standard deviation within samples, in the feature space of the
        kernel; 0 if the estimate of its square is negative. Compare it between tests with the same kernel only.
    interval : tuple of float
        Confidence interval of the effect size. It contains 0 exactly if ``p_value`` is above ``1 - level``.
    level : float
        Its level.
    n_first, n_second : int
        Number of objects of both samples.
    permuted : str
        What is permuted: "objects", "groups" or "objects within groups"; with confounds, "objects within strata" or
        "signs of residuals of objects", for example.
    n_permutations : int
        Number of permutations, or of random signs.
    exact : bool
        Whether these are all permutations.
    null : ndarray of shape (n_permutations,)
        The statistic of every permutation.
    witness : ndarray of shape (N,)
        Mean kernel of every object with the first sample minus that with the second, the objects of X before those of
        Y; the object itself and its group are left out.
    weights : ndarray of shape (N,)
        Weight of every object in the witness function, in the same order: 1 / n for those of X, -1 / m for those of Y,
        or the coefficients of a regression with confounds.
    n_widths : int, default=1
        Number of Gaussian kernels that the test combines.
    kernel : Kernel or None, default=None
        The fitted kernel; None if the matrix was precomputed. Without a kernel, the mean of the Gaussian kernels.
    objects : data or None, default=None
        The objects of both samples, those of X before those of Y, for `mercer.explain`.
    seed : int or None, default=None
        Seed of the permutations, if ``random_state`` was a number.

    Notes
    -----
    ``mc.explain(found, Z)`` tells which positions of objects Z make them similar to the one or the other sample: it
    explains the witness function :math:`f(z) = \frac1n\sum_i k(z, x_i) - \frac1m\sum_j k(z, y_j)`.

    Examples
    --------
    >>> import mercer as mc
    >>> found = mc.stats.two_sample_test(["aab"] * 6, ["bba"] * 6, mc.Spectrum(2))
    >>> found.exact, round(found.p_value, 4)
    (True, 0.0022)
    """

    p_value: float
    statistic: float
    effect_size: float
    interval: tuple[float, float]
    level: float
    n_first: int
    n_second: int
    permuted: str
    n_permutations: int
    exact: bool
    null: Floats = field(repr=False)
    witness: Floats = field(repr=False)
    weights: Floats = field(repr=False)
    n_widths: int = 1
    kernel: Any = field(default=None, repr=False)
    objects: Any = field(default=None, repr=False)
    seed: int | None = None

    def witness_weights(self) -> Floats:
        """Return the weight of every object in the witness function."""
        return self.weights

    def most_different(self, n: int = 5) -> tuple[Indices, Indices]:
        """Return the positions in X and in Y of the ``n`` objects that are most unlike the other sample.

        Parameters
        ----------
        n : int, default=5
            Number of objects of each sample.

        Examples
        --------
        >>> import mercer as mc
        >>> found = mc.stats.two_sample_test(
        ...     ["aa", "ab", "ab"], ["ab", "ab", "bb"], mc.Spectrum(1)
        ... )
        >>> found.most_different(1)
        (array([0]), array([2]))
        """
        n = check_count(n, "n", 1)
        first, second = self.witness[: self.n_first], self.witness[self.n_first :]
        return np.argsort(-first, kind="stable")[:n], np.argsort(second, kind="stable")[:n]

    def __str__(self) -> str:
        widths = f"; Gaussian kernels of {self.n_widths} widths" if self.n_widths > 1 else ""
        verdict = "The two samples differ" if self.p_value <= 0.05 else "No difference was found"
        low, high = self.interval
        return (
            f"{verdict} ({self._p_value()}; {self._drawn()}{widths}). Effect size {self.effect_size:.2f} "
            f"({self.level:.0%} interval {low:.2f} to {high:.2f}); {self.n_first} and {self.n_second} objects."
        )

    def _rows(self) -> dict[str, str]:
        low, high = self.interval
        effect = {"effect_size": f"{self.effect_size:.2f}", "interval": f"({low:.2f}, {high:.2f})"}
        return effect | {"n_first": str(self.n_first), "n_second": str(self.n_second)}


@warns_once
def two_sample_test(
    X: Any,
    Y: Any,
    kernel: Any = None,
    *,
    groups: Any = None,
    confounds: Any = None,
    n_permutations: int = 999,
    level: float = 0.95,
    random_state: Any = 0,
) -> TwoSample:
    r"""Test whether two samples of sequences, series, sets, documents, ... have the same distribution.

    Parameters
    ----------
    X, Y : data
        The two samples, in any form that the kernel accepts; 1-D arrays of numbers are columns. With
        ``kernel="precomputed"``, X is the Gram matrix of all objects and Y says by two labels which sample each object
        belongs to; the first label is that of X.
    kernel : Kernel, "precomputed" or None, default=None
        None is for vectors: one test over Gaussian kernels of several widths, from half the 5 % quantile of the
        distances to twice their 95 % quantile, after columns were divided by a robust deviation of both samples
        together, so that their units do not matter. A fitted kernel is used as it is. Any other is fitted to both
        samples together, without their labels. An `RBF` or `Laplace` without ``gamma`` has ``gamma="median"`` here.
    groups : array-like of shape (N,), default=None
        The group of every object of X, then of Y, such as the subject that it comes from: objects of one group are not
        independent. If every group is in one sample, whole groups are permuted; they should have about the same
        numbers of objects. If groups are in both, objects are permuted within groups, as in a paired test.
    confounds : array-like of shape (N, c) or (N,), or a pair of them, default=None
        What else may differ between the samples, such as age or site: a row for every object of X, then of Y, or the
        confounds of X and of Y. Text, booleans and numbers with at most five values are categories, within which
        objects are permuted. Other numbers are regressed out of the features of the kernel, by parabolas, jumps
        and curves that leave-one-out errors choose, and the signs of residuals are drawn at random; at
        least ten objects per number, and ten more, are required. `Confounded` samples have them with them.
    n_permutations : int, default=999
        Number of random permutations, or of random signs with confounds that are numbers. If there are no more
        permutations than that, all of them are used.
    level : float, default=0.95
        Level of the interval of the effect size.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the permutations.

    Returns
    -------
    TwoSample
        The p-value, the effect size with its interval, and the objects that differ most. ``print`` it.

    Notes
    -----
    .. math:: \mathrm{MMD}^2 = E\,k(x, x') + E\,k(y, y') - 2\,E\,k(x, y)

    is the squared distance of the mean embeddings of both distributions (Gretton et al. 2012). Its unbiased estimate
    leaves out pairs of an object with itself, and of objects of one group; the statistic of permutations within groups
    contains the latter, since differences within groups are what it tests. The effect size is the root of
    :math:`\mathrm{MMD}^2 / \sigma^2`, where :math:`\sigma^2` is the mean over both samples of
    :math:`E\,k(x, x) - E\,k(x, x')`, the variance in feature space. Its interval inverts the test at 0, and uses a
    jackknife over objects, or over groups, for positive sizes.

    Without a kernel, the statistic is that of MMD-FUSE (Biggs, Schrab and Gretton 2023),

    .. math:: \frac1\lambda \log \frac1K \sum_{k=1}^K \exp\left(\lambda\,\mathrm{MMD}^2_k / \sqrt{N_k}\right),
        \qquad \lambda = \sqrt{n(n-1)},

    with the mean :math:`N_k` of the squared kernel over all pairs, here of the centered kernel, which makes wide
    kernels count as much as narrow ones. Every permutation computes all of it again.

    Examples
    --------
    >>> import mercer as mc
    >>> X, Y = ["aabab", "aaab", "abaab", "aab"] * 5, ["abbb", "bbab", "babbb", "bba"] * 5
    >>> found = mc.stats.two_sample_test(X, Y, mc.Spectrum(2))
    >>> round(found.p_value, 3), round(found.effect_size, 2)
    (0.001, 2.92)
    """
    level, rng = check_level(level), random_generator(random_state)
    check_count(n_permutations, "n_permutations", 1)
    X, Y, kernel, confounds = _apart(X, Y, kernel, confounds)
    _check_two(kernel)
    pool, first, learned, grams = _read(X, Y, kernel)
    plain = Design(first, unit_numbers(groups, len(first)))
    _check_design(plain)
    design = adjusted(plain, confounds, grams)
    matrix: Any = Adjusted if isinstance(design, Regression) else Discrepancy
    few, permuted = 1 / (1 - level), design.permuted
    orders, exact = all_or_drawn(
        design, int(n_permutations), rng, few=few, permuted=permuted, cure="Collect more of them."
    )
    every, scale, spreads = _statistics(grams, matrix, design, orders)
    statistic, null = float(every[0]), every[1:]
    p = p_of(statistic, null, scale, exact=exact)
    share = critical_share(statistic, null, p, level, exact=exact)
    if kernel is None:
        learned = grams.kernel(spreads).fit(pool)
    found = matrix.of(grams[0] if kernel is not None else np.asarray(learned(pool), dtype=float), design)
    effect, order = found.effect(), np.argsort(~first, kind="stable")  # the objects of X before those of Y
    return TwoSample(
        p,
        statistic,
        effect_size=float(np.sqrt(max(effect.square, 0.0))),
        interval=interval(effect, found.squared(orders), share, level),
        level=level,
        n_first=int(first.sum()),
        n_second=int((~first).sum()),
        permuted=permuted,
        n_permutations=len(null),
        exact=exact,
        null=null,
        witness=found.witness()[order],
        weights=design.weights()[order],
        n_widths=1 if kernel is not None else len(grams.gammas),
        kernel=learned,
        objects=pool,
        seed=seed_of(random_state),
    )


def _check_two(kernel: Any) -> None:
    """Raise unless the third argument is a kernel; a third sample gets a sentence of its own."""
    if kernel is None:
        return
    if not isinstance(kernel, str | type | Kernel) and (hasattr(kernel, "shape") or is_listing(kernel)):
        raise TypeError(
            f"kernel must be a kernel, such as mc.RBF(); got a {type(kernel).__name__} of {len(kernel)} objects. For "
            "three samples or more, concatenate them and test whether objects depend on their sample: "
            'mc.stats.independence_test(objects, samples, kernel_z="labels"), with the sample of every object.'
        )
    check_kernel(kernel, "kernel", "precomputed")


def _apart(X: Any, Y: Any, kernel: Any, confounds: Any) -> tuple[Any, Any, Any, Any]:
    """Return the samples without their confounds, a kernel of these, and the confounds of X and then of Y."""
    held = [isinstance(side, Confounded) for side in (X, Y)]
    if any(held):
        if not all(held) or confounds is not None:
            raise TypeError("X and Y must both have confounds (mc.Confounded), or pass them as confounds=, not twice.")
        X, Y, confounds = X.objects, Y.objects, (X.confounds, Y.confounds)
    if isinstance(kernel, Residualized):  # the test itself regresses out confounds
        kernel = kernel.kernel
        if confounds is None:
            raise TypeError("Residualized got no confounds. Pass confounds=(those of X, those of Y).")
    if isinstance(confounds, tuple) and len(confounds) == 2:
        confounds = concatenated(tuple(columns(side) for side in confounds))
    return X, Y, kernel, confounds


def _read(X: Any, Y: Any, kernel: Any) -> tuple[Any, Floats, Any, Any]:
    """Return the objects, which of them are in the first sample, the fitted kernel, and one or several matrices."""
    if isinstance(kernel, str):
        K = checked_gram(psd.square(X))
        return None, _labels(Y, len(K)), None, [K]
    pool, n, m = pooled(X, Y)
    first = np.arange(n + m) < n
    if kernel is None:
        check_vectors(pool)
        return pool, first, None, Widths.of(pool)
    learned, K = fitted_gram(kernel, pool)
    return pool, first, learned, [K]


def _statistics(grams: Any, matrix: Any, design: Any, Z: Floats) -> tuple[Floats, float, Floats]:
    """Return the statistic of the data and of every column of Z, the size of its terms, and the spreads of kernels."""
    rows, scales, spreads = [], [], []
    for K in grams:
        found = matrix.of(K, design.exchangeable)
        spread = found.spread if isinstance(grams, Widths) else 1.0
        rows.append(np.append(found.observed(), found.squared(Z)) / max(spread, np.finfo(float).tiny))
        scales.append(found.scale / max(spread, np.finfo(float).tiny))
        spreads.append(spread)
    statistics = rows[0] if len(rows) == 1 else fused(np.array(rows), design.smaller)
    return statistics, max(scales), np.array(spreads)


def _labels(Y: Any, n: int) -> Floats:
    """Return which objects of a precomputed matrix are in the first sample, that of the first label."""
    numbers = numbered(Y, n, "With kernel='precomputed', Y")
    if numbers.max() != 1:
        raise ValueError(f"With kernel='precomputed', Y must have two different labels; got {numbers.max() + 1}.")
    return np.asarray(numbers == 0)


def _check_design(design: Design) -> None:
    for name, side in (("X", design.first), ("Y", ~design.first)):
        if side.sum() < 2:
            raise ValueError(f"{name} must have at least 2 objects; got {side.sum()}.")
        units = len(np.unique(design.units[side]))
        if units < 2:
            raise ValueError(
                f"All {side.sum()} objects of {name} are in one group, so that their distribution cannot be told from "
                "that group. Collect more groups, or leave out groups= if the objects are independent."
            )
    sizes = [side.sum() / len(np.unique(design.units[side])) for side in (design.first, ~design.first)]
    if not design.crossed and max(sizes) > 1.5 * min(sizes):
        notify(
            f"Groups of X have {sizes[0]:.1f} objects on average, and those of Y {sizes[1]:.1f}. The means of large "
            "groups vary less, which permutations of groups do not know: p-values can be too small. Use as many "
            "objects of every group."
        )
    both = len(np.intersect1d(design.units[design.first], design.units[~design.first]))
    if design.crossed and both < design.units.max() + 1:
        notify(
            f"Only {both} of {design.units.max() + 1} groups are in both samples; objects are permuted within these. "
            "The others are the same in every permutation. Leave them out, or use groups that are in one sample each."
        )
