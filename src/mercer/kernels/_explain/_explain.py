r"""Explanations of decisions by the contributions of positions.

Exact shares are in `_shares`. Marginalization gives the decision as it is, minus the decision had positions not been
observed: a generative model can do without an observation, because it sums over all values that the observation could
have had. Every position of a sample, or every window, is marked as missing in a copy of the sample, and the pipeline
decides on all copies at once. The parts of the pipeline determine what "not observed" means:

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
from mercer._checks import NotAdditive, is_whole
from mercer._config import without_caches
from mercer.data.channels import by_name, inside, is_wrapped
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.families import Multinomial
from mercer.kernels._data import unwrapped
from mercer.kernels._evaluation import ZeroNorm
from mercer.kernels._explain._back import through
from mercer.kernels._explain._decision import Decision, decision_of
from mercer.kernels._explain._explanation import (
    Columns,
    Explanation,
    columns_of,
    described,
    output_index,
    sample_names,
)
from mercer.kernels._explain._shares import Weights, shares_of
from mercer.kernels._subset import subset
from mercer.kernels.base.compound import Compound

METHODS = ("auto", "additive", "marginal")
MOST_VALUES = 1 << 22
"""Number of symbols, or coordinates, of the copies that are decided on at once."""
REFUSALS = (TypeError, ValueError, NotImplementedError)
"""Exceptions of models that do not accept missing values."""


def explain(pipeline: Any, X: Any, *, method: str = "auto", window: int = 1, output: Any = None) -> Explanation:
    r"""Return what every position of the input contributes to the decision of a fitted pipeline.

    Parameters
    ----------
    pipeline : fitted estimator
        A pipeline with a kernel and an estimator that is linear in kernel values or features: ``SVC``, ``SVR``,
        `KernelRidge`, ``LogisticRegression`` after `Features`, ..., a search over it, or what `compact` returns. Or the
        result of `mercer.stats.two_sample_test`, whose witness function is explained.
    X : data
        Input of the pipeline: the samples to explain.
    method : {"auto", "additive", "marginal"}, default="auto"
        "additive" gives exact shares, for kernels whose features are sums over positions. "marginal" gives the change
        of the decision if a position is not observed, for models that can sum over it. "auto" is "additive" where that
        is possible.
    window : int, default=1
        Number of neighboring positions that "marginal" leaves out together. With more than 1, "auto" is "marginal".
    output : int, str or class, default=None
        The output to explain, if there are several; None explains all of them.

    Returns
    -------
    Explanation
        ``contributions`` has an array for every sample: one number per symbol, or per time step and channel.

    See Also
    --------
    Explanation : The result.
    compact : Keeps what a prediction needs.

    Notes
    -----
    The decision is :math:`f(x) = \sum_i a_i k(x, z_i) + b = \langle w, \phi(x)\rangle + b`, and if
    :math:`\phi(x) = \sum_t \phi_t(x)`, position t contributes :math:`\langle w, \phi_t(x)\rangle`: contributions and
    bias sum to the decision. The page "Explanations" of the documentation says how they are defined for each kernel.

    The decisions of ``SVC`` with several classes follow its ``decision_function_shape``: of "ovo", all pairs of
    classes; of "ovr", for every class the sum of its decisions against all others, to which scikit-learn adds votes.
    Classifiers with two classes have one output, positive for the second class.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X, y = ["ACGTAC", "AGGTAA", "TTTTAC", "TTATTG"], [1, 1, 0, 0]
    >>> pipeline = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed")).fit(X, y)
    >>> found = mc.explain(pipeline, ["AGGT", "TTTT"])
    >>> [c.round(2).tolist() for c in found.contributions]
    [[0.09, 0.18, 0.29, 0.2], [-0.24, -0.47, -0.47, -0.24]]
    >>> found.decision.round(2), bool(abs(found.residual).max() < 1e-12)
    (array([ 0.97, -1.2 ]), True)
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; got {method!r}.")
    if not is_whole(window, 1):
        raise ValueError(f"window must be a whole number, 1 or more; got {window!r}.")
    decision = decision_of(pipeline)
    if output is not None:
        decision = decision.taken(output_index(output, decision.outputs, decision.classes))
    if method == "additive" and window != 1:
        raise ValueError(f"window = {window} needs method='marginal': exact shares are of single positions.")
    X = by_name([*decision.steps, decision.kernel][0], X, reset=False)  # contributions have the channels of the input
    with without_caches():
        if method == "marginal" or window != 1:
            return _marginal(decision, X, int(window))
        try:
            return _additive(decision, X)
        except NotAdditive:
            if method == "additive":
                raise
        return _marginal(decision, X, 1)


