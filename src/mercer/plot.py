"""Pictures of Gram matrices and of what they are good for. Needs matplotlib, which the extra ``cli`` installs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._array import to_numpy
from mercer.gram import psd
from mercer.gram._diagnose import DOMINATED

__all__ = ["diagnosis", "error_over_length", "gram", "kernel_pca", "matches", "spectrum"]

Floats = np.ndarray[Any, Any]

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C", "#000000")
"""Okabe and Ito's colours, which people with any colour vision tell apart."""
MARKERS = "os^DvPX*"
"""A marker beside every colour, for grey printers and more than eight classes."""
LETTERS = 60
"""Symbols of a sequence up to which each is written on its axis."""


def gram(K: Any, y: Any = None, ax: Any = None, *, log: bool = False, cmap: str = "viridis") -> Any:
    """Draw a Gram matrix, its objects sorted by class, with a line and a label at every class.

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix.
    y : array of shape (N,), default=None
        Classes; without them objects keep their order.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.
    log : bool, default=False
        Whether colours follow log10 of the values, which then must not be negative; zeros stay blank.
    cmap : str, default="viridis"
        A colour map of matplotlib; "cividis" is another one that everybody can read.

    Returns
    -------
    matplotlib Axes
        With the image, and a colour bar beside it.

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
            raise ValueError(f"the Gram matrix holds {K.min():.3g}, which has no logarithm: draw it with log=False")
        if not (K > 0).any():
            raise ValueError("all values of the Gram matrix are 0, and have no logarithm: draw it with log=False")
    labelled = y is not None
    y = _labels(y, len(K)) if labelled else np.zeros(len(K), dtype=int)
    order = np.argsort(y, kind="stable")
    K = K[np.ix_(order, order)]
    ax = _axes(ax)
    values = np.ma.masked_invalid(np.log10(np.where(K > 0, K, np.nan))) if log else K
    image = ax.imshow(values, cmap=cmap, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="log10 k" if log else "k", fraction=0.046, pad=0.04)
    if labelled:
        _mark_classes(ax, y)
    return ax


def _mark_classes(ax: Any, y: Floats) -> None:
    """Draw a line between classes, and their names in the middle."""
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
    """Draw objects in the plane of the first two kernel principal components, coloured by class.

    Parameters
    ----------
    K : array of shape (N, N), or Kernel
        A Gram matrix, or a kernel, a copy of which is fitted to ``X``.
    X : data, default=None
        What a kernel compares; beside a matrix ``y`` may stand here: ``kernel_pca(K, y)``.
    y : array of shape (N,), default=None
        Classes, or floats, which are drawn on a colour scale.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
        With the share of the variance in feature space that each component explains.

    Notes
    -----
    Coordinates are eigenvectors of the centred matrix (KK-3 with a constant) times the roots of their eigenvalues, with
    the sign that makes the largest entry positive.

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
            raise ValueError("a kernel needs data to be drawn: give kernel_pca(kernel, X), or a Gram matrix")
        K = clone(K).fit_transform(X)
    elif X is not None:
        if y is not None or np.ndim(X) > 1:
            raise ValueError("a Gram matrix needs no data: give kernel_pca(K, labels), or a kernel and its data")
        y = X
    K = psd.square(K)
    if len(K) < 3:
        raise ValueError(f"{len(K)} objects do not fill a plane: give at least 3")
    rows = K.mean(axis=0)
    values, vectors = np.linalg.eigh(K - rows - rows[:, None] + rows.mean())
    values, vectors = values[::-1][:2], vectors[:, ::-1][:, :2]
    total = float(np.trace(K) - rows.sum())
    if total <= 1e-12 * float(np.abs(np.diag(K)).max()):
        raise ValueError("all objects look the same to this kernel, and have no principal components")
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])
    z = vectors * np.sqrt(np.maximum(values, 0.0))
    labels = None if y is None else _labels(y, len(K))
    ax = _axes(ax)
    _scatter(ax, z, labels)
    ax.set_xlabel(f"component 1 ({values[0] / total:.0%})")
    ax.set_ylabel(f"component 2 ({max(values[1], 0.0) / total:.0%})")
    return ax


