"""How an embedded hidden Markov model is learned: triples, features, and the spectral solution."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices
from mercer._notices import notify, warns_once
from mercer._parameters import CheckedParameters
from mercer._random import random_generator, seed_of
from mercer.data import Alphabet
from mercer.data.segments import in_digest_order
from mercer.embedding._comparison import Comparison
from mercer.embedding._solve import Operators, from_features, from_grams
from mercer.embedding._steps import Steps, steps_of, take, triples, windows

EXACT = 10_000
"""Maximum number of triples in the exact form, which holds several square matrices of them."""


class Block(NamedTuple):
    """Features of the triples of some sequences."""

    past: Floats
    future: Floats
    shifted: Floats
    observed: Floats
    firsts: Floats


class Learning(CheckedParameters):
    """The part of `EmbeddedHMM` that learns."""

    kernel: Any
    n_components: int
    window: int
    alpha: float
    solver: str
    landmarks: Any
    features: str
    start: str
    random_state: Any
    _alphabet: Alphabet | None
    _dimension: int | None
    _train: Steps
    _times: Indices
    _blocks: list[Block] | None
    _maps: Any
    _solved: Operators | None

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Any = None) -> Any:
        """Read sequences."""
        raise NotImplementedError

    def _steps(self, X: Any, *, reset: bool = False) -> Steps:
        raise NotImplementedError

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from sequences: one long series ``[x]``, or many of different lengths.

        Parameters
        ----------
        X : list of sequences
            Arrays ``(T, d)``, strings or arrays of symbols, or lists of objects.
        y : None
            Ignored.
        """
        self._check_parameters()
        self._begin(X)
        self._solved = self._solve()
        return self

    @warns_once
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from further sequences, with the features of the first call.

        The result equals that of ``fit`` on all sequences with these features. It needs features: ``landmarks``,
        or symbols. The operators are recomputed when they are next used. For blocks of one long series, repeat the
        last ``2 * window`` steps of a block at the beginning of the next, so that no triple is lost.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        y : None
            Ignored.
        """
        self._check_parameters()
        if not hasattr(self, "_train"):
            self._begin(X)
        else:
            steps = self._steps(X)
            self._blocks = [*(self._blocks or [self._block(self._train)]), self._block(steps)]
            self._train = self._train.joined(steps)
            self._times = np.concatenate([self._times, len(self._train) - len(steps) + triples(steps, self.window)])
        if self._maps is None:
            raise ValueError("partial_fit needs features; set landmarks to a number, such as 200.")
        self._solved = None
        self._operators()
        return self

    def _begin(self, X: Any) -> None:
        """Read the training sequences, and learn the features."""
        for name in ("_alphabet", "_dimension", "_train"):
            self.__dict__.pop(name, None)
        accepted = in_digest_order(self.accept(X, reset=True))
        steps = steps_of(accepted, one_hot=self.kernel is not None)
        times = self._times_of(steps, accepted)
        alphabet: Alphabet | None = accepted.alphabet
        width = len(alphabet) if alphabet is not None else getattr(accepted, "dimension", None) or 0
        self._alphabet, self._dimension = alphabet, getattr(accepted, "dimension", None)
        rng = random_generator(seed_of(self.random_state))
        starts = np.unique(np.concatenate([times - self.window, times, times + 1]))
        self._comparison = Comparison(self.kernel, steps.values, starts, self.window, rng)
        approximate = isinstance(self.landmarks, int | np.integer)
        self._maps = self._comparison.feature_maps(
            self.features,
            int(self.landmarks) if approximate else None,
            self._landmarks(steps, starts, rng),
            width,
            rng,
        )
        if self._maps is None and len(times) > EXACT:
            raise ValueError(
                f"{len(times)} training triples are too many for the exact form, which needs "
                f"{6 * 8 * len(times) ** 2 / 2**30:.0f} GiB. Set landmarks=500, for example."
            )
        self._train, self._times, self._blocks = steps, times, None

    def _times_of(self, steps: Steps, X: Any) -> Indices:
        """Return the times of the triples; raise if there are none, warn of sequences without any."""
        needed = 2 * self.window + 1
        lengths = np.diff(steps.offsets)
        times = triples(steps, self.window)
        if len(times) < 2:
            raise ValueError(
                f"There are {len(times)} runs of {needed} observed steps, the past, the future and one step more; the "
                f"longest sequence, {X.name(int(np.argmax(lengths)))}, has length {lengths.max()}. Use a smaller "
                "window or longer sequences."
            )
        short = np.flatnonzero(lengths < needed)
        if len(short):
            notify(
                f"{len(short)} sequences are shorter than two windows and one step, {needed}, and were not used, "
                f"such as {X.name(int(short[0]))} of length {lengths[short[0]]}. Use a smaller window to include them."
            )
        return times

    def _landmarks(self, steps: Steps, starts: Indices, rng: np.random.Generator) -> Any:
        """Return the observations and windows that are landmarks; None in the exact form."""
        if self.landmarks is None:
            return None
        if isinstance(self.landmarks, int | np.integer):
            size = min(int(self.landmarks), len(starts))
            first, second = (np.sort(rng.choice(starts, size, replace=False)) for _ in range(2))
        else:
            steps = self._steps(self.landmarks)
            first = np.flatnonzero(steps.observed)
            times = triples(steps, self.window)
            second = np.unique(np.concatenate([times - self.window, times, times + 1]))
            if len(first) == 0 or len(second) == 0:
                raise ValueError("landmarks must contain windows without missing steps. Pass longer sequences.")
        return take(steps.values, first), windows(steps.values, second, self.window)

    def _firsts(self, steps: Steps) -> Indices:
        """Return the beginnings of sequences whose first window is observed."""
        seen = np.concatenate([[0], np.cumsum(steps.observed)])
        begins = steps.offsets[:-1][np.diff(steps.offsets) >= self.window]
        return np.asarray(begins[seen[begins + self.window] - seen[begins] == self.window])

    def _block(self, steps: Steps) -> Block:
        """Return the features of all triples of some sequences."""
        observations, of_windows = self._maps
        times, firsts = triples(steps, self.window), self._firsts(steps)
        needed = np.unique(np.concatenate([times - self.window, times, times + 1, firsts]))
        if self.window == 1:
            found = observations(take(steps.values, needed))
        else:
            found = of_windows(windows(steps.values, needed, self.window))
        past, future, shifted, first = (
            found[np.searchsorted(needed, at)] for at in (times - self.window, times, times + 1, firsts)
        )
        now = future if self.window == 1 else observations(take(steps.values, times))
        return Block(past, future, shifted, now, first)

    def _solve(self) -> Operators:
        """Return the operators from all training data."""
        arguments = int(self.n_components), float(self.alpha), self.solver
        if self._maps is None:
            return self._solve_exactly(*arguments)
        blocks = self._blocks or [self._block(self._train)]
        joined = [parts[0] if len(blocks) == 1 else np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        past, future, shifted, observed, firsts = joined
        first = self._mean(future, firsts)
        return from_features(past, future, shifted, observed, first, *arguments)

    def _mean(self, future: Floats, firsts: Floats) -> Floats:
        if self.start == "first" and not len(firsts):
            raise ValueError("No sequence begins with a window without missing steps. Use start='stationary'.")
        return (firsts if self.start == "first" else future).mean(axis=0)

    def _solve_exactly(self, n: int, alpha: float, solver: str) -> Operators:
        steps, times = self._train, self._times
        firsts = self._firsts(steps)
        needed = np.unique(np.concatenate([times - self.window, times, times + 1, firsts]))
        cut = windows(steps.values, needed, self.window)
        gram = self._comparison.of_windows(cut, cut)
        past, future, shifted, first = (
            np.searchsorted(needed, at) for at in (times - self.window, times, times + 1, firsts)
        )
        present = gram[np.ix_(future, future)]
        if self.window == 1:
            observed = present
        else:
            now = take(steps.values, times)
            observed = self._comparison.observations(now, now)
        starts = self._mean(present, gram[np.ix_(first, future)])
        return from_grams(
            gram[np.ix_(past, past)], present, gram[np.ix_(future, shifted)], observed, starts, n, alpha, solver
        )

    def _operators(self) -> Operators:
        check_is_fitted(self, "_train")
        if self._solved is None:
            self._solved = self._solve()
        return self._solved
