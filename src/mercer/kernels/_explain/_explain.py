"""Explanations of decisions by the contributions of positions."""

from __future__ import annotations

from typing import Any

from mercer._checks import is_whole
from mercer._config import without_caches
from mercer._refusals import NotAdditive
from mercer.data.channels import by_name
from mercer.kernels._explain._additive import additive
from mercer.kernels._explain._decision import decision_of
from mercer.kernels._explain._explanation import Explanation, output_index
from mercer.kernels._explain._marginalized import marginalized

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
            return additive(decision, X)
        except NotAdditive:
            if method == "additive":
                raise
        return marginalized(decision, X, window=1)