def error_over_length(
    lengths: Any, errors: Any, ax: Any = None, *, baselines: Mapping[str, float] | None = None, label: str | None = None
) -> Any:
    """Draw error over the length of a kernel: the mean over folds with a band of one standard error.

    Parameters
    ----------
    lengths : array of shape (L,)
        Lengths, positive.
    errors : array of shape (L,) or (L, folds)
        Errors of every length, or of every length and fold.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure. Call again with the same one for a second curve.
    baselines : dict from name to error, default=None
        Horizontal lines, such as chance, or a classifier that knows the lengths alone.
    label : str, default=None
        Name of the curve.

    Returns
    -------
    matplotlib Axes
        With a logarithmic axis where the lengths span a factor of 20 or more.

    Examples
    --------
    >>> import mercer as mc
    >>> ax = mc.plot.error_over_length([1, 10, 100], [[0.4, 0.5], [0.1, 0.2], [0.3, 0.3]], baselines={"chance": 0.5})
    >>> ax.get_xscale(), ax.lines[0].get_ydata().round(2).tolist()
    ('log', [0.45, 0.15, 0.3])
    """
    lengths, errors = np.asarray(lengths, dtype=float), np.asarray(errors, dtype=float)
    if lengths.ndim != 1 or len(lengths) == 0 or errors.ndim not in (1, 2) or len(errors) != len(lengths):
        raise ValueError(
            f"lengths of shape {lengths.shape} and errors of {errors.shape}: give a row of errors a length"
        )
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError(f"length {lengths[~(np.isfinite(lengths) & (lengths > 0))][0]:g}: give positive lengths")
    if not np.isfinite(errors).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(errors))[0])
        raise ValueError(f"the error at length {lengths[at[0]]:g} is {errors[at]}: leave that fold or length out")
    order = np.argsort(lengths, kind="stable")
    lengths, errors = lengths[order], errors[order]
    ax = _axes(ax)
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
    """Draw the eigenvalues of a Gram matrix as fractions of the largest; negative ones apart.

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
        With a logarithmic axis; what is below 1e-16 of the largest lies on its floor.

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
        raise ValueError("all eigenvalues of the matrix are 0: there is nothing to draw")
    size = np.maximum(np.abs(values) / largest, 1e-16)
    place, negative = np.arange(1, len(values) + 1), values < -1e-12 * largest
    ax = _axes(ax)
    ax.plot(place[~negative], size[~negative], color=COLORS[0], marker="o", markersize=3, linewidth=1)
    if negative.any():
        ax.plot(
            place[negative], size[negative], color=COLORS[5], marker="x", markersize=4, linestyle="", label="negative"
        )
        ax.legend(frameon=False)
    ax.set(xlabel="eigenvalue", ylabel="fraction of the largest", yscale="log")
    return ax


def matches(matches: Any, ax: Any = None, *, cmap: str = "Blues") -> Any:
    """Draw the probabilities that symbols of two sequences were matched, and the alignment of their largest sum.

    Parameters
    ----------
    matches : Matches
        What ``model.matches(first, second)`` of a pair HMM returns.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.
    cmap : str, default="Blues"
        A colour map of matplotlib, for probabilities from 0 to 1.

    Returns
    -------
    matplotlib Axes
        The first sequence from top to bottom, the second from left to right. Symbols stand at an axis of 60 at most,
        else every tick is a position, counted from 0. A line joins the matches of ``matches.pairs()``.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> model = mc.AffinePairHMM((2, -3), alphabet="dna").fit(["ACGTACGT"]).model_
    >>> ax = mc.plot.matches(model.matches("ACGTT", "ACGT"))
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['A', 'C', 'G', 'T']
    """
    if not hasattr(matches, "probability") or not hasattr(matches, "pairs"):
        raise TypeError(
            f"matches = {matches!r}: give what model.matches(first, second) of a pair hidden Markov model returns"
        )
    if 0 in matches.probability.shape:
        raise ValueError("one of the sequences is empty, and has no matches: there is nothing to draw")
    ax = _axes(ax)
    image = ax.imshow(matches.probability, cmap=cmap, vmin=0.0, vmax=1.0, interpolation="nearest", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="probability of a match", fraction=0.046, pad=0.04)
    path = np.array([pair[:2] for pair in matches.pairs()], dtype=float).reshape(-1, 2)
    ax.plot(path[:, 1], path[:, 0], color=COLORS[5], linewidth=1, marker="o", markersize=3, alpha=0.8)
    for axis, symbols in ((ax.yaxis, matches.first), (ax.xaxis, matches.second)):
        if len(symbols) <= LETTERS:
            # A symbol is no formula, whatever signs it has.
            axis.set_ticks(np.arange(len(symbols)), [str(symbol) for symbol in symbols], parse_math=False)
    ax.set(xlabel="second", ylabel="first", title=f"{matches.expected:.1f} matches expected")
    ax.set(xlim=(-0.5, len(matches.second) - 0.5), ylim=(len(matches.first) - 0.5, -0.5))
    ax.tick_params(length=0)
    return ax


def diagnosis(K: Any, y: Any = None, ax: Any = None) -> Any:
    """Draw a histogram of the normalised kernel between different objects, of the same and of other classes.

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix of at least two objects with positive self-kernels.
    y : array of shape (N,), default=None
        Classes.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
        With a line at the median, and one at 0.001: a median below it is diagonal dominance (KK-5). Logarithms where
        some values are below it and none is negative.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> ax = mc.plot.diagnosis(mc.RBF(gamma=0.1)(np.arange(6.0)[:, None]), [0, 0, 0, 1, 1, 1])
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:2]
    ['same class', 'other class']
    """
    K = psd.square(K)
    diagonal = np.diag(K)
    if len(K) < 2 or (diagonal <= 0).any():
        raise ValueError(
            f"smallest self-kernel {diagonal.min():.3g} of {len(K)} objects: give two or more, all positive"
        )
    i, j = np.triu_indices(len(K), 1)
    values = K[i, j] / np.sqrt(diagonal[i] * diagonal[j])
    groups = {"pairs": values}
    if y is not None:
        y = _labels(y, len(K))
        same = y[i] == y[j]
        groups = {"same class": values[same], "other class": values[~same]}
    ax = _axes(ax)
    # A kernel can be 1e-50 everywhere: logarithms show where, and what is 0 lies in the first bin.
    log = bool((values >= 0).all() and np.quantile(values, 0.05) < DOMINATED)

    def scaled(v: Any) -> Any:
        return np.log10(np.maximum(v, 1e-16)) if log else v

    low = -16.0 if log else -1.0 if (values < 0).any() else 0.0
    bins = np.linspace(low, 0.0 if log else 1.0, 41)
    for k, (name, part) in enumerate(groups.items()):
        ax.hist(np.clip(scaled(part), bins[0], bins[-1]), bins=bins, color=COLORS[k], alpha=0.65, label=name)
    ax.axvline(scaled(DOMINATED), color="0.2", linewidth=1, linestyle=":", label="threshold of dominance")
    ax.axvline(scaled(float(np.median(values))), color="0.2", linewidth=1, label="median")
    ax.set(xlabel="log10 of the normalised kernel" if log else "normalised kernel", ylabel="pairs")
    ax.legend(frameon=False)
    return ax


def _axes(ax: Any) -> Any:
    """Return the axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("mercer.plot needs matplotlib: pip install 'mercer[cli]'") from error
    return plt.subplots(layout="constrained")[1]


