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

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._batch import Batch
from mercer.data.channels import inside, is_wrapped
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.families import CountVector, Multinomial
from mercer.families.estimator import FamilyEstimator
from mercer.kernels._data import unwrapped
from mercer.kernels._evaluation import ZeroNorm
from mercer.kernels._explain._additive import columns_of, described, sample_names
from mercer.kernels._explain._decision import Decision, Term
from mercer.kernels._explain._explanation import Explanation
from mercer.kernels._explain._missing import changes
from mercer.kernels._subset import subset
from mercer.kernels.base.compound import Compound
from mercer.models import KDE, Mixture

REFUSALS = (TypeError, ValueError, NotImplementedError)
"""What a model raises that does not accept missing values."""


def marginalized(decision: Decision, X: Any, *, window: int = 1) -> Explanation:
    """Explain decisions by leaving out positions, which are summed over.

    Parameters
    ----------
    decision : Decision
        The decision of a fitted pipeline, with the outputs that are explained.
    X : data
        Input of the pipeline.
    window : int, default=1
        Number of neighboring positions that are left out together: the window around each position, which begins
        ``window // 2`` positions before it.
    """
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
    # Columns of the input, which transformers may still change.
    term = decision.terms[0]._replace(steps=())
    kind, names, channels = described(positions if isinstance(positions, Sequences) else columns_of(term, positions))
    single = decision.single
    return Explanation(
        [c[..., 0] if single else c for c in found], values[:, 0] if single else values,
        np.tile(decision.bias[0] if single else decision.bias, len(values) if single else (len(values), 1)),
        names, sample_names(X), decision.outputs, "marginal", False, channels if way.get("by_channel") else None,
        decision.classes, None, window, kind,
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
        counts = all(isinstance(model, Multinomial | CountVector) for model in models)
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
