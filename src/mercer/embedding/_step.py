"""One step of the filter for streams, with all that does not depend on the observation computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.embedding._comparison import Gaussian, Nystroem
from mercer.embedding._filter import Operator
from mercer.embedding._solve import Operators


class Stepper:
    """Operators of single observations.

    Parameters
    ----------
    operators : Operators
        The model.
    compare : callable
        Features of observations, or their kernel values with the training observations, ``(n, r)``.
    features : callable or None
        The features of observations; None in the exact form.
    gram : callable
        The kernel of observations.
    """

    def __init__(self, operators: Operators, compare: Callable[[Any], Floats], features: Any, gram: Any) -> None:
        self.operators, self._compare = operators, compare
        self._tensor = None if operators.gain is None else operators.gain.T
        self._scaled: Floats | None = None
        if not (isinstance(features, Nystroem) and isinstance(gram, Gaussian)) or operators.gain is None:
            return
        landmarks, projection = features.landmarks, features.projection
        self._gamma = gram.gamma
        self._scaled = 2 * gram.gamma * landmarks
        self._offsets = gram.gamma * np.einsum("ij,ij->i", landmarks, landmarks)
        self._projection: Floats | None = projection.T
        wide, r = projection.shape
        if wide * operators.n**2 <= r * (operators.n**2 + wide):  # one product with all landmarks reads less than two
            self._tensor, self._projection = operators.gain.T @ projection.T, None

    def operator(self, value: Any) -> Operator:
        """Return the operator of one observation, which is data with one row."""
        n = self.operators.n
        if self._tensor is None:
            code = self.operators.codes(self._compare(value))[0]
            reads, writes = self.operators.reads, self.operators.writes
            assert reads is not None
            assert writes is not None
            return lambda belief: (code * (reads @ belief)) @ writes
        if self._scaled is None:
            code = self._compare(value)[0]
        else:
            row = value[0]
            code = self._scaled.dot(row)
            code -= self._offsets
            code -= self._gamma * row.dot(row)
            np.minimum(code, 0.0, out=code)
            np.exp(code, out=code)
            if self._projection is not None:
                code = self._projection.dot(code)
        return self._tensor.dot(code).reshape(n, n).dot
