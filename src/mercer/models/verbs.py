"""Methods that models of all kinds share: criteria of batches, and methods of estimators that call ``model_``."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices, to_numpy
from mercer.data.ragged import unstacked
from mercer.data.segments import n_observed
from mercer.data.sequences import refuse_windows
from mercer.families.estimator import Estimator


class HasCriteria:
    """Information criteria of a batch of models, from its ``n_parameters`` and ``log_prob``."""

    n_parameters: Any

    def _total_log_prob(self, X: Any) -> tuple[Floats, int]:
        """Return the log probability of all of ``X`` under each model, and the number of observations."""
        X = self.read(X)  # type: ignore[attr-defined]
        return to_numpy(self.log_prob(X)).sum(axis=1), n_observed(X.values, X.alphabet)  # type: ignore[attr-defined]

    def aic(self, X: Any) -> Floats:
        """Akaike information criterion of each model on all of ``X``, ``(N,)``; smaller is better.

        Minus twice the log probability, plus two for each of ``n_parameters``.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> model.aic(["aab", "abb"]).round(2)
        array([20.43])
        """
        refuse_windows(X, "aic")
        return np.asarray(2 * self.n_parameters - 2 * self._total_log_prob(X)[0])

    def bic(self, X: Any) -> Floats:
        """Bayesian information criterion of each model on all of ``X``, ``(N,)``; smaller is better.

        Minus twice the log probability, plus ``n_parameters`` times the logarithm of the number of observations;
        steps that are missing as a whole do not count.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> model.n_parameters, model.bic(["aab", "abb"]).round(2)
        (array([5]), array([19.38]))
        """
        refuse_windows(X, "bic")
        log_prob, count = self._total_log_prob(X)
        return np.asarray(self.n_parameters * np.log(max(count, 1)) - 2 * log_prob)


def n_common(members: Any) -> Floats:
    """Return the number of parameters that all members along the last axis share: those of one full covariance."""
    if getattr(members, "structure", None) != "full":
        return np.zeros(members.shape[:-1], dtype=int)
    d, covariance = int(members.dimension), to_numpy(members.covariance)
    shared = np.all(covariance == covariance[..., :1, :, :], axis=(-3, -2, -1))
    return np.where(shared, d * (d + 1) // 2, 0)


class Learned:
    """A parameter of ``model_`` without its batch axis: ``initial_ = Learned()`` is the field ``initial``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.field = name.removesuffix("_")
        self.__doc__ = f"``{self.field}`` of ``model_``, without its batch axis."

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        check_is_fitted(estimator, "model_")
        return self._of(estimator.model_)

    def _of(self, model: Any) -> Any:
        return getattr(model[0], self.field)


class FittedModel(Estimator):
    """Methods of an estimator that call those of ``model_``, one model, and leave out its batch axis."""

    context_: Any
    model_: Any

    def _of_model(self, verb: str, X: Any, *more: Any) -> Any:
        """Call a method of ``model_`` on data that are read like the training data."""
        X = self._known(X)
        return getattr(self.model_, verb)(X, *more)

    def aic(self, X: Any) -> float:
        """Akaike information criterion of ``model_`` on ``X``; smaller is better: ``model_.aic(X)[0]``."""
        refuse_windows(X, "aic")
        return float(self._of_model("aic", X)[0])

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of ``model_`` on ``X``; smaller is better.

        Minus twice the log probability, plus the number of free parameters times the logarithm of the number of
        observations: ``model_.bic(X)[0]``.
        """
        refuse_windows(X, "bic")
        return float(self._of_model("bic", X)[0])

    def summary(self) -> str:
        """Return ``model_`` as text: its kind, its number of free parameters, and a table of its parts."""
        check_is_fitted(self, "model_")
        return str(self.model_.summary())


class FittedSeries(FittedModel):
    """The same of a model of sequences in time: filtering, forecasts and samples."""

    def fit(self, X: Any, y: Any = None, lengths: Any = None) -> Self:
        """Fit one model to all sequences; it becomes ``model_``, a batch of shape ``(1,)``.

        Parameters
        ----------
        X : data
            The sequences.
        y : None
            Not used. Labels of single steps, such as known paths, are refused.
        lengths : list of int, default=None
            If the rows of ``X`` are all sequences below each other, as in hmmlearn: their lengths.
        """
        return super().fit(unstacked(X, lengths), y)

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """Mean log probability of a sequence under the model that ``fit`` learned; ``lengths`` as for ``fit``."""
        return super().score(unstacked(X, lengths), y)

    def score_samples(self, X: Any, lengths: Any = None) -> Floats:
        """Log probability of every sequence under the model that ``fit`` learned; ``lengths`` as for ``fit``."""
        return super().score_samples(unstacked(X, lengths))

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Akaike information criterion of ``model_`` on ``X``; smaller is better; ``lengths`` as for ``fit``."""
        return super().aic(unstacked(X, lengths))

    def bic(self, X: Any, lengths: Any = None) -> float:
        """Bayesian information criterion of ``model_`` on ``X``; smaller is better; ``lengths`` as for ``fit``."""
        return super().bic(unstacked(X, lengths))

    def filter(self, X: Any) -> Any:
        """Hidden states given the observations up to each time: ``model_.filter(X)``."""
        return self._of_model("filter", X)

    def forecast(self, X: Any, steps: int = 1) -> tuple[Floats, Floats]:
        """Mean and covariance of the next ``steps`` observations of each sequence: ``model_.forecast(X, steps)``."""
        means, covariances = self._of_model("forecast", X, steps)
        return means, covariances

    def sample(self, length: int, size: int = 1, random_state: Any = None) -> Any:
        """Sample sequences of ``model_``, ``(size, length, ...)``."""
        check_is_fitted(self, "model_")
        return self.model_.sample(length, size, random_state)[0]


