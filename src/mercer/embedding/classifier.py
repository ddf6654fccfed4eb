"""Classifier with one embedded hidden Markov model per class."""

from __future__ import annotations

from typing import Any, ClassVar

from mercer._parameters import Rules, instance_of, one_of
from mercer.embedding.estimator import EmbeddedHMM
from mercer.kernels import LikelihoodRatio


class EmbeddedHMMClassifier(LikelihoodRatio):
    r"""Classifier of sequences with one `EmbeddedHMM` per class, as in the audio experiment of the paper (HSE-6).

    It predicts the class whose model gives the sequence the highest estimated probability.

    Parameters
    ----------
    model : EmbeddedHMM or None, default=None
        Model to fit to the sequences of each class; None is ``EmbeddedHMM(start="first")``.
    priors : {"empirical", "uniform"}, array of shape (C,) or None, default="empirical"
        Prior probabilities of the classes: their frequencies in the training data ("empirical" or None), equal, or
        given in the order of ``classes_``.
    on_zero : {"raise", "prior"}, default="raise"
        What to do with a sequence of probability zero under every model.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The classes.
    estimators_ : list of EmbeddedHMM
        The fitted models, one per class.
    priors_ : ndarray of shape (C,)
        Prior probabilities of the classes.

    Notes
    -----
    The probabilities are estimates (`EmbeddedHMM.log_prob`), so that posterior probabilities of classes are only a
    ranking. Vectors are compared at each step with the predicted density smoothed by the kernel of each class.

    Examples
    --------
    >>> import mercer as mc
    >>> strings, y = ["abcabcab", "bcabcabc", "acbacbac", "bacbacba"], [0, 0, 1, 1]
    >>> clf = mc.embedding.EmbeddedHMMClassifier(mc.EmbeddedHMM(n_components=3))
    >>> clf = clf.fit(strings, y)
    >>> clf.predict(["cabcab", "cbacba"])
    array([0, 1])
    """

    _parameters: ClassVar[Rules] = {
        "model": instance_of(
            EmbeddedHMM, type(None), what="an EmbeddedHMM or None", cure="It is fitted to each class."
        ),
        "on_zero": one_of("raise", "prior"),
    }

    def __init__(self, model: Any = None, priors: Any = "empirical", on_zero: str = "raise") -> None:
        super().__init__(model=model, priors=priors, on_zero=on_zero)

    def _model(self) -> EmbeddedHMM:
        return EmbeddedHMM(start="first") if self.model is None else self.model
