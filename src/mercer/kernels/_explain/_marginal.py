r"""Explanations by marginalization.

Marginalization gives the decision as it is, minus the decision had positions not been observed: a generative model can
do without an observation, because it sums over all values that the observation could have had. Every position of a
sample, or every window, is marked as missing in a copy of the sample, and the pipeline decides on all copies at once.
The parts of the pipeline determine what "not observed" means:

- A model that all samples share (`Marginalization`, `LatentMeanMap`, `Fisher`, ...) sums over the position,
  :math:`k(x_{\setminus t}, z) = \sum_a k(x_{t \to a}, z)`. A normalized kernel is that of the sample with a missing
  value: its self-kernel sums over both sides, :math:`\sum_{a, b} k(x_{t \to a}, x_{t \to b})`.
- A model that is fitted to every sample (`ProbabilityProduct`, `MeanMap`, `JensenShannon` of an estimator) is fitted
  again without the position: it is not counted (families, Markov chains), or is summed over in every step of EM (hidden
  Markov models, linear dynamical systems).
- A word of a document is not observed if none of its tokens is, so its count is zero.
- A transformer before the kernel marks all values as missing that it computes from a missing value.

Contributions are not additive: two positions that carry the same evidence have little effect each, and a window over
both has a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer._batch import Batch
from mercer._parallel import progress_bar
from mercer.data.channels import inside, is_wrapped
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.families import Multinomial
from mercer.kernels._data import unwrapped
from mercer.kernels._evaluation import ZeroNorm
from mercer.kernels._explain._decision import Decision
from mercer.kernels._explain._explanation import (
    Explanation,
    columns_of,
    described,
    sample_names,
)
from mercer.kernels._subset import subset
from mercer.kernels.base.compound import Compound

SHORTEST, PARTS = 5, 20
"""Of series with several channels, windows have a 20th of the median length by default, but at least 5 steps."""
MOST_VALUES = 1 << 22
"""Number of symbols, or coordinates, of the copies that are decided on at once."""
MOST_FEATURES = 1 << 24
"""Number of features, or kernel values, of these copies."""
REFUSALS = (TypeError, ValueError, NotImplementedError)
"""Exceptions of models that do not accept missing values."""


class NotMarginal(TypeError):
    """Error of a pipeline that does not accept missing positions."""


def marginal(decision: Decision, X: Any, window: int | None) -> Explanation:
    """Explain decisions by leaving out windows of positions, which begin ``window // 2`` before each position.

    Windows of the default length, which overlap by half, are left out; steps between their centers are interpolated.
    """
    X = unwrapped(X)
    used = np.flatnonzero((decision.weights != 0).any(axis=0))
    if decision.over == "objects" and decision.reference is None and 0 < len(used) < decision.weights.shape[1]:
        weights = np.ascontiguousarray(decision.weights[:, used])
        decision = decision._replace(kernel=subset(decision.kernel, used), weights=weights)
    positions, step = _positions(decision, X), 1
    if window is None:
        window = 1
        if isinstance(positions, Sequences) and positions.alphabet is None and (positions.dimension or 1) > 1:
            window = max(SHORTEST, int(np.median(positions.lengths)) // PARTS)
            step = window // 2
    if window > 1 and not isinstance(positions, Sequences):
        raise ValueError(f"The columns of a matrix have no order, so window must be 1; got {window}.")
    values = decision.values(X)

    def decide(copies: Any, owners: Floats) -> Floats:
        return decision.values(X[owners].with_objects(copies) if is_wrapped(X) else copies)

    models = [getattr(kernel, "model", None) for kernel in _leaves(decision.kernel)]
    absent = 0.0 if all(isinstance(model, Multinomial) for model in models) else np.nan
    try:
        found = changes(decide, values, positions, window, absent, step=step, width=decision.weights.shape[1])
    except ZeroNorm as error:
        raise ZeroNorm(
            f"A sample has zero norm under {_title(decision)} if {window} of its positions "
            f"{'are' if window > 1 else 'is'} missing, so it cannot be normalized. Leave out the shortest samples, "
            "or fit the kernel with on_zero='zero' or normalize=False."
        ) from error
    except REFUSALS as error:  # the data themselves are accepted: what is refused is that some are missing
        raise NotMarginal(
            f"Explanation by marginalization marks positions as missing, which {_title(decision)} does not accept: "
            f"{error} Use a kernel whose model sums over missing values, such as mc.HMM or mc.AffinePairHMM, or a "
            "kernel with additive features, such as mc.Spectrum or mc.Fisher."
        ) from error
    if not isinstance(positions, Sequences):  # columns of the input, which transformers may still change
        positions = columns_of(decision.kernel, positions)
    kind, names, channels = described(positions)
    keep = 0 if decision.single else slice(None)  # one output has no axis
    bias = np.tile(decision.bias, (len(values), 1))
    return Explanation(
        [c[..., keep] for c in found], values[:, keep], bias[:, keep], names, sample_names(X), decision.outputs,
        "marginal", False, channels, decision.classes, window, kind,
    )  # fmt: skip


def _positions(decision: Decision, X: Any) -> Any:
    """Read the input of a pipeline as sequences or as a matrix, whose positions can be marked as missing."""
    data = inside(X)
    if decision.steps:  # transformers read series, or a matrix
        return data if isinstance(data, Sequences) or _is_matrix(data) else Sequences(data)
    found = decision.kernel._admit(X, reset=False)
    while hasattr(found, "parts"):  # several views of the same objects
        found = found.parts[0]
    found = getattr(found, "X", found)  # posteriors contain their sequences
    if isinstance(found, Batch):
        raise TypeError(
            f"X has fitted models ({type(found).__name__}), which have no positions. Pass the data themselves, and "
            "the estimator as the model of the kernel."
        )
    return found


def _is_matrix(data: Any) -> bool:
    return getattr(data, "ndim", 0) == 2 and (hasattr(data, "tocsr") or np.asarray(data).dtype.kind in "biuf")


def _leaves(kernel: Any) -> Iterator[Any]:
    """Yield the kernels that a kernel is made of."""
    if not isinstance(kernel, Compound):
        yield kernel
        return
    for part in kernel._parts():
        yield from _leaves(part)


def _title(decision: Decision) -> str:
    """Name the kernels with their models, for messages."""
    names = []
    for kernel in _leaves(decision.kernel):
        model = getattr(kernel, "model", None)
        names.append(type(kernel).__name__ + (f"({type(model).__name__})" if model is not None else ""))
    return ", ".join(dict.fromkeys(names))


def changes(
    decide: Callable[[Any, Floats], Floats],
    decision: Floats,
    X: Any,
    window: int,
    absent: float,
    *,
    step: int = 1,
    width: int = 1,
) -> list[Floats]:
    """Return by how much positions increase decisions: with the window around them, minus without it.

    Parameters
    ----------
    decide : function
        Maps M samples, and the indices of the samples of which they are copies, to decisions of shape (M, R).
    decision : array of shape (N, R)
        The decisions on the samples themselves.
    X : Sequences, or matrix of shape (N, T), dense or CSR
        The positions of a row are its columns, of a sparse row its stored entries; of series, channels of time steps.
    window : int
        Number of consecutive positions that are missing at the same time, cut at the ends of the sequence.
    absent : float
        Entry of a row that is not observed; 0 for counts of words.
    step : int
        Every how many positions a window is left out; positions between are interpolated.
    width : int
        Number of features, or kernel values, of one sample.

    Returns
    -------
    list of N arrays of shape (T, R), or (T, d, R) of series
        Exactly zero where nothing was observed.
    """
    samples, joined = _samples(X)
    drop, by_channel = isinstance(X, CSRRows), isinstance(X, Sequences) and X.alphabet is None
    if isinstance(X, Sequences):
        absent = np.nan if X.alphabet is None else X.alphabet.missing
    out = [np.zeros((*(x.shape if by_channel else x.shape[:1]), decision.shape[1])) for x in samples]
    places: list[tuple[int, ...]] = []
    copies: list[Any] = []

    def decided() -> None:
        without = decide(joined(copies), np.array([place[0] for place in places])) if places else ()
        for (i, *place), value in zip(places, without, strict=True):
            out[i][tuple(place)] = decision[i] - value
        places.clear()
        copies.clear()

    size = 0
    for i, values in progress_bar(list(enumerate(samples)), "Explanations"):
        last = len(out[i]) - 1
        observed = ~(np.isnan(values) | (values == absent))
        for place in np.ndindex(out[i].shape[:-1]):
            first = place[0] - window // 2
            where = (slice(max(first, 0), first + window), *place[1:])
            if not observed[where].any():  # missing already: the change is zero
                continue
            if place[0] % step and place[0] != last:
                continue
            places.append((i, *place))
            copies.append(np.delete(values, where[0], axis=0) if drop else values.copy())
            if not drop:
                copies[-1][where] = absent
            size += copies[-1].size
            if size >= MOST_VALUES or len(places) * width >= MOST_FEATURES:
                decided()
                size = 0
    decided()
    return out if step == 1 else [_interpolated(x, found, step) for x, found in zip(samples, out, strict=True)]


def _interpolated(x: Floats, values: Floats, step: int) -> Floats:
    """Interpolate all but every ``step``-th row and the last one; what is missing in x gets zero."""
    every = np.arange(len(values))
    if len(every) < 2:
        return values
    known = np.flatnonzero((every % step == 0) | (every == every[-1]))
    columns = [np.interp(every, known, column[known]) for column in values.reshape(len(values), -1).T]
    found = np.stack(columns, axis=1).reshape(values.shape)
    return np.where(np.isnan(x)[:, :, None], 0.0, found)


def _samples(X: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return the values of every sample, and the function that makes data of such values."""
    if isinstance(X, Sequences):
        samples = [X.values[a:b] for a, b in pairwise(X.offsets.tolist())]
        if X.alphabet is not None:
            return samples, lambda copies: Sequences.from_codes(copies, X.alphabet)
        return samples, lambda copies: Sequences(
            copies, channels=X.channels
        )  # without ids, which would not be distinct
    if not isinstance(X, CSRRows):
        return list(np.asarray(X, dtype=np.float64)), np.stack
    entries = np.stack([X.data, X.indices], axis=1)

    def joined(copies: list[Any]) -> Any:
        ends = np.cumsum([0, *map(len, copies)])
        data, indices = np.concatenate(copies).T
        return sparse.csr_array((data, indices.astype(np.int64), ends), shape=(len(copies), X.n_columns))

    return [entries[a:b] for a, b in pairwise(X.indptr.tolist())], joined
