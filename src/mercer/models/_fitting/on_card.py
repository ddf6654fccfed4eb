"""Baum-Welch on an NVIDIA card, for HMMs with symbols: all iterations of all models in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import to_numpy
from mercer._config import settings
from mercer._device import moved, target
from mercer.compiled import cuda
from mercer.families.categorical import Categoricals
from mercer.models._fitting.climb import Climbed, climb
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import SymbolStep
from mercer.models._fitting.goals import HMMGoal
from mercer.models.hmm import HMMs

MOST_STATES, MOST_SYMBOLS = 16, 32
LEAST_MODELS = 100
"""Fewer models, such as a pooled one, leave the card idle: each is the work of one warp."""


def fits_on_card(X: Any, size: int, limits: Any) -> bool:
    """Whether models of one size, each of one sequence of ``X``, are fitted on a card, all at once."""
    if settings().device is None or limits is not None or size > MOST_STATES or not X.is_symbols:
        return False
    k = len(X.alphabet)
    few = k <= MOST_SYMBOLS and len(X) >= LEAST_MODELS
    return few and bool(X.lengths.min() > 0 and X.values.max() < k) and target() is not None and cuda.has_triton()


def climb_there(goal: HMMGoal, data: Data, models: HMMs, n_iter: int, tol: float) -> Climbed:
    """Do as `climb`, on the device of the settings if the program takes the models; raise if it is not there."""
    place, found = target(), None
    if place is not None and _suits(goal, data, models) and cuda.has_triton():
        found = _fits(goal, data, models, n_iter, tol, place)
    # Nearly impossible observations need numbers of a wider range, and impossible ones a message.
    return climb(goal, data, models, n_iter, tol) if found is None else found


def _suits(goal: HMMGoal, data: Data, models: HMMs) -> bool:
    """Whether these are many models of few states and symbols, all of which were observed without ambiguity."""
    emission = models.emission
    if not isinstance(goal.emission, SymbolStep) or goal.limits is not None or not isinstance(emission, Categoricals):
        return False
    _, n, k = emission.probability.shape
    few = n <= MOST_STATES and k <= MOST_SYMBOLS and bool((models.n_states == n).all())
    many = data.size >= LEAST_MODELS and len(data.x) > 0
    return few and many and bool(np.diff(data.offsets).min() > 0 and data.x.max() < k)


def _fits(goal: HMMGoal, data: Data, models: HMMs, n_iter: int, tol: float, place: Any) -> Climbed | None:
    from mercer.compiled.cuda.baum_welch import baum_welch

    emission = models.emission
    start = [to_numpy(x).astype(np.float64) for x in (models.initial, models.transition, emission.probability)]
    (n, k), step = start[2].shape[1:], goal.emission
    assert isinstance(step, SymbolStep)
    prior = [np.zeros(n), np.zeros((n, n)), np.zeros((n, k))]
    if goal.prior is not None:
        prior[0], prior[1] = (
            goal.strength * to_numpy(x)[0].astype(np.float64) for x in (goal.prior.initial, goal.prior.transition)
        )
    if step.prior is not None:
        prior[2] = np.array(np.broadcast_to(step.prior, (1, n, k))[0], dtype=np.float64)
    least = tol * data.mass.astype(np.float64) if tol > 0 else np.full(data.size, -np.inf)

    def there(x: Any, dtype: Any = np.float64) -> Any:
        return moved(np.asarray(x, dtype=dtype), place)

    codes, offsets, sequences = (there(x, np.int64) for x in (data.x, data.offsets, data.sequence_offsets))
    begin, counts = [there(x) for x in start], [there(x) for x in prior]
    found = baum_welch(codes, offsets, sequences, begin, counts, there(least), n_iter)
    if not bool(found.sound.all()):
        return None
    initial, transition, probability, objective, steps, converged, visits, history, _ = map(to_numpy, found)
    fitted = HMMs._make(
        initial=initial,
        transition=transition,
        n_states=models.n_states,
        emission=Categoricals._make(probability=probability, alphabet=emission.alphabet),
    )
    most = int(steps.max(initial=1))
    return Climbed(fitted, objective, steps.astype(int), converged.astype(bool), visits, history[:, :most])
