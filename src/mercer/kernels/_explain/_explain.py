"""Explanations of decisions by the contributions of positions: exact shares, or the effect of leaving them out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from mercer._checks import NotAdditive, is_whole
from mercer._config import without_caches
from mercer.data.channels import by_name, inside
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.kernels._data import unwrapped
from mercer.kernels._evaluation import ZeroNorm
from mercer.kernels._explain._back import through
from mercer.kernels._explain._decision import Decision, decisions_of
from mercer.kernels._explain._explanation import (
    Columns,
    Explanation,
    columns_of,
    described,
    output_of,
    sample_names,
)
from mercer.kernels._explain._marginal import NotMarginal, marginal
from mercer.kernels._explain._shares import Weights, shares_of

METHODS = ("auto", "additive", "marginal")


def explain(
    pipeline: Any, X: Any, *, method: str = "auto", window: int | None = None, output: Any = None
) -> Explanation:
    r"""Return what every position of the input contributes to the decision of a fitted pipeline.

    Parameters
    ----------
    pipeline : fitted estimator
        A pipeline with a kernel and an estimator that is linear in kernel values or features: ``SVC``, ``SVR``,
        `KernelRidge`, ``LogisticRegression`` after `Features`, ..., a search over it, or what `compact` returns;
        ``CalibratedClassifierCV`` or ``OneVsRestClassifier`` of these. Or the result of
        `mercer.stats.two_sample_test`, whose witness function is explained.
    X : data
        Input of the pipeline: the samples to explain.
    method : {"auto", "additive", "marginal"}, default="auto"
        "additive" gives exact shares, for kernels whose features are sums over positions. "marginal" gives the change
        of the decision if a position is not observed, for models that can sum over it. "auto" is "additive" where that
        is possible; of series with several channels, where every share is computed from one channel. Otherwise it is
        "marginal", or shares of whole steps if the model cannot sum over missing values.
    window : int, default=None
        Number of neighboring positions that "marginal" leaves out together. None is 1; of series with several channels,
        a twentieth of their median length, but at least 5. With a number above 1, "auto" is "marginal".
    output : int, str or class, default=None
        The output to explain, if there are several; None explains all of them, and lists and plots of the result show
        the class that is predicted. For the first of two classes, contributions have the opposite sign.

    Returns
    -------
    Explanation
        ``contributions`` has an array for every sample: one number per symbol, or per time step and channel. Shares of
        whole steps have no channels.

    See Also
    --------
    Explanation : The result.
    compact : Keeps what a prediction needs.

    Notes
    -----
    The decision is :math:`f(x) = \sum_i a_i k(x, z_i) + b = \langle w, \phi(x)\rangle + b`, and if
    :math:`\phi(x) = \sum_t \phi_t(x)`, position t contributes :math:`\langle w, \phi_t(x)\rangle`: contributions and
    bias sum to the decision. The page "Explanations" of the documentation says how they are defined for each kernel.

    Many kernels compare windows or states of all channels at once. Their exact shares of a step are correct, but how
    they are split between channels is a convention, and a channel of noise gets as much as the one with the signal;
    ``method="additive"`` gives them all the same. "auto" leaves out one channel at a time instead.

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
    if window is not None and not is_whole(window, 1):
        raise ValueError(f"window must be a whole number, 1 or more; got {window!r}.")
    decisions = decisions_of(pipeline)
    if output is not None:
        decisions = decisions.taken(output_of(output, decisions.outputs, decisions.classes))
    if method == "additive" and window not in (None, 1):
        raise ValueError(f"window = {window} needs method='marginal': exact shares are of single positions.")
    with without_caches():
        groups = [_mean([_explained(each, X, method, window) for each in group]) for group in decisions.groups]
        predicted = pipeline.predict(X) if np.ndim(decisions.classes) == 1 else None
    return replace(
        groups[0] if len(groups) == 1 else _joined(groups),
        outputs=decisions.outputs,
        classes=decisions.classes,
        predicted=None if predicted is None else tuple(map(str, np.asarray(predicted).tolist())),
    )


def _explained(decision: Decision, X: Any, method: str, window: int | None) -> Explanation:
    """Explain the decisions of one pipeline."""
    X = by_name([*decision.steps, decision.kernel][0], X, reset=False)  # contributions have the channels of the input
    if method == "marginal" or window not in (None, 1):
        return marginal(decision, X, window)
    try:
        found, by_channel = _additive(decision, X)
    except NotAdditive:
        if method == "additive":
            raise
        return marginal(decision, X, window)
    if by_channel or method == "additive":
        return found
    try:
        return marginal(decision, X, window)
    except (NotMarginal, ZeroNorm):
        return replace(found, contributions=found.per_position(), channels=None)


def _mean(found: list[Explanation]) -> Explanation:
    """Return the mean of the explanations of several pipelines."""
    return replace(
        found[0],
        contributions=[np.mean(parts, axis=0) for parts in zip(*(each.contributions for each in found), strict=True)],
        decision=np.mean([each.decision for each in found], axis=0),
        bias=np.mean([each.bias for each in found], axis=0),
    )


def _joined(found: list[Explanation]) -> Explanation:
    """Return explanations of one output each as one of several outputs."""
    return replace(
        found[0],
        contributions=[np.stack(parts, -1) for parts in zip(*(each.contributions for each in found), strict=True)],
        decision=np.stack([each.decision for each in found], axis=-1),
        bias=np.stack([each.bias for each in found], axis=-1),
    )


def _additive(decision: Decision, X: Any) -> tuple[Explanation, bool]:
    """Explain decisions by exact shares, and tell whether these tell channels apart.

    Raises `NotAdditive` where the kernel has no exact shares.
    """
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
    found = Explanation(
        [np.array(c) for c in contributions], decision.values(X)[:, keep].copy(), total.bias[:, keep].copy(), names,
        sample_names(X), decision.outputs, "additive", True, channels, decision.classes, 1, kind,
    )  # fmt: skip
    return found, total.by_channel or len(channels or ()) < 2
