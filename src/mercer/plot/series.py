"""Plots of one series under a model: its forecast, its hidden states, its regimes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from mercer._array import Floats, to_numpy
from mercer._checks import is_whole
from mercer._parameters import check, one_of
from mercer.data import Sequences
from mercer.plot.style import COLORS, MARKERS, axes, legend_above, texts

__all__ = ["forecast", "occupancy", "regimes", "states", "transitions"]


def forecast(model: Any, x: Any, steps: int = 10, ax: Any = None, *, level: float = 0.9, channels: Any = None) -> Any:
    """Plot a series, the values imputed where it has gaps, and its forecast, with intervals.

    Parameters
    ----------
    model : LDSs or SwitchingLDSs of shape (1,), or a fitted estimator of these
        The system of the series.
    x : array of shape (T,) or (T, d)
        One series; NaN marks missing values, which only LDSs impute.
    steps : int, default=10
        Number of observations to predict.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    level : float, default=0.9
        Probability that a missing or future value is in its interval, which is drawn as a band.
    channels : list of int, default=None
        Channels to draw; None draws all of them.

    Returns
    -------
    matplotlib Axes
        Axes with a line and a color per channel: observed values are solid, imputed and predicted ones dashed.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> x = np.cumsum(np.random.default_rng(0).normal(size=40))
    >>> x[12:16] = np.nan
    >>> ax = mc.plot.forecast(mc.LDS(1).fit([x]), x, steps=5)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['observed', 'imputed', 'forecast', '90% interval']
    """
    model, X = _one(model, x, "forecast", "LDSs or SwitchingLDSs of shape (1,), or a fitted LDS or SwitchingLDS")
    values = np.asarray(X[0], dtype=float)
    width, chosen = _width(level), _channels(channels, values.shape[1])
    means, covariances = model.forecast(X, steps)
    future, spread = means[0], width * np.sqrt(np.diagonal(covariances[0], axis1=1, axis2=2))
    filled, deviation = _imputed(model, X) if hasattr(model, "impute") else (values, np.zeros_like(values))
    missing, length = np.isnan(values) & np.isfinite(filled), len(values)
    ax = axes(ax)
    time, ahead = np.arange(length), np.arange(length, length + int(steps))
    for k, c in enumerate(chosen):
        color = COLORS[k % len(COLORS)]
        ax.plot(time, values[:, c], color=color, linewidth=1.2, marker=".", markersize=3, gid="observed")
        for rows in _stretches(missing[:, c]):
            # The dashed line starts and ends at the observations around the gap.
            around = np.arange(max(rows[0] - 1, 0), min(rows[-1] + 2, length))
            ax.plot(around, filled[around, c], color=color, linewidth=1.2, linestyle="--", gid="imputed")
            half = np.where(missing[around, c], width * deviation[around, c], 0.0)
            _band(ax, around, filled[around, c], half, color)
        start = np.arange(max(length - 1, 0), length)
        line = np.concatenate([filled[start, c], future[:, c]])
        half = np.concatenate([np.where(missing[start, c], width * deviation[start, c], 0.0), spread[:, c]])
        ax.plot(np.append(start, ahead), line, color=color, linewidth=1.2, linestyle="--", gid="forecast")
        _band(ax, np.append(start, ahead), line, half, color)
    if length:
        ax.axvline(length - 1, color="0.35", linewidth=1, linestyle=":")
    names = ["observed", *(["imputed"] if missing[:, chosen].any() else []), "forecast", f"{level:.0%} interval"]
    _legend(ax, names, chosen if values.shape[1] > 1 else [])
    ax.set(xlabel="time step", ylabel="value")
    return ax


def states(model: Any, x: Any, ax: Any = None, *, level: float = 0.9) -> Any:
    """Plot the hidden states of a series under a linear dynamical system, with intervals.

    Parameters
    ----------
    model : LDSs of shape (1,), or a fitted LDS
        The system of the series.
    x : array of shape (T,) or (T, d)
        One series; NaN marks missing values.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    level : float, default=0.9
        Probability that a coordinate of the state is in its interval, which is drawn as a band.

    Returns
    -------
    matplotlib Axes
        Axes with the mean of each coordinate given the whole series, and the bands.

    See Also
    --------
    regimes : The discrete states of a hidden Markov model.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> x = np.sin(np.arange(50) / 4) + 0.1 * np.random.default_rng(0).normal(size=50)
    >>> ax = mc.plot.states(mc.LDS(2).fit([x]), x)
    >>> [line.get_label() for line in ax.lines]
    ['state 0', 'state 1']
    """
    model, X = _one(
        model, x, "state_posteriors", "LDSs of shape (1,) or a fitted LDS; for a hidden Markov model use regimes"
    )
    width = _width(level)
    means, covariances = model.posterior(X).of(0)
    deviation = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    ax, time = axes(ax), np.arange(len(means))
    for k in range(means.shape[1]):
        color = COLORS[k % len(COLORS)]
        ax.plot(time, means[:, k], color=color, linewidth=1.2, label=f"state {k}")
        _band(ax, time, means[:, k], width * deviation[:, k], color)
    ax.set(xlabel="time step", ylabel="state")
    legend_above(ax)
    return ax


def regimes(model: Any, x: Any, ax: Any = None, *, names: Any = None) -> Any:
    """Plot a series over the probabilities of its regimes, or of its hidden Markov states, at each time step.

    Parameters
    ----------
    model : HMMs or SwitchingLDSs of shape (1,), a fitted estimator, or array of shape (T, K)
        The model of the series, or the probabilities themselves.
    x : array of shape (T,) or (T, d), or a sequence of symbols
        One series. The values of vectors are drawn as lines; symbols are not drawn.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    names : list of K str, default=None
        Names of the regimes; None numbers them.

    Returns
    -------
    matplotlib Axes
        Axes whose background is divided, at each time step, in proportion to the probabilities.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> x = np.where(np.arange(60) < 30, 0.0, 3.0) + rng.normal(size=60)
    >>> ax = mc.plot.regimes(mc.HMM(2).fit([x]), x)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['state 0', 'state 1']
    """
    probability, X, kind = _probabilities(model, x)
    length, count = probability.shape
    names = texts([f"{kind} {k}" for k in range(count)] if names is None else names, count, "names", "regimes")
    ax = axes(ax)
    edges = np.repeat(np.arange(length + 1) - 0.5, 2)[1:-1]  # every time step is as wide as any other
    above = np.repeat(np.cumsum(probability, axis=1), 2, axis=0)
    below = np.concatenate([np.zeros((len(above), 1)), above[:, :-1]], axis=1)
    fraction = ax.get_xaxis_transform()  # heights are fractions of the axes, under any series
    for k, name in enumerate(names):
        ax.fill_between(
            edges, below[:, k], above[:, k], color=COLORS[k % len(COLORS)], alpha=0.35, linewidth=0, label=name,
            transform=fraction, zorder=0,
        )  # fmt: skip
    if not X.is_symbols:
        values = np.asarray(X[0], dtype=float)
        for c, line in enumerate(values.T):
            ax.plot(np.arange(length), line, color=str(0.1 + 0.5 * c / values.shape[1]), linewidth=1.0)
        ax.set_ylabel("value")
    else:
        ax.set_ylabel("probability")
    ax.set(xlabel="time step", xlim=(-0.5, length - 0.5))
    legend_above(ax)
    return ax


def occupancy(model: Any, X: Any, y: Any = None, ax: Any = None, *, what: str = "occupancy", names: Any = None) -> Any:
    """Plot how sequences spend their time among the states of a model: a point per sequence and state, and the means.

    Parameters
    ----------
    model : HMM or SwitchingLDS
        A fitted estimator.
    X : list of sequences
        As for its ``occupancy``.
    y : array of shape (N,), default=None
        Classes of the sequences, which are drawn side by side.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    what : {"occupancy", "visits", "dwell"}, default="occupancy"
        The column: share of the time, number of visits, or their mean length.
    names : list of str, default=None
        Names of the states; None numbers them.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import mercer as mc
    >>> strings = ["aaabbbbb", "aabbbbaa", "abababab"]
    >>> ax = mc.plot.occupancy(mc.HMM(2).fit(strings), strings, ["slow", "slow", "fast"])
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_legend().get_texts()]
    ('state', ['fast', 'slow'])
    """
    if not hasattr(model, "occupancy"):
        raise TypeError(f"model must be an HMM or a SwitchingLDS that was fitted; got {type(model).__name__}.")
    check(one_of("occupancy", "visits", "dwell"), what=what)
    found = model.occupancy(X)
    n = int(np.max(found["state"])) + 1
    values = np.asarray(found[what], dtype=float).reshape(-1, n)
    labels = np.zeros(len(values)) if y is None else np.asarray(y)
    if labels.shape != (len(values),):
        raise ValueError(f"y must have one class for each of the {len(values)} sequences; got shape {labels.shape}.")
    names = texts(range(n) if names is None else names, n, "names", "states")
    ax, classes = axes(ax), np.unique(labels)
    width = 0.8 / len(classes)
    for j, label in enumerate(classes):
        rows = values[labels == label]
        middle = np.arange(n) + (j - (len(classes) - 1) / 2) * width
        place = middle + np.linspace(-0.25, 0.25, len(rows))[:, None] * width if len(rows) > 1 else middle[None]
        style = {"marker": MARKERS[j % len(MARKERS)], "color": COLORS[j % len(COLORS)], "label": str(label)}
        ax.scatter(place, rows, s=12, alpha=0.6, linewidths=0, **style)
        seen = np.isfinite(rows)
        mean = np.where(seen, rows, 0.0).sum(axis=0) / np.where(seen.any(axis=0), seen.sum(axis=0), np.nan)
        ax.hlines(mean, middle - 0.4 * width, middle + 0.4 * width, color=style["color"])
    ylabel = {"occupancy": "share of the steps", "visits": "number of visits", "dwell": "mean length of a visit"}
    ax.set(xlabel="state", ylabel=ylabel[what])
    ax.set_xticks(np.arange(n), names)
    if y is not None:
        legend_above(ax)
    return ax


def transitions(model: Any, ax: Any = None, *, names: Any = None) -> Any:
    """Plot the transition probabilities of a hidden Markov model or a Markov chain of order 1, with their numbers.

    Parameters
    ----------
    model : HMMs, SwitchingLDSs or MarkovChains of shape (1,), or a fitted estimator
        The model.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates a new figure.
    names : list of str, default=None
        Names of the states; by default their numbers, or the symbols of a Markov chain.

    Returns
    -------
    matplotlib Axes
        Row i, column j is the probability of going from state i to state j.

    Examples
    --------
    >>> import mercer as mc
    >>> ax = mc.plot.transitions(mc.HMM(2).fit(["aabb", "abab"]))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('to state', 'from state')
    """
    found = getattr(model, "model_", model)
    table: Floats = to_numpy(found.transition) if hasattr(found, "transition") else np.empty(0)
    if table.ndim != 3 or table.shape[1] != table.shape[2] or hasattr(found, "process_covariance"):
        raise TypeError(
            f"model must be HMMs, SwitchingLDSs or MarkovChains of order 1; got {type(model).__name__}. Fit it first."
        )
    _check_one(found)
    n = table.shape[1]
    if names is None:
        alphabet = None if hasattr(found, "emission") else getattr(found, "alphabet", None)
        names = range(n) if alphabet is None else alphabet.symbols
    names = texts(names, n, "names", "states")
    ax = axes(ax)
    ax.imshow(table[0], cmap="Blues", vmin=0.0, vmax=1.0)
    if n <= 12:
        for i, j in np.ndindex(n, n):
            color = "white" if table[0, i, j] > 0.6 else "0.15"
            ax.text(j, i, f"{table[0, i, j]:.2f}", ha="center", va="center", color=color, fontsize="small")
    ax.set(xlabel="to state", ylabel="from state")
    ax.set_xticks(np.arange(n), names)
    ax.set_yticks(np.arange(n), names)
    return ax


def _one(model: Any, x: Any, method: str, kinds: str) -> tuple[Any, Sequences]:
    """Return one model with the given method, and one series that it reads."""
    found = getattr(model, "model_", model)
    if not hasattr(found, method) or not hasattr(found, "read"):
        raise TypeError(f"model must be {kinds}; got {type(model).__name__}.")
    _check_one(found)
    return found, _series(x, found.read)


def _check_one(model: Any) -> None:
    if model.shape != (1,):
        raise ValueError(f"model must be one model, a batch of shape (1,); got shape {model.shape}. Use models[3:4].")


def _series(x: Any, read: Any) -> Sequences:
    """Read one series."""
    X = read(x if isinstance(x, Sequences) else [x])
    if len(X) != 1:
        raise ValueError(f"x must be one series; got {len(X)}. Pass one of them, such as X[3].")
    return X


def _probabilities(model: Any, x: Any) -> tuple[Floats, Sequences, str]:
    """Return the probability of each regime at each time step, the series, and what a regime is called."""
    if not hasattr(getattr(model, "model_", model), "read") and np.ndim(model) == 2:
        probability, X = np.asarray(to_numpy(model), dtype=float), _series(x, Sequences)
        if len(probability) != len(X[0]):
            raise ValueError(
                f"The probabilities must have one row per time step, {len(X[0])}; got {len(probability)} rows."
            )
        wrong = np.flatnonzero(~((probability >= 0).all(axis=1) & (np.abs(probability.sum(axis=1) - 1) < 1e-6)))
        if len(wrong):
            raise ValueError(
                f"Each row of probabilities must be nonnegative and sum to 1; row {wrong[0]} is "
                f"{probability[wrong[0]].tolist()}."
            )
        return probability, X, "regime"
    kinds = "HMMs or SwitchingLDSs of shape (1,), a fitted estimator, or probabilities of shape (T, K)"
    found = getattr(model, "model_", model)
    if hasattr(found, "regime_probabilities"):
        found, X = _one(model, x, "regime_probabilities", kinds)
        return np.asarray(found.regime_probabilities(X)[0]), X, "regime"
    if hasattr(found, "state_posteriors"):
        raise TypeError(f"model must be {kinds}; got {type(model).__name__}, whose states are vectors: use states.")
    found, X = _one(model, x, "viterbi", kinds)
    return np.asarray(found.posterior(X)[0]), X, "state"


def _imputed(model: Any, X: Sequences) -> tuple[Floats, Floats]:
    """Return the series without gaps, and the standard deviation of each missing value given the whole series."""
    values, filled = np.asarray(X[0], dtype=float), np.asarray(model.impute(X)[0], dtype=float)
    _, covariances = model.posterior(X).of(0)
    emission, noise, deviation = model.emission[0], model.observation_covariance[0], np.zeros_like(values)
    for t in np.flatnonzero(np.isnan(values).any(axis=1)):
        lost = np.isnan(values[t])
        # The noise of the observed channels predicts a part of the noise of the missing ones.
        gain = np.linalg.solve(noise[np.ix_(~lost, ~lost)], noise[np.ix_(~lost, lost)]).T
        loading = emission[lost] - gain @ emission[~lost]
        rest = noise[np.ix_(lost, lost)] - gain @ noise[np.ix_(~lost, lost)]
        deviation[t, lost] = np.sqrt(np.diag(loading @ covariances[t] @ loading.T + rest))
    return filled, deviation


def _stretches(missing: Floats) -> list[Floats]:
    """Return the indices of each run of missing values."""
    rows = np.flatnonzero(missing)
    return [run for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(run)]


def _band(ax: Any, time: Floats, mean: Floats, half: Floats, color: str) -> None:
    ax.fill_between(time, mean - half, mean + half, color=color, alpha=0.2, linewidth=0)


def _legend(ax: Any, names: list[str], channels: list[int]) -> None:
    """Add a legend of what the lines mean, and of the channels if there are several."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown: list[Any] = []
    for name in names:
        if name.endswith("interval"):
            shown.append(Patch(color="0.35", alpha=0.3, linewidth=0, label=name))
        else:
            shown.append(Line2D([], [], color="0.35", linestyle="-" if name == "observed" else "--", label=name))
    for k, c in enumerate(channels):
        shown.append(Line2D([], [], color=COLORS[k % len(COLORS)], label=f"channel {c}"))
    legend_above(ax, handles=shown)


def _width(level: float) -> float:
    """Return half the width of an interval of a standard normal variable."""
    if not 0 < level < 1:
        raise ValueError(f"level must be a probability between 0 and 1; got {level!r}.")
    return float(ndtri(0.5 + level / 2))


def _channels(channels: Any, dimension: int) -> list[int]:
    chosen = list(range(dimension)) if channels is None else list(np.atleast_1d(np.asarray(channels, dtype=object)))
    for c in chosen:
        if not is_whole(c, 0) or c >= dimension:
            raise ValueError(f"channels must be whole numbers from 0 to {dimension - 1}; got {c!r}.")
    if not chosen:
        raise ValueError("channels must name at least one channel; the list is empty.")
    return [int(c) for c in chosen]
