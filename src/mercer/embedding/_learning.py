"""How an embedded hidden Markov model is learned: triples, features, and the spectral solution."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._random import random_generator, seed_of
from mercer._sizes import human
from mercer.data.channels import by_name
from mercer.data.segments import in_digest_order
from mercer.embedding._comparison import Comparison
from mercer.embedding._filter import Beliefs, advanced, run
from mercer.embedding._solve import LARGEST_TENSOR, Block, Moments, Operators, Third, solved
from mercer.embedding._steps import (
    Steps,
    checked_triples,
    compares_vectors,
    first_windows,
    joined,
    read_objects,
    read_series,
    steps_of,
    take,
    together,
    triples,
    windows,
)

EXACT = 10_000
"""Maximum number of triples whose windows are all landmarks."""


class Learned:
    """All that an `EmbeddedHMM` has learned: training data, features, sums over triples, and the operators.

    Parameters
    ----------
    setting : EmbeddedHMM
        The estimator, with the parameters that its training data are read with.
    X : Sequences or ObjectSequences
        Training sequences.

    Attributes
    ----------
    comparison : Comparison
        Kernels of observations and of windows.
    maps : pair of callable
        Features of observations and of windows.
    train, times
        All training observations, and the times of all training triples, ``(m,)``.
    moments : Moments
        Sums over the training triples.
    operators : Operators
        The solution; after `solve`.
    """

    operators: Operators

    def __init__(self, setting: Any, X: Any) -> None:
        X = in_digest_order(by_name(self, X, reset=True))
        self.setting, self.alphabet, self.dimension = setting, X.alphabet, getattr(X, "dimension", None)
        self.train = steps = steps_of(X, one_hot=setting.kernel is not None)
        self.times = times = checked_triples(steps, setting.window, X)
        self.width = len(X.alphabet) if X.alphabet is not None else self.dimension or 0
        rng = random_generator(seed_of(setting.random_state))
        starts = together(times - setting.window, times, times + 1)
        self.comparison = Comparison(setting.kernel, steps.values, starts, setting.window, rng)
        self.maps: Any = self.comparison.exact_features(self.width)
        self._in_blocks = self.maps is not None or setting.landmarks is not None
        if self.maps is None and setting.features == "random" and setting.landmarks is not None:
            self.maps = self.comparison.random_features(int(setting.landmarks), self.width, rng)
        elif self.maps is None:
            size = len(starts) if setting.landmarks is None else min(int(setting.landmarks), len(starts))
            if setting.landmarks is None and len(times) > EXACT:
                raise ValueError(
                    f"{len(times)} training triples are too many for the exact form, which needs "
                    f"{human(6 * 8 * len(times) ** 2)}. Set landmarks=500, for example."
                )
            first, second = (np.sort(rng.choice(starts, size, replace=False)) for _ in range(2))
            chosen = take(steps.values, first), windows(steps.values, second, setting.window)
            self.maps = self.comparison.landmark_features(*chosen)
        self._third: Third | None = None
        self._reads: Floats | None = None

    # -- input ---------------------------------------------------------------------------------------------

    def read(self, X: Any) -> Any:
        """Read sequences of the same kind as the training sequences."""
        if not compares_vectors(self.setting.kernel):
            return read_objects(X)
        X = by_name(self, read_series(X, self.alphabet), reset=False).require_dimension(self.dimension)
        return X.require("symbols" if self.dimension is None else "vectors", "The fitted model")

    def steps(self, X: Any) -> Steps:
        """Return the observations of sequences."""
        return steps_of(self.read(X), one_hot=self.setting.kernel is not None)

    def numbers(self, values: Any) -> Floats:
        """Return observations as vectors: symbols one-hot, objects without coordinates."""
        if isinstance(values, list):
            return np.zeros((len(values), 0))
        return np.eye(self.width)[values] if values.ndim == 1 else values

    def _block(self, steps: Steps) -> Block:
        """Return the features of all triples of some sequences."""
        window, times = self.setting.window, triples(steps, self.setting.window)
        kinds = times - window, times, times + 1, first_windows(steps, window)
        needed = together(*kinds)
        past, future, shifted, first = (np.searchsorted(needed, at) for at in kinds)
        current = take(steps.values, times)
        found = self.maps[1](windows(steps.values, needed, window))
        seen = found[future] if window == 1 else self.maps[0](current)
        return Block(found, past, future, shifted, first, seen, self.numbers(current))

    # -- learning ------------------------------------------------------------------------------------------

    def learn(self, n: int, alpha: float) -> None:
        """Learn the operators of the training sequences."""
        block = self._block(self.train)
        self.moments = Moments(block)
        self._solve(block, n, alpha)

    def extend(self, X: Any, n: int, alpha: float) -> None:
        """Learn the operators from sums over the triples so far and those of further sequences, if there are any."""
        if not self._in_blocks:
            raise ValueError("partial_fit needs features; set landmarks to a number, such as 200.")
        steps = self.train if X is None else self.steps(X)
        blocks = [self._block(steps)]
        if self._third is None and X is not None:
            blocks.insert(0, self._block(self.train))
        size = blocks[0].seen.shape[1] * blocks[0].windows.shape[1] ** 2
        if size > LARGEST_TENSOR:
            raise ValueError(
                f"partial_fit keeps products of three features, {human(8 * size)}. Use fewer landmarks, or fit."
            )
        for block in blocks:
            sums = Third.of(block, block.windows, block.windows)
            if self._third is None:
                self._third, self.moments = sums, Moments(block)
            else:
                self._third.add(sums)
                self.moments.add(block)
        if X is not None:
            self.times = np.concatenate([self.times, len(self.train) + triples(steps, self.setting.window)])
            self.train = joined(self.train, steps)
        self._solve(self._third, n, alpha)

    def _solve(self, source: Any, n: int, alpha: float) -> None:
        self.operators = solved(self.moments, source, self.setting.start, n, alpha, self.setting.solver)
        self._reads = None

    # -- what was learned ----------------------------------------------------------------------------------

    def reading(self) -> Floats:
        """Return the weights of all training triples from a belief, ``(m, N)``; computed once when they are needed."""
        if self._reads is None:
            window = self.setting.window
            past = windows(self.train.values, self.times - window, window)
            self._reads = np.asarray(self.maps[1](past) @ self.operators.right)
        return self._reads

    def center(self) -> Floats:
        """Return the mean of the current observations of all triples, symbols one-hot, ``(d,)``."""
        return self.moments.value / self.moments.count

    def log_integral(self) -> float:
        """Return the logarithm of the integral of the kernel over observations; 0 if it is not known."""
        base = self.comparison.base
        return 0.0 if base is None or self.dimension is None else base.log_integral(self.dimension)

    # -- filtering -----------------------------------------------------------------------------------------

    def compared(self, values: Any) -> Floats:
        """Return the features of observations, ``(n, s)``."""
        return np.asarray(self.maps[0](values))

    def filter(self, steps: Steps) -> Beliefs:
        """Return the belief after every step."""

        def features(index: Indices) -> Floats:
            return self.compared(take(steps.values, index)) if len(index) else np.zeros((0, len(self.operators.gain)))

        return run(self.operators, features, steps.offsets, steps.observed)

    def advanced(self, belief: Floats, value: Any) -> Floats:
        """Return the belief after one more observation, which is data with one row; None if it is missing, ``(N,)``."""
        operators = self.operators
        made = operators.unseen if value is None else operators.gain.T.dot(self.compared(value)[0])
        made = made.reshape(1, operators.n, operators.n)
        return advanced(operators, belief[None], made, np.array([value is not None])).values[0]
