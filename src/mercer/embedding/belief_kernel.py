"""The kernel between two filtered sequences (HSE-9)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer._array import Floats
from mercer._parameters import Rules, instance_of, one_of
from mercer._verdict import Verdict
from mercer.embedding.estimator import EmbeddedHMM
from mercer.kernels import Linear


class BeliefKernel(Linear):
    r"""Kernel between sequences that an `EmbeddedHMM` has filtered: of their predicted distributions (HSE-9).

    Parameters
    ----------
    model : EmbeddedHMM or None, default=None
        The model, fitted to the training sequences; None is ``EmbeddedHMM()``.
    when : {"last", "mean"}, default="last"
        Which belief represents a sequence: that after its last step, or the mean over its steps.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with a sequence of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    With the weights :math:`v = Qb` of the training windows in the prediction after the sequence,

    .. math:: k(x, y) = v_x^\top L\, v_y
              = \langle\hat\mu_{\text{future}\mid x}, \hat\mu_{\text{future}\mid y}\rangle

    is the inner product of the two predicted distributions, embedded in the feature space.

    Examples
    --------
    >>> import mercer as mc
    >>> strings = ["abcabcabc", "bcabcabc", "cabcab", "abcabca"]
    >>> kernel = mc.embedding.BeliefKernel(mc.EmbeddedHMM(n_components=3))
    >>> kernel.fit_transform(strings).round(2)
    array([[1., 1., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """

    _parameters: ClassVar[Rules] = {
        "model": instance_of(EmbeddedHMM, type(None), what="an EmbeddedHMM or None"),
        "when": one_of("last", "mean"),
    }
    psd = Verdict("always", "an inner product of embedded distributions")
    model_: EmbeddedHMM

    def __init__(self, model: Any = None, when: str = "last", normalize: bool = True, on_zero: str = "raise") -> None:
        super().__init__(normalize=normalize, on_zero=on_zero)
        self.model = model
        self.when = when

    def _accept(self, X: Any, *, reset: bool) -> Any:
        reader = (EmbeddedHMM() if self.model is None else self.model) if reset else self.model_
        return reader.accept(X, owner=self, reset=reset)

    def _learn(self, X: Any, y: Any = None) -> None:
        self.model_ = EmbeddedHMM() if self.model is None else clone(self.model)
        self.model_.fit(X)

    @property
    def _needs_fit(self) -> str:
        return "it learns one model for all sequences"

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return ("model", "when")

    def _source(self, X: Any) -> Floats:
        """Return features whose inner products are the kernel, ``(N, n_components_)``."""
        operators = self.model_._known().operators
        values, vectors = np.linalg.eigh(operators.metric)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        if self.when == "last":
            return np.asarray(self.model_.transform(X)) @ root
        found = self.model_.filter(X)
        parts = zip(found.offsets[:-1], found.offsets[1:], strict=True)
        means = [found.values[a:b].mean(axis=0) if b > a else operators.start for a, b in parts]
        return np.array(means) @ root

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self._check_parameter("model")
        tags.input_tags = (EmbeddedHMM() if self.model is None else self.model).__sklearn_tags__().input_tags
        return tags