def _additive(decision: Decision, X: Any) -> Explanation:
    """Explain decisions by exact shares; raise `NotAdditive` where the kernel has none."""
    view = source = decision.source(decision.transformed(X))
    weights = Weights(decision.weights, None if decision.over == "features" else decision.objects)
    total = shares_of(decision.kernel, source, weights).with_bias(decision.bias)
    while hasattr(view, "parts"):
        view = view.parts[0]
    positions = inside(unwrapped(X))
    if not isinstance(view, Sequences):
        positions = columns_of(decision.kernel, view, decision.steps)
    else:
        if not isinstance(positions, Sequences):  # symbols in the alphabet of the kernel
            positions = Sequences(positions) if view.alphabet is None else view
        total = through(decision.steps, X, total) if decision.steps else total
    kind, names, channels = described(positions)
    keep = 0 if decision.single else slice(None)  # one output has no axis
    if isinstance(positions, Columns) and not isinstance(positions.rows, CSRRows):
        contributions = list(total.values[..., keep])  # the channels of a row are its positions
    else:
        values = total.values if channels is not None else total.values[:, 0]
        contributions = [values[a:b, ..., keep] for a, b in pairwise(total.offsets.tolist())]
    return Explanation(
        [np.array(c) for c in contributions], decision.values(X)[:, keep].copy(), total.bias[:, keep].copy(), names,
        sample_names(X), decision.outputs, "additive", True, channels, decision.classes, 1, kind,
    )  # fmt: skip


# -- marginalization ---------------------------------------------------------------------------------------------


def _marginal(decision: Decision, X: Any, window: int) -> Explanation:
    """Explain decisions by leaving out windows of positions, which begin ``window // 2`` before each position."""
    X = unwrapped(X)
    used = np.flatnonzero((decision.weights != 0).any(axis=0))
    if decision.over == "objects" and decision.reference is None and 0 < len(used) < decision.weights.shape[1]:
        weights = np.ascontiguousarray(decision.weights[:, used])
        decision = decision._replace(kernel=subset(decision.kernel, used), weights=weights)
    positions = _positions(decision, X)
    if window > 1 and not isinstance(positions, Sequences):
        raise ValueError(f"The columns of a matrix have no order, so window must be 1; got {window}.")
    values = decision.values(X)

    def decide(copies: Any, owners: Floats) -> Floats:
        return decision.values(X[owners].with_objects(copies) if is_wrapped(X) else copies)

    models = [getattr(kernel, "model", None) for kernel in _leaves(decision.kernel)]
    absent = 0.0 if all(isinstance(model, Multinomial) for model in models) else np.nan
    try:
        found = changes(decide, values, positions, window, absent)
    except ZeroNorm as error:
        raise ValueError(
            f"A sample has zero norm under {_title(decision)} if {window} of its positions "
            f"{'are' if window > 1 else 'is'} missing, so it cannot be normalized. Leave out the shortest samples, "
            "or fit the kernel with on_zero='zero' or normalize=False."
        ) from error
    except REFUSALS as error:  # the data themselves are accepted: what is refused is that some are missing
        raise TypeError(
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
    decide: Callable[[Any, Floats], Floats], decision: Floats, X: Any, window: int, absent: float
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
    if not isinstance(X, CSRRows):
        return list(np.asarray(X, dtype=np.float64)), np.stack
    entries = np.stack([X.data, X.indices], axis=1)

    def joined(copies: list[Any]) -> Any:
        ends = np.cumsum([0, *map(len, copies)])
        data, indices = np.concatenate(copies).T
        return sparse.csr_array((data, indices.astype(np.int64), ends), shape=(len(copies), X.n_columns))

    return [entries[a:b] for a, b in pairwise(X.indptr.tolist())], joined
