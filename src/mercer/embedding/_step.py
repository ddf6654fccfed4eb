"""One step of the filter for streams, with all that does not depend on the observation computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._native.contraction import Contraction, GaussianContraction
from mercer.embedding._comparison import Gaussian, Nystroem
from mercer.embedding._filter import SMALLEST, pulled, restarted
from mercer.embedding._solve import Operators

LARGE = 1 << 17
"""Number of entries of a tensor, 1 MiB, from which a step is a compiled pass over it."""


class Stepper:
    """Steps of single observations.

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
        self.operators, self._compare, self._square = operators, compare, operators.radius**2
        self._scaled = self._projection = self._tensor = self._contract = self._at_once = None
        if operators.gain is None:
            return
        tensor = operators.gain.T
        if isinstance(features, Nystroem) and isinstance(gram, Gaussian):
            landmarks, projection = features.landmarks, features.projection
            self._gamma, self._scaled = gram.gamma, 2 * gram.gamma * landmarks
            self._offsets = gram.gamma * np.einsum("ij,ij->i", landmarks, landmarks)
            wide, r = projection.shape
            if wide * operators.n**2 <= r * (operators.n**2 + wide):  # one product with all landmarks reads less
                tensor = tensor @ projection.T
            else:
                self._projection = projection.T
        if tensor.size < LARGE:
            self._tensor = tensor
            return
        tensor = tensor.reshape(operators.n, operators.n, -1)
        if self._scaled is not None and self._projection is None:
            self._at_once = GaussianContraction(tensor, features.landmarks, gram.gamma, operators.normalizer)
        self._contract = self._at_once or Contraction(tensor)

    def quick(self, belief: Any, row: Any) -> Floats | None:
        """Return the belief after one observation ``(d,)`` by one compiled call; None if it cannot be trusted."""
        found = None if self._at_once is None else self._at_once.step(row, belief)
        if found is None:
            return None
        new, ratio, square = found  # both are NaN or infinite if an argument is
        return new if SMALLEST < ratio < 1 / SMALLEST and square <= self._square else None

    def advance(self, belief: Floats, value: Any) -> Floats:
        """Return the belief after one observation, which is data with one row, or None if it is missing, ``(N,)``.

        As in `run`, a step that is impossible restarts the belief, and counts only if it was observed.
        """
        operators = self.operators
        operator = operators.unseen.dot if value is None else self._operator(value)
        new = operator(belief)
        ratio = float(operators.normalizer.dot(new))
        if SMALLEST < ratio < 1 / SMALLEST:
            new /= ratio
        else:
            new = restarted(operators, operator(operators.start)[None], np.array([value is not None]))[0]
        return new if new.dot(new) <= self._square else pulled(operators, new[None])[0]

    def _operator(self, value: Any) -> Callable[[Floats], Floats]:
        """Return the function of a belief that applies the operator of one observation, without normalizing."""
        operators, contract = self.operators, self._contract
        code = self._code(value)
        if contract is not None:
            return lambda belief: contract(code, belief)
        if self._tensor is not None:
            return self._tensor.dot(code).reshape(operators.n, operators.n).dot
        reads, writes = operators.reads, operators.writes
        assert reads is not None
        assert writes is not None
        return lambda belief: (code * (reads @ belief)) @ writes

    def _code(self, value: Any) -> Floats:
        """Return what multiplies the operators, ``(r,)``."""
        if self._scaled is None:
            return np.asarray(self.operators.codes(self._compare(value))[0])
        row = value[0]
        code = self._scaled.dot(row)
        code -= self._offsets
        code -= self._gamma * row.dot(row)
        np.minimum(code, 0.0, out=code)
        np.exp(code, out=code)
        return code if self._projection is None else self._projection.dot(code)
