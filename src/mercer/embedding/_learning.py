"""How an embedded hidden Markov model is learned: triples, features, and the spectral solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices
from mercer._notices import notify, warns_once
from mercer._parameters import CheckedParameters
from mercer._random import random_generator, seed_of
from mercer.data import Alphabet
from mercer.data.segments import in_digest_order
from mercer.embedding._comparison import Comparison
from mercer.embedding._moments import Block, Moments, Rows, Third, in_parts, rows
from mercer.embedding._solve import Operators, from_grams, from_moments
from mercer.embedding._steps import Steps, joined, steps_of, take, triples, windows

EXACT = 10_000
"""Maximum number of triples in the exact form, which holds several square matrices of them."""
NO_FIRST = "No sequence begins with a window without missing steps. Use start='stationary'."


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
    _width: int
    _parts: list[Steps]
    _found: list[Indices]
    _maps: Any
    _moments: Moments | None
    _source: Rows | Third | None
    _solved: Operators | None
    _right: Floats | None
    _reads: Floats | None

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
        self._solver(X)()
        return self

    def _solver(self, X: Any) -> Callable[[], None]:
        """Read the training sequences; return the function that solves with the present rank and regularization."""
        self._begin(X)
        if self._maps is None:
            return self._solve_exactly
        block = self._block(self._train)
        self._moments = Moments.of(block, regress=self.solver == "reduced_rank")

        def solve() -> None:
            self._solve(Rows([block]))
            self._reads = self._read(block)

        return solve

    @warns_once
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from further sequences, with the features of the first call.

        The result equals that of ``fit`` on all sequences with these features. It needs features: ``landmarks``, or
        symbols. The cost does not depend on the number of earlier calls: sums of products of three features are kept,
        r^3 numbers, up to r = 322. With more features, those of all triples are kept, and the cost grows. For blocks of
        one long series, repeat the last ``2 * window`` steps of a block at the beginning of the next, so that no triple
        is lost.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        y : None
            Ignored.
        """
        self._check_parameters()
        fresh = not hasattr(self, "_parts")
        if fresh:
            self._begin(X)
        if self._maps is None:
            raise ValueError("partial_fit needs features; set landmarks to a number, such as 200.")
        if fresh or self._source is None:  # after `fit`, the sums that it did not need
            self._take(self._block(self._train), anew=True)
        if not fresh:
            steps = self._steps(X)
            self._parts.append(steps)
            self._found.append(triples(steps, self.window))
            self._take(self._block(steps), anew=False)
        self._solved = self._reads = None
        self._operators()
        return self

    def _take(self, block: Block, *, anew: bool) -> None:
        """Add the triples of a block to the sums."""
        moments = Moments.of(block, regress=self.solver == "reduced_rank")
        if anew or self._moments is None:
            self._moments, self._source = moments, Third.of(block) if Third.fits(block) else Rows([block])
            return
        self._moments = self._moments + moments
        if isinstance(self._source, Third):
            self._source.add(block)
        elif self._source is not None:
            self._source.blocks.append(block)

    def _begin(self, X: Any) -> None:
        """Read the training sequences, and learn the features."""
        for name in ("_alphabet", "_dimension", "_parts"):
            self.__dict__.pop(name, None)
        accepted = in_digest_order(self.accept(X, reset=True))
        steps = steps_of(accepted, one_hot=self.kernel is not None)
        times = self._times_of(steps, accepted)
        alphabet: Alphabet | None = accepted.alphabet
        width = len(alphabet) if alphabet is not None else getattr(accepted, "dimension", None) or 0
        self._alphabet, self._dimension, self._width = alphabet, getattr(accepted, "dimension", None), width
        rng = random_generator(seed_of(self.random_state))
        starts = self._needed(len(steps), times)
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
        self._parts, self._found = [steps], [times]
        self._moments = self._source = self._solved = self._right = self._reads = None

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
            second = self._needed(len(steps), times)
            if len(first) == 0 or len(second) == 0:
                raise ValueError("landmarks must contain windows without missing steps. Pass longer sequences.")
        return take(steps.values, first), windows(steps.values, second, self.window)

    def _needed(self, length: int, times: Indices, firsts: Indices | None = None) -> Indices:
        """Return the beginnings of all windows of triples, and of sequences, in increasing order."""
        marked = np.zeros(length + 1, dtype=bool)
        for at in (times - self.window, times, times + 1, firsts):
            if at is not None:
                marked[at] = True
        return np.flatnonzero(marked)

    def _firsts(self, steps: Steps) -> Indices:
        """Return the beginnings of sequences whose first window is observed."""
        seen = np.concatenate([[0], np.cumsum(steps.observed)])
        begins = steps.offsets[:-1][np.diff(steps.offsets) >= self.window]
        return np.asarray(begins[seen[begins + self.window] - seen[begins] == self.window])

    def _block(self, steps: Steps) -> Block:
        """Return the features of all triples of some sequences."""
        observations, of_windows = self._maps
        times, firsts = triples(steps, self.window), self._firsts(steps)
        needed = self._needed(len(steps), times, firsts)

        def current(at: Indices) -> Any:
            return take(steps.values, at)

        if self.window == 1:
            found, now = in_parts(observations, current, needed), None
        else:
            found = in_parts(of_windows, lambda at: windows(steps.values, at, self.window), needed)
            now = in_parts(observations, current, times)
        past, future, shifted, first = (
            np.searchsorted(needed, at) for at in (times - self.window, times, times + 1, firsts)
        )
        values = None if isinstance(steps.values, list) else rows(steps.values, times)
        return Block(found, past, future, shifted, first, now, values, self._width)

    @property
    def _setting(self) -> tuple[int, float, str]:
        return int(self.n_components), float(self.alpha), self.solver

    def _solve(self, source: Rows | Third) -> None:
        """Learn the operators from the sums over all training triples."""
        assert self._moments is not None
        if self.start == "first" and not self._moments.firsts:
            raise ValueError(NO_FIRST)
        self._solved, self._right = from_moments(self._moments, source, self.start, *self._setting)

    def _read(self, block: Block) -> Floats:
        """Return the weights of the training triples from a belief, ``(m, N)``."""
        return np.asarray(rows(block.windows @ self._right, block.past))

    def _reading(self) -> Floats:
        """Return the weights of all training triples from a belief, ``(m, N)``; computed once when they are needed."""
        exact = self._operators().reads
        if exact is not None:
            return exact
        if self._reads is None:
            self._reads = np.concatenate([self._read(self._block(part)) for part in self._parts])
        return self._reads

    def _center(self) -> Floats:
        """Return the mean of the current observations of all triples, symbols one-hot, ``(d,)``."""
        if self._moments is not None:
            return self._moments.value / self._moments.count
        return np.asarray(self._train.values[self._times].mean(axis=0))

    def _mean_features(self) -> Floats:
        """Return the mean of the features of the current observations, ``(s,)``."""
        assert self._moments is not None
        return self._moments.seen / self._moments.count

    def _join(self) -> None:
        """Join the blocks of training observations."""
        if len(self._parts) > 1:
            begins = np.cumsum([0] + [len(part) for part in self._parts[:-1]])
            self._found = [np.concatenate([begin + at for begin, at in zip(begins, self._found, strict=True)])]
            self._parts = [joined(self._parts)]

    @property
    def _train(self) -> Steps:
        """All training observations."""
        self._join()
        return self._parts[0]

    @property
    def _times(self) -> Indices:
        """The times of all training triples, ``(m,)``."""
        self._join()
        return self._found[0]

    def _solve_exactly(self) -> None:
        steps, times = self._train, self._times
        firsts = self._firsts(steps)
        needed = self._needed(len(steps), times, firsts)
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
        if self.start == "first" and not len(first):
            raise ValueError(NO_FIRST)
        starts = (gram[np.ix_(first, future)] if self.start == "first" else present).mean(axis=0)
        crossed = gram[np.ix_(future, shifted)]
        self._solved = from_grams(gram[np.ix_(past, past)], present, crossed, observed, starts, *self._setting)

    def _operators(self) -> Operators:
        solved: Operators | None = self.__dict__.get("_solved")
        if solved is None:
            check_is_fitted(self, "_parts")
            assert self._source is not None
            self._solve(self._source)
            solved = self._solved
            assert solved is not None
        return solved
