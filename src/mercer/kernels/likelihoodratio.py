"""Likelihood classifier with one model per class, the "Bayes" baseline of papers on kernels of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, logsumexp, safe_log
from mercer._notices import warns_once
from mercer._parameters import CheckedParameters, Rule, Rules, one_of
from mercer.data.segments import sample_name
from mercer.data.sequences import Sequences, refuse_windows
from mercer.kernels._classes import PRIORS, class_priors, classes_of, plain, shared_alphabet
from mercer.kernels._data import unwrapped


def _is_model(value: Any) -> bool:
    """Whether a value is an estimator with log probabilities of samples."""
    needed = ("accept", "fit", "score_samples")
    return isinstance(value, BaseEstimator) and all(hasattr(value, name) for name in needed)


@dataclass(eq=False, repr=False)
class LikelihoodRatio(CheckedParameters, ClassifierMixin, BaseEstimator):
    r"""Classifier with one model per class, which predicts the class with the highest posterior probability.

    Parameters
    ----------
    model : estimator
        Model to fit to the samples of each class: `HMM`, `MarkovChain`, `Gaussian`, `Mixture`, `EmbeddedHMM`, ...
    priors : {"empirical", "uniform"}, array of shape (C,) or None, default="empirical"
        Prior probabilities of the classes: their frequencies in the training data ("empirical" or None), equal, or
        given in the order of ``classes_``.
    on_zero : {"raise", "prior"}, default="raise"
        What to do with a sample of probability zero under every model: raise an error, or return the prior
        probabilities of the classes.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The classes.
    estimators_ : list of estimators
        The fitted models, one per class.
    priors_ : ndarray of shape (C,)
        Prior probabilities of the classes.

    Notes
    -----
    .. math:: P(c \mid x) \propto P(c)\, p_c(x)

    For long sequences, log likelihoods differ by large numbers, so that most posterior probabilities are close to 0
    or 1. Those of `EmbeddedHMM` are estimates, which rank the classes; use ``start="first"`` with it.

    Examples
    --------
    >>> import mercer as mc
    >>> strings, y = ["abab", "baba", "aabb", "bbaa"], [0, 0, 1, 1]
    >>> clf = mc.LikelihoodRatio(mc.MarkovChain(order=1, smoothing=1.0)).fit(strings, y)
    >>> clf.predict(["ababab", "aaabbb"])
    array([0, 1])
    """

    _parameters: ClassVar[Rules] = {
        "model": Rule(
            "an estimator",
            _is_model,
            "It is fitted to each class; use mc.Gaussian() or mc.HMM(n_states=3), for example.",
            TypeError,
        ),
        "priors": PRIORS,
        "on_zero": one_of(
            "raise", "prior", cure="With 'prior', impossible samples get the prior probabilities of the classes."
        ),
    }

    model: Any = None
    priors: Any = "empirical"
    on_zero: str = "raise"

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one model to the samples of each class.

        Parameters
        ----------
        X : data
            Input of the model: a matrix, sequences, sets of points.
        y : array of shape (N,)
            Classes.
        """
        self._check_parameters()
        X = self._accept(X, reset=True)
        self.classes_, members = classes_of(X, y, type(self).__name__)
        self.priors_ = class_priors(self.priors, np.array([len(places) for places in members]))
        self._context = shared_alphabet(X)
        self.estimators_ = [clone(self.model).fit(plain(X[places])) for places in members]
        return self

    def _accept(self, X: Any, *, reset: bool) -> Any:
        """Validate the input once, so that all classes share one alphabet and one number of features."""
        refuse_windows(unwrapped(X), "LikelihoodRatio")
        context = None if reset else self._context
        return self.model.accept(unwrapped(X), owner=self, reset=reset, context=context)

    # -- prediction ---------------------------------------------------------------------------------------

    def log_likelihood(self, X: Any) -> Floats:
        """Return the log probability of each sample under the model of each class, ``(M, C)``."""
        return self._log_likelihood(self._read(X))

    def _read(self, X: Any) -> Any:
        check_is_fitted(self, "estimators_")
        X = self._accept(X, reset=False)
        if isinstance(X, Sequences) and not getattr(self.model, "end", False):
            X.require_nonempty()  # all classes would give it probability 1
        return X

    def _log_likelihood(self, X: Any) -> Floats:
        return np.stack([model.score_samples(plain(X)) for model in self.estimators_], axis=1)

    def _log_joint(self, X: Any) -> Floats:
        """Return log P(c) p_c(x), ``(M, C)``; for samples impossible under every model, log P(c) or an error."""
        X = self._read(X)
        joint = self._log_likelihood(X) + safe_log(self.priors_)
        impossible = np.flatnonzero(~np.isfinite(joint).any(axis=1))
        if len(impossible):
            if self.on_zero == "raise":
                raise ValueError(
                    f"{sample_name(X, impossible[0])} has probability zero under the model of every class. Use a "
                    "prior or smoothing in the model, or set on_zero='prior'."
                )
            joint[impossible] = safe_log(self.priors_)
        return joint

    def decision_function(self, X: Any) -> Floats:
        """Return log P(c) p_c(x), ``(M, C)``; for two classes, the second minus the first, ``(M,)``."""
        joint = self._log_joint(X)
        return joint[:, 1] - joint[:, 0] if len(self.classes_) == 2 else joint

    def predict(self, X: Any) -> Floats:
        """Return the most probable class of each sample, ``(M,)``."""
        joint = self._log_joint(X)
        return np.asarray(self.classes_[np.argmax(joint, axis=1)])

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the posterior log probabilities of the classes, ``(M, C)``."""
        joint = self._log_joint(X)
        return np.asarray(joint - logsumexp(joint, axis=1)[:, None])

    def predict_proba(self, X: Any) -> Floats:
        """Return the posterior probabilities of the classes, ``(M, C)``."""
        return np.exp(self.predict_log_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.model, BaseEstimator):
            tags.input_tags = self.model.__sklearn_tags__().input_tags
        return tags
