r"""Explanations by marginalization: the decision as it is, minus the decision had positions not been observed.

A generative model can do without an observation: it sums over all values that the observation could have had. No value
has to be invented in its place. Every position of a sample, or every window, is marked as missing in a copy of the
sample, and the pipeline decides on all copies at once. The parts of the pipeline determine what "not observed" means:

- A model that all samples share (`Marginalization`, `LatentMeanMap`, `Fisher`, ...) sums over the position,
  :math:`k(x_{\setminus t}, z) = \sum_a k(x_{t \to a}, z)`. A normalized kernel is that of the sample with a missing
  value: its self-kernel sums over both sides, :math:`\sum_{a, b} k(x_{t \to a}, x_{t \to b})`.
- A model that is fitted to every sample (`ProbabilityProduct`, `MeanMap`, `JensenShannon` of an estimator) is fitted
  again without the position: it is not counted (families, Markov chains), or is summed over in every step of EM (hidden
  Markov models, linear dynamical systems).
- A point of a set is left out, if the model does not accept missing coordinates: points are independent. A word of a
  document is not observed if none of its tokens is, so its count is zero.
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
from mercer.data.channels import inside, is_wrapped
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.families import Multinomial
from mercer.families.base import FamilyEstimator
from mercer.kernels._data import unwrapped
from mercer.kernels._evaluation import ZeroNorm
from mercer.kernels._explain._decision import Decision, Term
from mercer.kernels._explain._explanation import Explanation, columns_of, described, sample_names
from mercer.kernels._subset import subset
from mercer.kernels.base.compound import Compound
from mercer.models import KDE, Mixture

MOST_VALUES = 1 << 22
"""Number of symbols, or coordinates, of the copies that are decided on at once."""
REFUSALS = (TypeError, ValueError, NotImplementedError)
"""Exceptions of models that do not accept missing values."""


def marginalized(decision: Decision, X: Any, *, window: int = 1) -> Explanation:
    """Explain decisions by leaving out windows of positions, which begin ``window // 2`` before each position."""
    X, decision = unwrapped(X), _narrowed(decision)
    positions = _positions(decision.terms[0], X)
    if window > 1 and not isinstance(positions, Sequences):
        raise ValueError(f"The columns of a matrix have no order, so window must be 1; got {window}.")
    values = decision.values(X)

    def decide(copies: Any, owners: Floats) -> Floats:
        return decision.values(X[owners].with_objects(copies) if is_wrapped(X) else copies)

    rows = positions.to_scipy() if isinstance(positions, CSRRows) else positions
    refusal: Exception | None = None
    for way in _ways(decision, positions):
        try:
            found = changes(decide, values, rows, window=window, **way)
            break
        except REFUSALS as error:  # the data themselves are accepted: what is refused is that some are missing
            refusal = refusal or error
    else:
        if isinstance(refusal, ZeroNorm):
            raise ValueError(
                f"A sample has zero norm under {_title(decision)} if {window} of its positions "
                f"{'are' if window > 1 else 'is'} missing, so it cannot be normalized. Leave out the shortest samples, "
                f"or fit the kernel with on_zero='zero' or normalize=False."
            ) from refusal
        raise TypeError(
            f"Explanation by marginalization marks positions as missing, which {_title(decision)} does not accept: "
            f"{refusal} Use a kernel whose model sums over missing values, such as mc.HMM or mc.AffinePairHMM, or a "
            "kernel with additive features, such as mc.Spectrum or mc.Fisher."
        ) from refusal
    if not isinstance(positions, Sequences):  # columns of the input, which transformers may still change
        positions = columns_of(decision.terms[0].kernel, positions)
    kind, names, channels = described(positions)
    keep = 0 if decision.single else slice(None)  # one output has no axis
    bias = np.tile(decision.bias, (len(values), 1))
    return Explanation(
        [c[..., keep] for c in found], values[:, keep], bias[:, keep], names, sample_names(X), decision.outputs,
        "marginal", False, channels if way.get("by_channel") else None, decision.classes, None, window, kind,
    )  # fmt: skip


def _narrowed(decision: Decision) -> Decision:
    """Return the same decision, in which kernels compare new objects with those of nonzero weight only."""
    terms = []
    for term in decision.terms:
        used = np.flatnonzero((term.weights != 0).any(axis=0))
        if term.over == "objects" and term.reference is None and 0 < len(used) < term.weights.shape[1]:
            term = term._replace(kernel=subset(term.kernel, used), weights=np.ascontiguousarray(term.weights[:, used]))
        terms.append(term)
    return decision._replace(terms=tuple(terms))


