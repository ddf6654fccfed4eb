"""Plots of Gram matrices and related results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, to_numpy
from mercer.gram import psd
from mercer.gram._diagnose import DOMINATED
from mercer.plot.style import COLORS, MARKERS, axes, legend_above

__all__ = ["diagnosis", "error_over_length", "gram", "kernel_pca", "matches", "spectrum"]


LETTERS = 60
"""Maximum length of a sequence whose symbols are written on the axis."""


def gram(K: Any, y: Any = None, ax: Any = None, *, log: bool = False, cmap: str = "viridis") -> Any:
    """Plot a Gram matrix with objects sorted by class.

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix.
    y : array of shape (N,), default=None
        Classes, which are separated by lines and labeled; without them, objects keep their order.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    log : bool, default=False
        Whether to color log10 of the values, which must then be nonnegative; zeros are left blank.
    cmap : str, default="viridis"
        A matplotlib colormap; "cividis" is another one that is safe for color-blind readers.

    Returns
    -------
    matplotlib Axes
        Axes with the image and a color bar.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.array([[0.0], [5.0], [0.1], [5.1]])
    >>> ax = mc.plot.gram(mc.RBF(gamma=1.0)(X), ["a", "b", "a", "b"])
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['a', 'b']
    """
    K = psd.square(K)
    if log:
        if (K < 0).any():
            raise ValueError(f"K must be nonnegative for log=True; got {K.min():.3g}. Pass log=False.")
        if not (K > 0).any():
            raise ValueError("K must have a positive entry for log=True; all entries are 0. Pass log=False.")
    labeled = y is not None
    y = _labels(y, len(K)) if labeled else np.zeros(len(K), dtype=int)
    order = np.argsort(y, kind="stable")
    K = K[np.ix_(order, order)]
    ax = axes(ax)
    values = np.ma.masked_invalid(np.log10(np.where(K > 0, K, np.nan))) if log else K
    image = ax.imshow(values, cmap=cmap, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="log10 k" if log else "k", fraction=0.046, pad=0.04)
    if labeled:
        _mark_classes(ax, y)
    return ax


def _mark_classes(ax: Any, y: Floats) -> None:
    """Draw lines between classes, and label each class at its center."""
    classes, counts = np.unique(y, return_counts=True)
    borders = np.cumsum(counts)
    for border in borders[:-1]:
        ax.axhline(border - 0.5, color="white", linewidth=1.2)
        ax.axvline(border - 0.5, color="white", linewidth=1.2)
    names, middles = [str(c) for c in classes], borders - counts / 2 - 0.5
    ax.set_yticks(middles, names)
    ax.set_xticks(middles, names, rotation=90 if max(map(len, names)) > 3 else 0)
    ax.tick_params(length=0)


def kernel_pca(K: Any, X: Any = None, y: Any = None, ax: Any = None) -> Any:
    """Plot objects in the plane of the first two kernel principal components, colored by class.

    Parameters
    ----------
    K : array of shape (N, N), or Kernel
        A Gram matrix, or a kernel, which is cloned and fitted to ``X``.
    X : data, default=None
        Input of the kernel. With a Gram matrix, ``y`` may be passed here: ``kernel_pca(K, y)``.
    y : array of shape (N,), default=None
        Classes, or floats, which are drawn on a color scale.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.

    Returns
    -------
    matplotlib Axes
        Axes labeled with the fraction of the variance in feature space that each component explains.

    Notes
    -----
    Coordinates are eigenvectors of the centered matrix (KK-3 with a constant) times the square roots of their
    eigenvalues, with the sign that makes the entry of largest magnitude positive.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.datasets import make_point_sets
    >>> sets, y = make_point_sets(20, random_state=0)
    >>> ax = mc.plot.kernel_pca(mc.MeanMap(mc.Gaussian()), sets, y)
    >>> len(ax.collections)
    2
    """
    if callable(K):
        if X is None:
            raise ValueError("A kernel requires X; pass kernel_pca(kernel, X), or a Gram matrix.")
        K = clone(K).fit_transform(X)
    elif X is not None:
        if y is not None or np.ndim(X) > 1:
            raise ValueError("A Gram matrix takes labels but no X; pass kernel_pca(K, labels), or a kernel and X.")
        y = X
    K = psd.square(K)
    if len(K) < 3:
        raise ValueError(f"kernel_pca requires at least 3 objects; got {len(K)}.")
    rows = K.mean(axis=0)
    values, vectors = np.linalg.eigh(K - rows - rows[:, None] + rows.mean())
    values, vectors = values[::-1][:2], vectors[:, ::-1][:, :2]
    total = float(np.trace(K) - rows.sum())
    if total <= 1e-12 * float(np.abs(np.diag(K)).max()):
        raise ValueError(
            "All objects are identical to this kernel, so there are no principal components. Try another kernel."
        )
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])
    z = vectors * np.sqrt(np.maximum(values, 0.0))
    labels = None if y is None else _labels(y, len(K))
    ax = axes(ax)
    _scatter(ax, z, labels)
    ax.set_xlabel(f"component 1 ({values[0] / total:.0%})")
    ax.set_ylabel(f"component 2 ({max(values[1], 0.0) / total:.0%})")
    return ax


def error_over_length(
    lengths: Any, errors: Any, ax: Any = None, *, baselines: Mapping[str, float] | None = None, label: str | None = None
) -> Any:
    """Plot the error over the length of a kernel: the mean over folds with a band of one standard error.

    Parameters
    ----------
    lengths : array of shape (L,)
        Positive lengths.
    errors : array of shape (L,) or (L, folds)
        Error of every length, or of every length and fold.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure. Call again with the same axes to add a curve.
    baselines : dict from name to error, default=None
        Horizontal lines, such as chance, or the error of a classifier that uses the lengths only.
    label : str, default=None
        Name of the curve.

    Returns
    -------
    matplotlib Axes
        Axes, logarithmic in the length if the lengths span a factor of 20 or more.

    Examples
    --------
    >>> import mercer as mc
    >>> ax = mc.plot.error_over_length(
    ...     [1, 10, 100], [[0.4, 0.5], [0.1, 0.2], [0.3, 0.3]], baselines={"chance": 0.5}
    ... )
    >>> ax.get_xscale(), ax.lines[0].get_ydata().round(2).tolist()
    ('log', [0.45, 0.15, 0.3])
    """
    lengths, errors = np.asarray(lengths, dtype=float), np.asarray(errors, dtype=float)
    if lengths.ndim != 1 or len(lengths) == 0 or errors.ndim not in (1, 2) or len(errors) != len(lengths):
        raise ValueError(
            f"errors must have one row per length; got lengths of shape {lengths.shape} and errors of shape "
            f"{errors.shape}."
        )
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError(f"lengths must be positive; got {lengths[~(np.isfinite(lengths) & (lengths > 0))][0]:g}.")
    if not np.isfinite(errors).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(errors))[0])
        raise ValueError(
            f"errors must be finite; got {errors[at]} at length {lengths[at[0]]:g}. Drop that fold or length."
        )
    order = np.argsort(lengths, kind="stable")
    lengths, errors = lengths[order], errors[order]
    ax = axes(ax)
    color = COLORS[sum(line.get_gid() == "curve" for line in ax.lines) % len(COLORS)]
    mean = errors if errors.ndim == 1 else errors.mean(axis=1)
    ax.plot(lengths, mean, color=color, marker="o", markersize=4, label=label, gid="curve")
    if errors.ndim == 2 and errors.shape[1] > 1:
        spread = errors.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
        ax.fill_between(lengths, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)
    for i, (name, value) in enumerate((baselines or {}).items()):
        ax.axhline(value, color="0.35", linewidth=1, linestyle=("--", ":", "-.")[i % 3], label=name)
    if lengths[-1] >= 20 * lengths[0]:
        ax.set_xscale("log")
    ax.set(xlabel="length", ylabel="error")
    ax.set_ylim(bottom=0, auto=True)  # a second curve may be higher
    if label is not None or baselines:
        ax.legend(frameon=False)
    return ax


def spectrum(K: Any, ax: Any = None) -> Any:
    """Plot the eigenvalues of a Gram matrix as fractions of the largest, with negative ones marked.

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.

    Returns
    -------
    matplotlib Axes
        Axes with a logarithmic scale, clipped at 1e-16.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> ax = mc.plot.spectrum(np.diag([4.0, 2.0, 1.0]))
    >>> ax.lines[0].get_ydata().tolist()
    [1.0, 0.5, 0.25]
    """
    values = np.linalg.eigvalsh(psd.square(K))[::-1]
    largest = float(np.abs(values).max())
    if largest == 0:
        raise ValueError("K must have a nonzero eigenvalue; all are 0, so there is nothing to plot.")
    size = np.maximum(np.abs(values) / largest, 1e-16)
    place, negative = np.arange(1, len(values) + 1), values < -1e-12 * largest
    ax = axes(ax)
    ax.plot(place[~negative], size[~negative], color=COLORS[0], marker="o", markersize=3, linewidth=1)
    if negative.any():
        ax.plot(
            place[negative], size[negative], color=COLORS[5], marker="x", markersize=4, linestyle="", label="negative"
        )
        ax.legend(frameon=False)
    ax.set(xlabel="eigenvalue", ylabel="fraction of the largest", yscale="log")
    return ax


def matches(matches: Any, ax: Any = None, *, cmap: str = "Blues") -> Any:
    """Plot the match probabilities of two sequences, and the alignment with the largest sum of them.

    Parameters
    ----------
    matches : Matches
        Result of ``model.matches(first, second)`` of a pair HMM.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    cmap : str, default="Blues"
        A matplotlib colormap for probabilities from 0 to 1.

    Returns
    -------
    matplotlib Axes
        Axes with the first sequence from top to bottom and the second from left to right. Ticks are symbols for
        sequences of at most 60, else positions, counted from 0. A line connects the matches of ``matches.pairs()``.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> model = mc.AffinePairHMM((2, -3), alphabet="dna").fit(["ACGTACGT"]).model_
    >>> ax = mc.plot.matches(model.matches("ACGTT", "ACGT"))
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['A', 'C', 'G', 'T']
    """
    if not hasattr(matches, "probability") or not hasattr(matches, "pairs"):
        raise TypeError(f"matches must be the result of model.matches(first, second) of a pair HMM; got {matches!r}.")
    if 0 in matches.probability.shape:
        raise ValueError("Both sequences must be nonempty; one is empty, so there is nothing to plot.")
    ax = axes(ax)
    image = ax.imshow(matches.probability, cmap=cmap, vmin=0.0, vmax=1.0, interpolation="nearest", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="probability of a match", fraction=0.046, pad=0.04)
    path = np.array([pair[:2] for pair in matches.pairs()], dtype=float).reshape(-1, 2)
    ax.plot(path[:, 1], path[:, 0], color=COLORS[5], linewidth=1, marker="o", markersize=3, alpha=0.8)
    for axis, symbols in ((ax.yaxis, matches.first), (ax.xaxis, matches.second)):
        if len(symbols) <= LETTERS:
            # A symbol such as "$" must not be parsed as math.
            axis.set_ticks(np.arange(len(symbols)), [str(symbol) for symbol in symbols], parse_math=False)
    ax.set(xlabel="second", ylabel="first", title=f"{matches.expected:.1f} matches expected")
    ax.set(xlim=(-0.5, len(matches.second) - 0.5), ylim=(len(matches.first) - 0.5, -0.5))
    ax.tick_params(length=0)
    return ax


def diagnosis(K: Any, y: Any = None, ax: Any = None) -> Any:
    """Plot a histogram of the normalized kernel between objects of the same and of different classes.

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix of at least two objects with a positive diagonal.
    y : array of shape (N,), default=None
        Classes.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.

    Returns
    -------
    matplotlib Axes
        Axes with a line at the median and one at 0.001, the threshold of diagonal dominance (KK-5). The scale is
        logarithmic if some values are below the threshold and none is negative.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> ax = mc.plot.diagnosis(
    ...     mc.RBF(gamma=0.1)(np.arange(6.0)[:, None]), [0, 0, 0, 1, 1, 1]
    ... )
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:2]
    ['same class', 'other class']
    """
    K = psd.square(K)
    diagonal = np.diag(K)
    if len(K) < 2 or (diagonal <= 0).any():
        raise ValueError(
            f"K must have at least two objects and a positive diagonal; got {len(K)} with smallest diagonal entry "
            f"{diagonal.min():.3g}."
        )
    i, j = np.triu_indices(len(K), 1)
    values = K[i, j] / np.sqrt(diagonal[i] * diagonal[j])
    groups = {"pairs": values}
    if y is not None:
        y = _labels(y, len(K))
        same = y[i] == y[j]
        groups = {"same class": values[same], "other class": values[~same]}
    ax = axes(ax)
    # A kernel can be 1e-50 everywhere, so use a logarithmic scale; zeros fall into the first bin.
    log = bool((values >= 0).all() and np.quantile(values, 0.05) < DOMINATED)

    def scaled(v: Any) -> Any:
        return np.log10(np.maximum(v, 1e-16)) if log else v

    low = -16.0 if log else -1.0 if (values < 0).any() else 0.0
    bins = np.linspace(low, 0.0 if log else 1.0, 41)
    for k, (name, part) in enumerate(groups.items()):
        ax.hist(np.clip(scaled(part), bins[0], bins[-1]), bins=bins, color=COLORS[k], alpha=0.65, label=name)
    ax.axvline(scaled(DOMINATED), color="0.2", linewidth=1, linestyle=":", label="threshold of dominance")
    ax.axvline(scaled(float(np.median(values))), color="0.2", linewidth=1, label="median")
    ax.set(xlabel="log10 of the normalized kernel" if log else "normalized kernel", ylabel="pairs")
    ax.set_ylim(0, 1.5 * ax.get_ylim()[1])  # room for the legend above the bars
    ax.legend(framealpha=0.9, edgecolor="none", loc="upper left")
    return ax


def _labels(y: Any, n: int) -> Floats:
    y = np.asarray(to_numpy(y))
    empty = [i for i, label in enumerate(y) if label is None] if y.dtype == object and y.shape == (n,) else []
    if empty:
        raise ValueError(
            f"Labels must not be None; got None for object {empty[0]}. Drop that object, or omit the labels."
        )
    if y.shape != (n,):
        raise ValueError(f"y must have shape ({n},), one label per object; got shape {y.shape}.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        i = int(np.flatnonzero(~np.isfinite(y))[0])
        raise ValueError(f"Labels must be finite; got {y[i]} for object {i}. Drop that object.")
    return y


def _scatter(ax: Any, z: Floats, y: Floats | None) -> None:
    """Draw points in one color, on a color scale, or with a color and a marker per class."""
    if y is None:
        ax.scatter(*z.T, s=18, color=COLORS[0], linewidths=0)
        return
    if y.dtype.kind == "f":
        points = ax.scatter(*z.T, s=18, c=y, cmap="cividis", linewidths=0)
        ax.figure.colorbar(points, ax=ax, label="y")
        return
    for k, name in enumerate(np.unique(y)):
        # Shift the markers when the colors repeat, so that color and marker identify the class.
        marker = MARKERS[(k + k // len(COLORS)) % len(MARKERS)]
        ax.scatter(*z[y == name].T, s=18, color=COLORS[k % len(COLORS)], marker=marker, linewidths=0, label=str(name))
    legend_above(ax)
