"""Plots of statistical tests: the null distribution and the witness of two samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.plot.style import COLORS, MARKERS, axes, texts

__all__ = ["null_distribution", "witness"]


def null_distribution(found: Any, ax: Any = None) -> Any:
    """Plot the statistic of a test over its values under the null hypothesis.

    Parameters
    ----------
    found : TwoSample, Independence or GoodnessOfFit
        Result of a test of `mercer.stats`.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.

    Returns
    -------
    matplotlib Axes
        Axes with a histogram of the permutations, or simulations, and a line at the statistic of the data.

    Examples
    --------
    >>> import mercer as mc
    >>> ax = mc.plot.null_distribution(
    ...     mc.stats.two_sample_test(["aab"] * 6, ["bba"] * 6, mc.Spectrum(2))
    ... )
    >>> ax.get_legend().get_texts()[0].get_text()
    'data, p = 0.0022'
    """
    if not hasattr(found, "null"):
        raise TypeError(f"null_distribution plots the result of a test of mc.stats; got {type(found).__name__}.")
    ax = axes(ax)
    ax.hist(found.null, bins=min(40, max(5, len(found.null) // 10)), color="0.75")
    ax.axvline(found.statistic, color=COLORS[5], label=f"data, p = {found.p_value:.2g}")
    ax.set(xlabel="statistic", ylabel="permutations" if hasattr(found, "permuted") else "simulations")
    ax.legend()
    return ax


def witness(found: Any, names: tuple[str, str] = ("X", "Y"), ax: Any = None) -> Any:
    """Plot the witness of a two-sample test: which objects resemble which sample.

    Parameters
    ----------
    found : TwoSample
        Result of `mercer.stats.two_sample_test`.
    names : tuple of two str, default=("X", "Y")
        Names of both samples.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.

    Returns
    -------
    matplotlib Axes
        Axes with one row of points for each sample. Objects on the right resemble the first sample more than the
        second. The more the rows are apart, the larger the difference.

    Examples
    --------
    >>> import mercer as mc
    >>> found = mc.stats.two_sample_test(["aab"] * 6, ["bba"] * 6, mc.Spectrum(2))
    >>> mc.plot.witness(found, names=("before", "after")).get_xlabel()
    'witness: mean kernel with before minus that with after'
    """
    if not hasattr(found, "witness"):
        raise TypeError(f"witness plots the result of mc.stats.two_sample_test; got {type(found).__name__}.")
    first, second = texts(names, 2, "names", "samples")
    ax = axes(ax)
    n = found.n_first
    rng = np.random.default_rng(0)
    for row, values in enumerate((found.witness[:n], found.witness[n:])):
        height = -row + rng.uniform(-0.25, 0.25, size=len(values))  # so that points do not hide each other
        ax.plot(values, height, MARKERS[row], color=COLORS[row], alpha=0.6, markersize=5)
        ax.plot([values.mean()] * 2, [-row - 0.35, -row + 0.35], color=COLORS[row], linewidth=3)
    ax.set_yticks([0, -1], [first, second])
    ax.set(xlabel=f"witness: mean kernel with {first} minus that with {second}", ylim=(-1.6, 0.6))
    return ax
