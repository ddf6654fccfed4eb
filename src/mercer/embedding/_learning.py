"""How an embedded hidden Markov model is learned: triples, features, and the spectral solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._random import random_generator, seed_of
from mercer._units import human
from mercer.data.channels import by_name
from mercer.data.segments import in_digest_order
from mercer.embedding._comparison import Comparison
from mercer.embedding._filter import SMALLEST, Beliefs, pulled, restarted, run
from mercer.embedding._moments import Block, Moments, Rows, Third, in_parts, rows
from mercer.embedding._solve import Operators, from_grams, from_moments
from mercer.embedding._steps import (
    Steps,
    checked_triples,
    compares_vectors,
    first_windows,
    joined,
    of_triples,
    read_objects,
    read_series,
    steps_of,
    take,
    together,
    triples,
    windows,
)

EXACT = 10_000
"""Maximum number of triples in the exact form, which holds several square matrices of them."""
NO_FIRST = "No sequence begins with a window without missing steps. Use start='stationary'."


@dataclass(frozen=True)
class Setting:
    """Parameters of `EmbeddedHMM` that its training data are read with."""

    kernel: Any
    window: int
    solver: str
    landmarks: Any
    features: str
    start: str
    random_state: Any


class Learned:
    """All that an `EmbeddedHMM` has learned: training data, features, sums over triples, and the operators.

    Parameters
    ----------
    setting : Setting
        Parameters of the estimator.
    X : Sequences or ObjectSequences
        Training sequences.

    Attributes
    ----------
    comparison : Comparison
        Kernels of observations and of windows.
    maps : pair of callable or None
        Features of observations and of windows; None in the exact form.
    operators : Operators
        The solution; after `solve`.
    """

    operators: Operators

    def __init__(self, setting: Setting, X: Any) -> None:
        X = in_digest_order(by_name(self, X, reset=True))
        self.setting, self.alphabet, self.dimension = setting, X.alphabet, getattr(X, "dimension", None)
        steps = steps_of(X, one_hot=setting.kernel is not None)
        times = checked_triples(steps, setting.window, X)
        self._width = len(X.alphabet) if X.alphabet is not None else self.dimension or 0
        rng = random_generator(seed_of(setting.random_state))
        starts = together(*of_triples(times, setting.window))
        self.comparison = Comparison(setting.kernel, steps.values, starts, setting.window, rng)
        approximate = isinstance(setting.landmarks, int | np.integer)
        self.maps: Any = self.comparison.feature_maps(
            setting.features,
            int(setting.landmarks) if approximate else None,
            self._landmarks(steps, starts, rng),
            self._width,
            rng,
        )
        if self.maps is None and len(times) > EXACT:
            raise ValueError(
                f"{len(times)} training triples are too many for the exact form, which needs "
                f"{human(6 * 8 * len(times) ** 2)}. Set landmarks=500, for example."
            )
        self._parts, self._found = [steps], [times]
        self._moments: Moments | None = None
        self._source: Rows | Third | None = None
        self._right: Floats | None = None
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

    def _landmarks(self, steps: Steps, starts: Indices, rng: np.random.Generator) -> Any:
        """Return the observations and windows that are landmarks; None in the exact form."""
        wanted, window = self.setting.landmarks, self.setting.window
        if wanted is None:
            return None
        if isinstance(wanted, int | np.integer):
            size = min(int(wanted), len(starts))
            first, second = (np.sort(rng.choice(starts, size, replace=False)) for _ in range(2))
        else:
            steps = self.steps(wanted)
            first = np.flatnonzero(steps.observed)
            second = together(*of_triples(triples(steps, window), window))
            if len(first) == 0 or len(second) == 0:
                raise ValueError("landmarks must contain windows without missing steps. Pass longer sequences.")
        return take(steps.values, first), windows(steps.values, second, window)

    def _windows(self, steps: Steps) -> tuple[Indices, list[Indices]]:
        """Return the beginnings of all windows; and which are past, future and shifted ones, and begin a sequence."""
        window = self.setting.window
        kinds = (*of_triples(triples(steps, window), window), first_windows(steps, window))
        needed = together(*kinds)
        return needed, [np.searchsorted(needed, at) for at in kinds]

    def _block_of(self, steps: Steps) -> Block:
        """Return the features of all triples of some sequences."""
        (observations, of_windows), window = self.maps, self.setting.window
        times = triples(steps, window)
        needed, (past, future, shifted, first) = self._windows(steps)

        def current(at: Indices) -> Any:
            return take(steps.values, at)

        if window == 1:
            found, now = in_parts(observations, current, needed), None
        else:
            found = in_parts(of_windows, lambda at: windows(steps.values, at, window), needed)
            now = in_parts(observations, current, times)
        values = None if isinstance(steps.values, list) else rows(steps.values, times)
        return Block(found, past, future, shifted, first, now, values, self._width)

    # -- learning ------------------------------------------------------------------------------------------

    def rows(self) -> Rows | None:
        """Return the features of all training triples, and sum what every solution needs; None in the exact form."""
        if self.maps is None:
            return None
        block = self._block_of(self.train)
        self._moments = self._moments_of(block)
        return Rows([block])

    def sums(self) -> Rows | Third:
        """Return sums over all training triples to which others can be added; they are kept."""
        if self.maps is None:
            raise ValueError("partial_fit needs features; set landmarks to a number, such as 200.")
        if self._source is None:
            block = self._block_of(self.train)
            self._moments = self._moments_of(block)
            self._source = Third.of(block) if Third.fits(block) else Rows([block])
        return self._source

    def extend(self, X: Any) -> None:
        """Add the triples of further sequences to the sums."""
        steps = self.steps(X)
        source, block = self.sums(), self._block_of(steps)
        self._parts.append(steps)
        self._found.append(triples(steps, self.setting.window))
        self._moments = self.moments + self._moments_of(block)
        source.add(block)

    def _moments_of(self, block: Block) -> Moments:
        return Moments.of(block, regress=self.setting.solver == "reduced_rank")

    @property
    def moments(self) -> Moments:
        """Sums over the training triples; not in the exact form."""
        assert self._moments is not None
        return self._moments

    def solve(self, source: Rows | Third | None, n: int, alpha: float) -> None:
        """Learn the operators, with this rank and regularization.

        Parameters
        ----------
        source : Rows, Third or None
            What `rows` or `sums` returned.
        n : int
            Number of components.
        alpha : float
            Regularization.
        """
        if source is None:
            self.operators = self._solved_exactly(n, alpha)
            return
        moments, setting = self.moments, self.setting
        if setting.start == "first" and not moments.firsts:
            raise ValueError(NO_FIRST)
        self.operators, self._right = from_moments(moments, source, setting.start, n, alpha, setting.solver)
        # The features of all triples are at hand now, and are not kept after `fit`.
        self._reads = np.concatenate([self._read(b) for b in source.blocks]) if isinstance(source, Rows) else None

    def _solved_exactly(self, n: int, alpha: float) -> Operators:
        steps, times, window = self.train, self.times, self.setting.window
        needed, (past, future, shifted, first) = self._windows(steps)
        cut = windows(steps.values, needed, window)
        gram = self.comparison.of_windows(cut, cut)
        present = gram[np.ix_(future, future)]
        if window == 1:
            observed = present
        else:
            now = take(steps.values, times)
            observed = self.comparison.observations(now, now)
        begins = self.setting.start == "first"
        if begins and not len(first):
            raise ValueError(NO_FIRST)
        starts = (gram[np.ix_(first, future)] if begins else present).mean(axis=0)
        crossed = gram[np.ix_(future, shifted)]
        return from_grams(gram[np.ix_(past, past)], present, crossed, observed, starts, n, alpha, self.setting.solver)

    # -- what was learned ----------------------------------------------------------------------------------

    @property
    def train(self) -> Steps:
        """All training observations."""
        self._join()
        return self._parts[0]

    @property
    def times(self) -> Indices:
        """The times of all training triples, ``(m,)``."""
        self._join()
        return self._found[0]

    def _join(self) -> None:
        """Join the blocks of training observations."""
        if len(self._parts) > 1:
            begins = np.cumsum([0] + [len(part) for part in self._parts[:-1]])
            self._found = [np.concatenate([begin + at for begin, at in zip(begins, self._found, strict=True)])]
            self._parts = [joined(self._parts)]

    @property
    def n_triples(self) -> int:
        """Number of training triples."""
        return sum(map(len, self._found))

    def reading(self) -> Floats:
        """Return the weights of all training triples from a belief, ``(m, N)``; computed once when they are needed."""
        if self.operators.reads is not None:
            return self.operators.reads
        if self._reads is None:
            self._reads = np.concatenate([self._read(self._block_of(part)) for part in self._parts])
        return self._reads

    def _read(self, block: Block) -> Floats:
        return np.asarray(rows(block.windows @ self._right, block.past))

    def center(self) -> Floats:
        """Return the mean of the current observations of all triples, symbols one-hot, ``(d,)``."""
        if self._moments is not None:
            return self._moments.value / self._moments.count
        return np.asarray(self.train.values[self.times].mean(axis=0))

    def mean_features(self) -> Floats:
        """Return the mean of the features of the current observations, ``(s,)``."""
        return self.moments.seen / self.moments.count

    # -- filtering -----------------------------------------------------------------------------------------

    def compared(self, values: Any) -> Floats:
        """Return the features of observations, or their kernel values with the training observations, ``(n, r)``."""
        if self.maps is not None:
            return np.asarray(self.maps[0](values))
        return self.comparison.observations(values, take(self.train.values, self.times))

    def filter(self, steps: Steps, max_gap: int | None) -> Beliefs:
        """Return the belief after every step."""
        operators = self.operators

        def codes(index: Indices) -> Floats:
            seen = steps.observed[index]
            if seen.all():
                return operators.codes(self.compared(take(steps.values, index)))
            out = np.zeros((len(index), operators.shape[0]))
            if seen.any():
                out[seen] = operators.codes(self.compared(take(steps.values, index[seen])))
            return out

        return run(operators, codes, steps.offsets, steps.observed, max_gap)

    def advanced(self, belief: Floats, value: Any) -> Floats:
        """Return the belief after one more observation, which is data with one row; None if it is missing, ``(N,)``.

        As in `run`, a step that is impossible restarts the belief, and counts only if it was observed.
        """
        operators = self.operators
        operator = operators.unseen.dot if value is None else self._operator(value)
        new = operator(belief)
        ratio = float(operators.normalizer.dot(new))
        if SMALLEST < ratio < 1 / SMALLEST:
            new = new / ratio
        else:
            new = restarted(operators, operator(operators.start)[None], np.array([value is not None]))[0]
        return new if new.dot(new) <= operators.radius**2 else pulled(operators, new[None])[0]

    def _operator(self, value: Any) -> Callable[[Floats], Floats]:
        """Return the function of a belief that applies the operator of one observation, without normalizing."""
        operators = self.operators
        code = operators.codes(self.compared(value))[0]
        if operators.gain is not None:
            return operators.gain.T.dot(code).reshape(operators.n, operators.n).dot
        reads, writes = operators.reads, operators.writes
        assert reads is not None
        assert writes is not None
        return lambda belief: (code * (reads @ belief)) @ writes