def _positions(term: Term, X: Any) -> Any:
    """Read the input of a pipeline as sequences or as a matrix, whose positions can be marked as missing."""
    data = inside(X)
    if term.steps:  # transformers read series, or a matrix
        return data if isinstance(data, Sequences) or _is_matrix(data) else Sequences(data)
    found = term.kernel._admit(X, reset=False)
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


def _ways(decision: Decision, positions: Any) -> Iterator[dict[str, Any]]:
    """Yield the ways of not observing a position, the most detailed first."""
    models = [getattr(kernel, "model", None) for term in decision.terms for kernel in _leaves(term.kernel)]
    if not isinstance(positions, Sequences):
        counts = all(isinstance(model, Multinomial) for model in models)
        yield {"absent": 0.0 if counts else np.nan}
        return
    yield {"by_channel": not positions.is_symbols}
    if all(_is_of_points(model) for model in models) and not any(term.steps for term in decision.terms):
        yield {"drop": True}


def _leaves(kernel: Any) -> Iterator[Any]:
    """Yield the kernels that a kernel is made of."""
    if not isinstance(kernel, Compound):
        yield kernel
        return
    for part in kernel._parts():
        yield from _leaves(part)


def _is_of_points(model: Any) -> bool:
    """Whether a model is one of independent points, so that a point that is not observed can be left out."""
    if isinstance(model, Mixture):
        return model.component is None or _is_of_points(model.component)
    return isinstance(model, FamilyEstimator | KDE)


def _title(decision: Decision) -> str:
    """Name the kernels with their models, for messages."""
    names = []
    for term in decision.terms:
        for kernel in _leaves(term.kernel):
            model = getattr(kernel, "model", None)
            names.append(type(kernel).__name__ + (f"({type(model).__name__})" if model is not None else ""))
    return ", ".join(dict.fromkeys(names))


# -- copies without some of their positions ----------------------------------------------------------------------


def changes(
    decide: Callable[[Any, Floats], Floats],
    decision: Floats,
    X: Any,
    *,
    window: int = 1,
    by_channel: bool = False,
    drop: bool = False,
    absent: float = np.nan,
) -> list[Floats]:
    """Return by how much positions increase decisions: with the window around them, minus without it.

    Parameters
    ----------
    decide : function
        Maps M samples, and the indices of the samples of which they are copies, to decisions of shape (M, R).
    decision : array of shape (N, R)
        The decisions on the samples themselves.
    X : Sequences, or matrix of shape (N, T), dense or CSR
        The positions of a row are its columns, of a sparse row its stored entries.
    window : int, default=1
        Number of consecutive positions that are missing at the same time, cut at the ends of the sequence.
    by_channel, drop : bool, default=False
        Whether single channels of time steps are missing; whether positions are left out, not marked as missing.
    absent : float, default=nan
        Entry of a row that is not observed; 0 for counts of words.

    Returns
    -------
    list of N arrays of shape (T, R), or (T, d, R) by channel
        Exactly zero where nothing was observed.
    """
    samples, joined = _samples(X)
    if isinstance(X, Sequences):
        absent = np.nan if X.alphabet is None else X.alphabet.missing
    drop = drop or sparse.issparse(X)
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
    for i, values in enumerate(samples):
        observed = ~(np.isnan(values) | (values == absent))
        for place in np.ndindex(out[i].shape[:-1]):
            first = place[0] - window // 2
            where = (slice(max(first, 0), first + window), *place[1:])
            if not observed[where].any():  # missing already: the change is zero
                continue
            places.append((i, *place))
            copies.append(np.delete(values, where[0], axis=0) if drop else values.copy())
            if not drop:
                copies[-1][where] = absent
            size += copies[-1].size
            if size >= MOST_VALUES:
                decided()
                size = 0
    decided()
    return out


def _samples(X: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return the values of every sample, and the function that makes data of such values."""
    if isinstance(X, Sequences):
        samples = [X.values[a:b] for a, b in pairwise(X.offsets.tolist())]
        if X.alphabet is not None:
            return samples, lambda copies: Sequences.from_codes(copies, X.alphabet)
        return samples, lambda copies: Sequences(
            copies, channels=X.channels
        )  # without ids, which would not be distinct
    if not sparse.issparse(X):
        return list(np.asarray(X, dtype=np.float64)), np.stack
    X = sparse.csr_array(X)
    entries = np.stack([X.data, X.indices], axis=1)

    def joined(copies: list[Any]) -> Any:
        ends = np.cumsum([0, *map(len, copies)])
        data, indices = np.concatenate(copies).T
        return sparse.csr_array((data, indices.astype(np.int64), ends), shape=(len(copies), X.shape[1]))

    return [entries[a:b] for a, b in pairwise(X.indptr.tolist())], joined