def _labels(y: Any, n: int) -> Floats:
    y = np.asarray(to_numpy(y))
    empty = [i for i, label in enumerate(y) if label is None] if y.dtype == object and y.shape == (n,) else []
    if empty:
        raise ValueError(f"label {empty[0]} is None: leave that object out, or give no labels at all")
    if y.shape != (n,):
        raise ValueError(f"labels of shape {y.shape} for a Gram matrix of {n} objects: give one for every object")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"label {int(np.flatnonzero(~np.isfinite(y))[0])} is not finite: leave that object out")
    return y


def _scatter(ax: Any, z: Floats, y: Floats | None) -> None:
    """Draw points: of one colour, on a colour scale, or a colour and a marker for every class."""
    if y is None:
        ax.scatter(*z.T, s=18, color=COLORS[0], linewidths=0)
        return
    if y.dtype.kind == "f":
        points = ax.scatter(*z.T, s=18, c=y, cmap="cividis", linewidths=0)
        ax.figure.colorbar(points, ax=ax, label="y")
        return
    for k, name in enumerate(np.unique(y)):
        # A class's marker changes when the colours begin again.
        marker = MARKERS[(k + k // len(COLORS)) % len(MARKERS)]
        ax.scatter(*z[y == name].T, s=18, color=COLORS[k % len(COLORS)], marker=marker, linewidths=0, label=str(name))
    ax.legend(frameon=False)
