"""Rank, regularization and window of an embedded hidden Markov model by held-out one-step error."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.model_selection import BaseCrossValidator, KFold, TimeSeriesSplit
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices
from mercer._checks import is_number, is_whole
from mercer._notices import collected
from mercer._parameters import NONE, CheckedParameters, Rule, Rules, instance_of, whole
from mercer._renamed import STEPS, no_keyword
from mercer.data import Sequences
from mercer.embedding._filter import Beliefs
from mercer.embedding._steps import ObjectSequences
from mercer.embedding.estimator import EmbeddedHMM


def _listed(good: Any) -> Any:
    """Whether a value is a list of at least one good value."""
    return lambda value: isinstance(value, list | tuple | np.ndarray) and len(value) > 0 and all(map(good, value))


_NUMBERS = Rule(
    "a list of whole numbers, 1 or more", _listed(lambda v: is_whole(v, 1)), "Use [5, 10, 20], for example."
)
_SPLITTER = Rule(
    "a splitter of scikit-learn",
    lambda v: isinstance(v, BaseCrossValidator) or (hasattr(v, "split") and not isinstance(v, str | bytes)),
)


class EmbeddedHMMCV(CheckedParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """`EmbeddedHMM` with rank, regularization and window chosen by held-out one-step error.

    It accepts many series, whose folds are whole series, and one long series, whose folds are later parts of it.

    Parameters
    ----------
    model : EmbeddedHMM or None, default=None
        The model; its other parameters are kept. None is ``EmbeddedHMM()``.
    n_components : list of int, default=(5, 10, 20, 50)
        Dimensions of the state to try.
    alpha : list of float, default=(1e-5, 1e-4, 1e-3, 1e-2)
        Regularizations to try.
    window : list of int or None, default=None
        Windows to try; None is that of ``model``.
    cv : int or splitter, default=5
        Number of folds, or a splitter of scikit-learn. With at least as many sequences as folds, a fold is a part of
        the sequences. One long series is split by ``TimeSeriesSplit``: each fold is predicted by a model of the steps
        before it. Fewer sequences than folds are cut into consecutive parts (``KFold`` of their steps). A splitter
        splits the sequences if there are several, and the steps if there is one.

    Attributes
    ----------
    best_estimator_ : EmbeddedHMM
        The chosen model, fitted to all sequences.
    best_params_ : dict
        Its ``n_components``, ``alpha`` and ``window``.
    best_score_ : float
        Its mean score over the folds.
    cv_results_ : dict
        Parameters and scores of all candidates, as in ``GridSearchCV``.
    n_splits_ : int
        Number of folds.

    See Also
    --------
    EmbeddedHMM.score : The score: the explained fraction of the variance one step ahead, or the estimated log
        probability per step of symbols and objects.

    Notes
    -----
    Features are computed once for every window and fold; only the solution is repeated for each rank and
    regularization. A candidate that cannot be fitted has the score NaN. Every held-out part is filtered from the first
    belief. `EmbeddedHMM` works in ``GridSearchCV`` too, which tries all parameters but splits only sequences.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> angle = np.cumsum(0.3 + 0.05 * rng.normal(size=600))
    >>> x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> x += 0.1 * rng.normal(size=(600, 2))
    >>> search = mc.embedding.EmbeddedHMMCV(
    ...     mc.EmbeddedHMM(landmarks=50), n_components=[1, 5], alpha=[1e-4, 1e-2], cv=3
    ... )
    >>> search.fit([x]).best_params_["n_components"]
    5
    >>> search.predict([x[:50]])[0].shape
    (50, 2)
    """

    _parameters: ClassVar[Rules] = {
        "model": instance_of(EmbeddedHMM, type(None), what="an EmbeddedHMM or None"),
        "n_components": _NUMBERS,
        "alpha": Rule("a list of positive numbers", _listed(lambda v: is_number(v) and v > 0), "Use [1e-4, 1e-2]."),
        "window": _NUMBERS | NONE,
        "cv": whole(2, cure="It is a number of folds.") | _SPLITTER,
    }

    def __init__(
        self,
        model: Any = None,
        n_components: Any = (5, 10, 20, 50),
        alpha: Any = (1e-5, 1e-4, 1e-3, 1e-2),
        window: Any = None,
        cv: Any = 5,
    ) -> None:
        self.model = model
        self.n_components = n_components
        self.alpha = alpha
        self.window = window
        self.cv = cv

    def fit(self, X: Any, y: Any = None) -> Self:
        """Score all candidates on held-out data, and fit the best one to all sequences.

        Parameters
        ----------
        X : list of sequences
            As in `EmbeddedHMM.fit`.
        y : None
            Ignored.
        """
        self._check_parameters()
        model = EmbeddedHMM() if self.model is None else clone(self.model)
        data = model.accept(X, reset=True)
        folds = [(_cut(data, train), _cut(data, test)) for train, test in self._folds(data)]
        windows = [model.window] if self.window is None else list(self.window)
        grid = [(int(w), int(n), float(a)) for w, n, a in product(windows, self.n_components, self.alpha)]
        each = len(grid) // len(windows)
        scores = np.full((len(folds), len(grid)), np.nan)
        errors: list[str] = []
        for k, (train, test) in enumerate(folds):
            for begin in range(0, len(grid), each):
                some = grid[begin : begin + each]
                scores[k, begin : begin + each] = _scores(model, train, test, some, errors)
        means = scores.mean(axis=0)
        if np.isnan(means).all():
            raise ValueError(f"No candidate could be fitted and scored in every fold; the last error: {errors[-1]}")
        best = int(np.nanargmax(means))
        self.n_splits_, self.best_score_ = len(folds), float(means[best])
        names = ("window", "n_components", "alpha")
        params = [dict(zip(names, one, strict=True)) for one in grid]
        order = np.argsort(np.where(np.isnan(means), -np.inf, means)[::-1], kind="stable")[::-1]
        ranks = np.empty(len(grid), dtype=np.int64)
        ranks[len(grid) - 1 - order] = np.arange(1, len(grid) + 1)
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": np.array([one[name] for one in params]) for name in names},
            **{f"split{k}_test_score": row for k, row in enumerate(scores)},
            "mean_test_score": means,
            "std_test_score": scores.std(axis=0),
            "rank_test_score": ranks,
        }
        self.best_params_ = params[best]
        self.best_estimator_ = model.set_params(**self.best_params_).fit(data)
        return self

    def _folds(self, data: Any) -> Iterator[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]]:
        """Return the training and test parts of each fold: a sequence, its first step, and the step after the last."""
        lengths = np.array([len(data[i]) for i in range(len(data))])
        number = isinstance(self.cv, int | np.integer)
        if len(lengths) >= (self.cv if number else 2):
            splitter = KFold(int(self.cv)) if number else self.cv
            for sides in splitter.split(np.zeros((len(lengths), 1))):
                train, test = ([(int(i), 0, int(lengths[i])) for i in side] for side in sides)
                yield train, test
            return
        total = int(lengths.sum())
        if number:
            if total <= self.cv:
                raise ValueError(
                    f"{total} steps are too few for {self.cv} folds. Use longer sequences or a smaller cv."
                )
            splitter = TimeSeriesSplit(int(self.cv)) if len(lengths) == 1 else KFold(int(self.cv))
        else:
            splitter = self.cv
        owner, at = np.repeat(np.arange(len(lengths)), lengths), np.concatenate([np.arange(n) for n in lengths])
        for sides in splitter.split(np.zeros((total, 1))):
            train, test = (_runs(owner, at, np.sort(side)) for side in sides)
            yield train, test

    # -- the chosen model ----------------------------------------------------------------------------------

    def _best(self) -> EmbeddedHMM:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def filter(self, X: Any) -> Beliefs:
        """Return the belief after every step; see `EmbeddedHMM.filter`."""
        return self._best().filter(X)

    def update(self, observation: Any, belief: Any = None, gap: int = 0) -> Floats:
        """Return the belief after one more observation; see `EmbeddedHMM.update`."""
        return self._best().update(observation, belief, gap)

    def predict(self, X: Any, steps: int = 1, quantiles: Any = None, best: bool = False) -> list[Any]:
        """Predict the observation ``steps`` after each step; see `EmbeddedHMM.predict`."""
        return self._best().predict(X, steps, quantiles, best)

    @no_keyword(horizon=STEPS, n_steps=STEPS)
    def forecast(self, X: Any, steps: int = 1, quantiles: Any = None) -> Any:
        """Predict the observations after the end of each sequence; see `EmbeddedHMM.forecast`."""
        return self._best().forecast(X, steps, quantiles)

    @property
    def _n_features_out(self) -> int:
        return self._best().n_components_

    def transform(self, X: Any) -> Floats:
        """Return the belief after the last step of each sequence; see `EmbeddedHMM.transform`."""
        return self._best().transform(X)

    def log_prob(self, X: Any) -> Floats:
        """Estimate the log probability of each sequence; see `EmbeddedHMM.log_prob`."""
        return self._best().log_prob(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Score one-step predictions; see `EmbeddedHMM.score`."""
        return self._best().score(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self._check_parameter("model")
        own = (EmbeddedHMM() if self.model is None else self.model).__sklearn_tags__()
        tags.input_tags, tags.transformer_tags = own.input_tags, own.transformer_tags
        return tags


def _runs(owner: Indices, at: Indices, index: Indices) -> list[tuple[int, int, int]]:
    """Cut increasing indices of steps into parts that follow one another in one sequence."""
    breaks = np.flatnonzero((np.diff(index) > 1) | (np.diff(owner[index]) > 0)) + 1
    return [(int(owner[part[0]]), int(at[part[0]]), int(at[part[-1]]) + 1) for part in np.split(index, breaks)]


def _cut(data: Any, parts: list[tuple[int, int, int]]) -> Any:
    """Return parts of accepted sequences as sequences."""
    if isinstance(data, ObjectSequences):
        return ObjectSequences([data.items[i][a:b] for i, a, b in parts])
    cut = [data.values[data.offsets[i] + a : data.offsets[i] + b] for i, a, b in parts]
    return Sequences.from_codes(cut, data.alphabet) if data.is_symbols else Sequences(cut)


def _scores(
    model: EmbeddedHMM, train: Any, test: Any, candidates: list[tuple[int, int, float]], errors: list[str]
) -> list[float]:
    """Score candidates with one window on one fold; NaN where one cannot be fitted, and its error."""
    found = []
    with collected():  # warnings of ranks that are reduced, and of series too short for a window
        one = clone(model).set_params(window=candidates[0][0])
        try:
            one._learned = one._begun(train)
            source = one._learned.rows()
        except ValueError as error:
            errors.append(str(error))
            return [np.nan] * len(candidates)
        for _, n, alpha in candidates:
            try:
                one._learned.solve(source, n, alpha)
                found.append(one.score(test))
            except ValueError as error:
                errors.append(str(error))
                found.append(np.nan)
    return found
