"""Explanations of decisions by the contributions of positions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from mercer._checks import is_whole
from mercer._config import without_caches
from mercer._refusals import NotAdditive
from mercer.data.channels import by_name, inside
from mercer.data.csr import CSRRows
from mercer.data.sequences import Sequences
from mercer.kernels._data import unwrapped
from mercer.kernels._explain import _kernels  # noqa: F401  (it registers kernels)
from mercer.kernels._explain._decision import Decision, Term, decision_of
from mercer.kernels._explain._explanation import (
    Columns,
    Explanation,
    columns_of,
    described,
    output_index,
    sample_names,
)
from mercer.kernels._explain._marginal import marginalized
from mercer.kernels._explain._shares import Shares, Weights, shares_of, through

METHODS = ("auto", "additive", "marginal")


def explain(pipeline: Any, X: Any, *, method: str = "auto", window: int = 1, output: Any = None) -> Explanation:
    r"""Return what every position of the input contributes to the decision of a fitted pipeline.

    Parameters
    ----------
    pipeline : fitted estimator
        A pipeline with a kernel and an estimator that is linear in kernel values or features: ``SVC``, ``SVR``,
        `KernelRidge`, Gaussian processes, ``LogisticRegression`` after `Features`, ..., or an estimator around it: a
        search, `compact`, ``CalibratedClassifierCV`` (the mean of its uncalibrated decisions). Or the result of
        `mercer.stats.two_sample_test`, whose witness function is explained.
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
    Classifiers with two classes have one output, positive for the second class. Gaussian process classifiers are
    explained by their latent mean.

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
    first = decision.terms[0]
    X = by_name([*first.steps, first.kernel][0], X, reset=False)  # contributions have the channels of the input
    with without_caches():
        if method == "marginal" or window != 1:
            return marginalized(decision, X, window=int(window))
        try:
            return _additive(decision, X)
        except NotAdditive:
            if method == "additive":
                raise
        return marginalized(decision, X, window=1)


def _additive(decision: Decision, X: Any) -> Explanation:
    """Explain decisions by exact shares; raise `NotAdditive` where a kernel has none."""
    (total, positions), *others = (_shares_of_term(term, X) for term in decision.terms)
    for found, _ in others:
        total = total.plus(found)
    total = total.with_bias(decision.constants(X))
    kind, names, channels = described(positions)
    keep = 0 if decision.single else slice(None)  # one output has no axis
    if isinstance(positions, Columns) and not isinstance(positions.rows, CSRRows):
        contributions = list(total.values[..., keep])  # the channels of a row are its positions
    else:
        values = total.values if channels is not None else total.values[:, 0]
        contributions = [values[a:b, ..., keep] for a, b in pairwise(total.offsets.tolist())]
    near = None
    if total.near is not None:
        part, size = np.moveaxis(total.near, -1, 0)
        near = (part / np.where(size > 0, size, 1.0))[:, keep]
    return Explanation(
        [np.array(c) for c in contributions], decision.values(X)[:, keep].copy(), total.bias[:, keep].copy(), names,
        sample_names(X), decision.outputs, "additive", True, channels, decision.classes, near, 1, kind,
    )  # fmt: skip


def _shares_of_term(term: Term, X: Any) -> tuple[Shares, Sequences | Columns]:
    """Return the shares of one term for the positions of the input, and these."""
    data = term.transformed(X)
    view = source = term.source(data)
    weights = Weights(term.weights, None if term.over == "features" else term.objects)
    found = shares_of(term.kernel, data, source, weights)
    while hasattr(view, "parts"):
        view = view.parts[0]
    if not isinstance(view, Sequences):
        return found, columns_of(term.kernel, view, term.steps)
    given = inside(unwrapped(X))
    if not isinstance(given, Sequences):  # symbols in the alphabet of the kernel
        given = Sequences(given) if view.alphabet is None else view
    return through(term.steps, X, found) if term.steps else found, given