class FittedStates(FittedSeries):
    """The same of a model with discrete states at each time."""

    _posterior: ClassVar[str] = "posterior"
    """The method of ``model_`` that returns the probabilities of the states; item i is those of sequence i."""

    def predict(self, X: Any, lengths: Any = None) -> list[Indices]:
        """Most probable path of hidden states of each sequence under ``model_``: ``model_.viterbi(X)[0]``.

        Parameters
        ----------
        X : data
            As for ``fit``.
        lengths : list of int, default=None
            As for ``fit``.

        Returns
        -------
        list of arrays of int
        """
        return list(self._of_model("viterbi", unstacked(X, lengths))[0])

    def predict_proba(self, X: Any, lengths: Any = None) -> list[Floats]:
        """Posterior probabilities of the states at each time given the whole sequence.

        Parameters
        ----------
        X : data
            As for ``fit``.
        lengths : list of int, default=None
            As for ``fit``.

        Returns
        -------
        list of arrays
            One for each sequence, with a row for each time.
        """
        found = self._of_model(self._posterior, unstacked(X, lengths))
        return [found[i] for i in range(len(found))]

    def sample(self, length: int, size: int = 1, random_state: Any = None, return_states: bool = False) -> Any:
        """Sample sequences of ``model_``, ``(size, length, ...)``, and their states if ``return_states``."""
        check_is_fitted(self, "model_")
        found = self.model_.sample(length, size, random_state, return_states)
        return tuple(part[0] for part in found) if return_states else found[0]


class FittedChain(FittedStates):
    """The same of a model with one chain of states."""

    def occupancy(self, X: Any) -> Any:
        """Say how each sequence spends its time among the states, along the path of ``predict``.

        Parameters
        ----------
        X : data
            As for ``fit``.

        Returns
        -------
        DataFrame, or dict of arrays without pandas
            A row for each sequence and state, with the columns "sample"; "state"; "occupancy", the share of its steps
            in the state; "visits", the number of times that it is there; "dwell", the mean length of a visit (NaN
            without any); and "switching_rate" of the sequence, the share of its steps that change the state. Visits
            at the two ends count as long as they are seen.

        Examples
        --------
        >>> import mercer as mc
        >>> hmm = mc.HMM(2).fit(["aaabbbbb", "aabbbbaa"])
        >>> found = hmm.occupancy(["aaabbbbb"])
        >>> sorted(found["occupancy"].tolist()), found["visits"].tolist()
        ([0.375, 0.625], [1, 1])
        """
        X = self._known(X)
        paths, n = self.predict(X), int(self.model_.initial.shape[-1])
        begins = [np.flatnonzero(np.diff(path, prepend=-1)) for path in paths]
        steps = np.array([np.bincount(path, minlength=n) for path in paths])
        visits = np.array([np.bincount(path[at], minlength=n) for path, at in zip(paths, begins, strict=True)])
        changes = np.array([len(at) - 1 for at in begins])
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN of states without visits, and of too few steps
            rate = np.where(X.lengths > 1, changes / (X.lengths - 1), np.nan)
            shares, dwell = steps / X.lengths[:, None], np.where(visits > 0, steps / visits, np.nan)
        found = {
            "sample": np.repeat(np.arange(len(X)) if X.ids is None else np.array(X.ids, dtype=object), n),
            "state": np.tile(np.arange(n), len(X)),
            "occupancy": shares.ravel(),
            "visits": visits.ravel(),
            "dwell": dwell.ravel(),
            "switching_rate": np.repeat(rate, n),
        }
        try:
            import pandas as pd
        except ImportError:
            return found
        return pd.DataFrame(found)
