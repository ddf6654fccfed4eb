"""Fisher scores of factorial hidden Markov models: expected counts and moments under the joint states (FK-7, FK-9)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._probability import ratio
from mercer.families._covariance import upper
from mercer.families.categorical import Categoricals
from mercer.models._factorial.chains import Joint
from mercer.models._factorial.em import Parameters, sums_of
from mercer.models._factorial.missing import Patterns
from mercer.models._scores.weighted import code_scores
from mercer.models.inference import double


def factorial_scores(models: Any, i: int, X: Any, parametrization: str) -> Floats:
    """Return the scores of all sequences under model i, ``(M, P)``."""
    if not len(X):
        return np.empty((0, len(score_names(models))))
    found: Joint = models._expected(i, X, by_run=True)
    initial, transition = double(models.initial)[i], double(models.transition)[i]
    parts = [
        _count_scores(found.first, initial, parametrization),
        _count_scores(found.transitions, transition, parametrization),
    ]
    if models.of_symbols:
        table = Categoricals(double(models.probability)[i], models.alphabet)
        parts.append(code_scores(table, found.kinds.swapaxes(1, 2), parametrization))
    else:
        model = Parameters(initial, transition, double(models.mean)[i], double(models.covariance)[i])
        parts += _gaussian_scores(model, double(X.values), X.offsets, found)
    return np.concatenate([part.reshape(len(X), -1) for part in parts], axis=1)


def _count_scores(counts: Floats, p: Floats, parametrization: str) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    return np.asarray(counts - p * total if parametrization == "logit" else ratio(counts, p) - total)


def _gaussian_scores(model: Parameters, x: Floats, offsets: Floats, found: Joint) -> list[Floats]:
    """Return the scores of the effects and of the covariance, from expected moments with nothing missing."""
    precision = np.linalg.inv(model.covariance)
    mean = model.mean.reshape(-1, model.mean.shape[2])
    whole = Patterns(x)
    location, spread = [], []
    for s, (begin, end) in enumerate(pairwise(offsets)):
        part = whole.part(begin, end)
        own = found.first[s : s + 1], found.transitions[s : s + 1], found.states[begin:end], found.kinds[s : s + 1]
        one = Joint(found.log_prob[s : s + 1], *own)
        sums = sums_of(model, part, one, found.kinds[s])
        location.append((sums.crossed - sums.states @ mean) @ precision)
        explained = mean.T @ sums.crossed
        residual = sums.squares - explained - explained.T + mean.T @ sums.states @ mean
        spread.append((precision @ residual @ precision - sums.size * precision) / 2)
    return [np.array(location), upper(np.array(spread))]


def score_names(models: Any) -> list[str]:
    """Name the columns of the scores."""
    chains, n = models.initial.shape[-2:]
    names = [f"initial[{c}, {i}]" for c in range(chains) for i in range(n)]
    names += [f"transition[{c}, {i}, {j}]" for c in range(chains) for i in range(n) for j in range(n)]
    if models.of_symbols:
        symbols = models.alphabet.symbols
        return names + [f"emission[{j}].probability[{symbol}]" for j in range(models.n_joint) for symbol in symbols]
    d = int(models.mean.shape[-1])
    names += [f"mean[{c}, {i}, {k}]" for c in range(chains) for i in range(n) for k in range(d)]
    return names + [f"covariance[{k}, {m}]" for k in range(d) for m in range(k, d)]
