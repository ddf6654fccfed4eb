"""Classify by likelihood: one model per class, the "Bayes" that papers on kernels of models compare with."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, logsumexp, safe_log
from mercer.data.segments import datum_name
from mercer.families.estimator import Estimator
from mercer.kernels._classes import class_priors, classes_of, plain, shared_alphabet
from mercer.kernels._data import unwrapped


class LikelihoodRatio(ClassifierMixin, BaseEstimator):
    r"""A classifier with one model per class: the class under whose model a datum is most probable.

    Parameters
    ----------
    model : estimator
        What is fitted to the data of every class: `HMM`, `MarkovChain`, `Gaussian`, `Mixture`, ...
    priors : {"empirical", "uniform"}, array of shape (C,) or None, default="empirical"
        Probabilities of the classes: their shares of the training data (None means the same), equal, or given in the
        order of ``classes_``.
    on_zero : {"raise", "prior"}, default="raise"
        What a datum gets that is impossible under every model: an error, or the probabilities of the classes.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The classes.
    estimators_ : list of estimators
        The fitted models, one per class.
    priors_ : ndarray of shape (C,)
        Probabilities of the classes.

    Notes
    -----
    .. math:: P(c \mid x) \propto P(c)\, p_c(x)

    The log likelihood of a long sequence is a large number, so that probabilities are mostly 0 or 1.

    Examples
    --------
    >>> import mercer as mc
    >>> strings, y = ["abab", "baba", "aabb", "bbaa"], [0, 0, 1, 1]
    >>> clf = mc.LikelihoodRatio(mc.MarkovChain(order=1, smoothing=1.0)).fit(strings, y)
    >>> clf.predict(["ababab", "aaabbb"])
    array([0, 1])
    """

    def __init__(self, model: Any = None, priors: Any = "empirical", on_zero: str = "raise") -> None:
        self.model = model
        self.priors = priors
        self.on_zero = on_zero

    def fit(self, X: Any, y: Any) -> Self:
        """Fit one model to the data of every class.

        Parameters
        ----------
        X : data
            What the model takes: a matrix, sequences, sets of points.
        y : array of shape (N,)
            Classes.
        """
        self._check_parameters()
        X = self._accept(X, reset=True)
        self.classes_, members = classes_of(X, y, "LikelihoodRatio")
        self.priors_ = class_priors(self.priors, np.array([len(places) for places in members]))
        self._context = shared_alphabet(X)
        self.estimators_ = [clone(self.model).fit(plain(X[places])) for places in members]
        return self

    def _accept(self, X: Any, *, reset: bool) -> Any:
        """Read data once, so that all classes have one alphabet and one width."""
        context = None if reset else self._context
        return self.model.accept(unwrapped(X), owner=self, reset=reset, context=context)

    def _check_parameters(self) -> None:
        if not isinstance(self.model, Estimator):
            raise TypeError(
                f"model = {self.model!r}: give an estimator that is fitted to every class, such as mc.Gaussian() or "
                "mc.HMM(n_states=3)"
            )
        self.model._check_parameters()
        if isinstance(self.priors, str) and self.priors not in ("empirical", "uniform"):
            raise ValueError(f"priors = {self.priors!r}: give 'empirical', 'uniform' or a probability for every class")
        if self.on_zero not in ("raise", "prior"):
            raise ValueError(
                f"on_zero must be 'raise', or 'prior' to give impossible samples the classes' prior probabilities; got "
                f"{self.on_zero!r}"
            )

    # -- answers ------------------------------------------------------------------------------------------

    def log_likelihood(self, X: Any) -> Floats:
        """Log probability of every datum under the model of every class, ``(M, C)``."""
        return self._log_likelihood(self._read(X))

    def _read(self, X: Any) -> Any:
        check_is_fitted(self, "estimators_")
        return self._accept(X, reset=False)

    def _log_likelihood(self, X: Any) -> Floats:
        return np.stack([model.score_samples(plain(X)) for model in self.estimators_], axis=1)

    def _log_joint(self, X: Any) -> Floats:
        """Log P(c) p_c(x), ``(M, C)``; where all are impossible, log P(c) or an error."""
        X = self._read(X)
        joint = self._log_likelihood(X) + safe_log(self.priors_)
        impossible = np.flatnonzero(~np.isfinite(joint).any(axis=1))
        if len(impossible):
            if self.on_zero == "raise":
                raise ValueError(
                    f"{datum_name(X, impossible[0])} has probability zero under the model of every class: give the "
                    "model a prior or smoothing, or set on_zero='prior'"
                )
            joint[impossible] = safe_log(self.priors_)
        return joint

    def decision_function(self, X: Any) -> Floats:
        """Log P(c) p_c(x), ``(M, C)``; of two classes the difference, second minus first, ``(M,)``."""
        joint = self._log_joint(X)
        return joint[:, 1] - joint[:, 0] if len(self.classes_) == 2 else joint

    def predict(self, X: Any) -> Floats:
        """Return the most probable class of every datum, ``(M,)``."""
        joint = self._log_joint(X)
        return np.asarray(self.classes_[np.argmax(joint, axis=1)])

    def predict_log_proba(self, X: Any) -> Floats:
        """Log probabilities of the classes, ``(M, C)``."""
        joint = self._log_joint(X)
        return np.asarray(joint - logsumexp(joint, axis=1)[:, None])

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, ``(M, C)``."""
        return np.exp(self.predict_log_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.model, Estimator):
            tags.input_tags = self.model.__sklearn_tags__().input_tags
        return tags
