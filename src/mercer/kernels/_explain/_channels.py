"""How much worse a pipeline predicts without a channel of its series, and how well by this channel only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv, cross_val_score

from mercer._array import Floats
from mercer._parallel import progress_bar
from mercer.data.channels import inside, wrapped_like
from mercer.data.sequences import Sequences
from mercer.kernels._data import unwrapped


class ChannelImportance(NamedTuple):
    """Scores with all channels, without each of them, and with each only; made by `channel_importance`.

    Parameters
    ----------
    channels : tuple of str
        Names of the d channels.
    scores : array of shape (n_folds,)
        Scores on the test folds with all channels.
    without, alone : array of shape (d, n_folds)
        Scores without each channel, and with each channel only.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> full, low = np.array([0.9, 0.8]), np.array([0.1, 0.2])
    >>> without, alone = np.stack([low, full]), np.stack([full, low])
    >>> mc.kernels.ChannelImportance(("a", "b"), full, without, alone)
    ChannelImportance(score 0.850; lost without: a 0.700 (error 0.100), b 0.000 (error 0.000))
    """

    channels: tuple[str, ...]
    scores: Floats
    without: Floats
    alone: Floats

    @property
    def importance(self) -> Floats:
        """What the mean score loses without each channel, ``(d,)``."""
        return np.asarray((self.scores - self.without).mean(axis=1))

    @property
    def error(self) -> Floats:
        """Standard errors of `importance` over the folds, ``(d,)``; too small, since folds share training data.

        NaN if there is only one fold.
        """
        n = len(self.scores)
        lost = self.scores - self.without
        return np.asarray(lost.std(axis=1, ddof=1) / np.sqrt(n)) if n > 1 else np.full(len(lost), np.nan)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per channel: importance, its error, mean scores without and alone."""
        import pandas as pd

        means = {"without": self.without.mean(axis=1), "alone": self.alone.mean(axis=1)}
        return pd.DataFrame({"channel": self.channels, "importance": self.importance, "error": self.error, **means})

    def __repr__(self) -> str:
        rows = zip(self.channels, self.importance, self.error, strict=True)
        lost = ", ".join(f"{name} {mean:.3f} (error {error:.3f})" for name, mean, error in rows)
        return f"ChannelImportance(score {self.scores.mean():.3f}; lost without: {lost})"


def channel_importance(
    pipeline: Any, X: Any, y: Any, *, cv: Any = 5, scoring: Any = None, groups: Any = None
) -> ChannelImportance:
    """Return what the score of a pipeline loses without each channel of series, in cross-validation.

    The pipeline is fitted again without the channel. A channel of noise has an importance of about zero, and so has a
    copy of another channel; the score with the channel only tells these apart.

    Parameters
    ----------
    pipeline : estimator
        Any estimator of series; need not be fitted.
    X : data
        Series of two or more channels, in any form that `Sequences` accepts, or `Confounded`.
    y : array of shape (N,)
        Targets or classes.
    cv : int, splitter or iterable, default=5
        Folds, as in scikit-learn; the same for all channels.
    scoring : str or callable, default=None
        The score, as in scikit-learn; None is that of the pipeline.
    groups : array of shape (N,), default=None
        Groups of series, for a splitter that keeps them together.

    Returns
    -------
    ChannelImportance
        Of d channels, from ``2 d + 1`` fits per fold, or ``d + 1`` if there are two channels.

    See Also
    --------
    explain : The contributions of single time steps and channels to single decisions.
    mercer.plot.importance : Draws the scores.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> speed = rng.uniform(0.1, 0.5, size=30)
    >>> X = [np.c_[np.sin(s * np.arange(40)), rng.normal(size=40)] for s in speed]
    >>> X = mc.Sequences(X, channels=["wave", "noise"])
    >>> kernel = mc.Fisher(mc.Gaussian())
    >>> pipeline = make_pipeline(mc.Derivatives(), kernel, mc.KernelRidge())
    >>> found = mc.kernels.channel_importance(pipeline, X, speed, cv=3)
    >>> found.channels, found.importance.round(1)
    (('wave', 'noise'), array([0.9, 0. ]))
    """
    series = inside(unwrapped(X))
    series = series if isinstance(series, Sequences) else Sequences(series)
    d = 0 if series.is_symbols else series.dimension or 1
    if d < 2:
        raise ValueError(f"X must have two or more channels, of which one can be left out; got {series!r}.")
    splits = list(check_cv(cv, y, classifier=is_classifier(pipeline)).split(np.zeros(len(series)), y, groups))
    every = tuple(range(d))
    left, only = [tuple(k for k in every if k != c) for c in every], [(c,) for c in every]
    found = {}
    for kept in progress_bar(list(dict.fromkeys([every, *left, *only])), "sets of channels"):
        names = None if series.channels is None else [series.channels[c] for c in kept]
        part = wrapped_like(X, Sequences([x[:, kept] for x in series], ids=series.ids, channels=names))
        found[kept] = cross_val_score(pipeline, part, y, cv=splits, scoring=scoring, error_score="raise")
    channels = series.channels or tuple(f"x{c}" for c in every)
    without, alone = (np.stack([found[kept] for kept in sets]) for sets in (left, only))
    return ChannelImportance(channels, found[every], without, alone)
