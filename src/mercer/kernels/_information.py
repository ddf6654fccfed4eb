"""The Fisher information of shared models: closed form, or the second moment of scores of draws (FK-1, FK-2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._batch import Batch
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.data.segments import segment_sum, segments
from mercer.families.categorical import Categoricals
from mercer.families.multinomial import Multinomials
from mercer.models.scores import (
    DENSE,
    alphabet_of,
    ends_by_itself,
    is_posterior,
    is_sequential,
    lengths_of,
    score_names,
    score_rows,
)

FEWEST_DRAWS = 2000
"""An entry of the normalized kernel then has a standard error of at most about 0.02."""
DRAWS_PER_PARAMETER = 20
"""The inverse of the second moment of M draws of P scores is too large by a factor of about 1 + P / M."""
CELLS = 1 << 23
"""Maximum number of values in memory at once: of draws, or of their scores."""


def information_of(models: Any, X: Any, parametrization: str, per: str, seed: int) -> tuple[list[Floats], int]:
    """Return the information matrices of shared models, and the number of draws; 0 for a closed form.

    Samples are drawn as long as the training samples ``X``, and equally often with each of their lengths.
    """
    names = score_names(models)
    size = len(names) // len(models)
    if size * size > DENSE:
        raise ValueError(
            f"information='model' needs a matrix of {size} x {size} numbers. Use information='identity' or 'diagonal', "
            "or a model with fewer parameters."
        )
    if hasattr(models, "fisher_information"):
        return list(_closed(models, X, parametrization, per)), 0
    if not hasattr(models, "sample"):
        raise TypeError(
            f"information='model' needs fisher_information or sample, which {type(models).__name__} does not have. Use "
            "information='empirical'."
        )
    lengths = np.sort(lengths_of(X))
    lengths = np.repeat(lengths, -(-max(FEWEST_DRAWS, DRAWS_PER_PARAMETER * size) // len(lengths)))
    models = _with_trials(models, X)
    found = []
    for c in range(len(models)):
        moment = np.zeros((size, size))
        one, rng = models[c : c + 1], np.random.default_rng([seed, c])
        for drawn in _draws(one, lengths, size, rng):
            scores = score_rows(one, drawn, parametrization, per)
            product = scores.T @ scores
            moment += product if isinstance(product, np.ndarray) else product.toarray()
        found.append(moment / len(lengths))
    return found, len(lengths)


def _closed(models: Any, X: Any, parametrization: str, per: str) -> Floats:
    """Return the information of samples of independent observations: that of one, times their expected number."""
    of_one = np.asarray(to_numpy(models.fisher_information()), dtype=np.float64)
    if parametrization == "weight" and isinstance(
        models, Categoricals | Multinomials
    ):  # the logits' scores divided by p (FK-7)
        p = np.asarray(to_numpy(models.dense().probability), dtype=np.float64)
        inverse = np.divide(1.0, p, out=np.zeros_like(p), where=p > 0)
        of_one = of_one * inverse[..., :, None] * inverse[..., None, :]
    number = _totals(X) / models.trials if isinstance(models, Multinomials) else lengths_of(X).astype(float)
    divisor = np.maximum(lengths_of(X), 1.0) if per == "step" else np.ones(len(number))
    return of_one * float(np.mean(number / divisor**2))


def _totals(X: Any) -> Floats:
    """Return the number of counted words of every sample."""
    x, offsets = segments(X)
    rows = x.row_sums() if isinstance(x, CSRRows) else np.asarray(x).sum(axis=1)
    return segment_sum(np.asarray(rows, dtype=np.float64), offsets)


def _with_trials(models: Any, X: Any) -> Any:
    """Return the models with as many trials of their multinomials as a row of the data has words on average."""
    if isinstance(models, Multinomials):
        average = _totals(X.X if is_posterior(X) else X).sum() / max(int(lengths_of(X).sum()), 1)
        return models._replaced(trials=max(round(float(average)), 1))
    for name in ("emission", "components"):
        if isinstance(getattr(models, name, None), Batch):
            return models._replaced(**{name: _with_trials(getattr(models, name), X)})
    return models


def _draws(model: Any, lengths: Floats, n_scores: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield samples of one model, of the given lengths in ascending order."""
    if ends_by_itself(model):
        step = max(1, CELLS // n_scores)
        for begin in range(0, len(lengths), step):
            yield model.sample(min(step, len(lengths) - begin), random_state=rng)[0]
        return
    if getattr(model, "end", False):
        width = 16  # most draws are longer than the training samples
    else:
        width = max(int(getattr(model, "dimension", 1)), 1)
        lengths = lengths[lengths > 0]  # an empty sample has the score 0
    begin = 0
    while begin < len(lengths):
        # as many as fit, with the longest of them; draws of a length are the beginnings of longer ones
        most = np.arange(1, len(lengths) - begin + 1) * np.maximum((lengths[begin:] + 1) * width, n_scores)
        count = max(1, int(np.searchsorted(most, CELLS, side="right")))
        yield _drawn(model, lengths[begin : begin + count], rng)
        begin += count


def _drawn(model: Any, lengths: Floats, rng: np.random.Generator) -> Any:
    if getattr(model, "end", False):
        return _until_the_end(model, int(lengths[-1]), len(lengths), rng)
    if not is_sequential(model):
        return _points(model, model.sample(int(lengths.sum()), random_state=rng)[0], lengths)
    values = model.sample(int(lengths[-1]), len(lengths), random_state=rng)[0]
    rows = [row[:length] for row, length in zip(values, lengths, strict=True)]
    return Sequences.from_codes(rows, model.alphabet) if values.ndim == 2 else Sequences(rows)


def _until_the_end(model: Any, longest: int, size: int, rng: np.random.Generator) -> Sequences:
    """Draw sequences that end by themselves, none of which is cut."""
    length = 8 * (longest + 1)
    while length * size <= 4 * CELLS:
        codes = model.sample(length, size, random_state=rng)[0]
        if (codes[:, -1] < 0).all():
            return Sequences.from_codes(codes, model.alphabet)
        length *= 4
    raise ValueError(
        f"information='model' draws sequences until they end, but some of {type(model).__name__} have not ended after "
        f"{length // 4} symbols. Fit the model with end=False, or use information='empirical'."
    )


def _points(model: Any, x: Floats, lengths: Floats) -> Any:
    """Return points as samples of the given lengths: as a matrix if each has one."""
    if x.ndim == 2 and (lengths == 1).all():
        return x
    rows = np.split(x, np.cumsum(lengths)[:-1])
    return Sequences(rows) if x.ndim == 2 else Sequences.from_codes(rows, alphabet_of(model))
