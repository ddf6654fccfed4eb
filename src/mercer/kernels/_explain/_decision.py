"""Fitted pipelines as linear functions of kernel values or features: what their decisions are made of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse

from mercer._array import Floats, to_numpy
from mercer._config import without_caches
from mercer._refusals import NoKernel, NotRead
from mercer.data.channels import inside, is_wrapped
from mercer.kernels._data import n_objects, unwrapped
from mercer.kernels._estimators import (
    SCALERS,
    SELECTOR,
    SVM,
    check_fitted,
    found_by_search,
    is_word,
    kinds,
    linear_function,
)
from mercer.kernels._evaluation import Side
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.compacted import Compacted
from mercer.kernels.gp import GPKernel
from mercer.kernels.kernelridge import KernelRidge
from mercer.kernels.landmarks import Landmarks

PURPOSE = "mc.explain reads what a pipeline has learned."


class Term(NamedTuple):
    """R weighted sums of the values of one kernel with N reference objects, or of its P explicit features."""

    steps: tuple[Any, ...]  # fitted transformers between the input and the kernel
    kernel: Any
    weights: Floats  # (R, N) or (R, P)
    over: str = "objects"  # or "features"
    reference: Any = None  # the reference objects; None for the training objects of the kernel

    @property
    def objects(self) -> Any:
        """The reference objects, a source of the kernel."""
        return self.kernel.train_ if self.reference is None else self.reference

    def transformed(self, X: Any) -> Any:
        """Return the input of the kernel."""
        for step in self.steps:
            X = step.transform(X)
        return unwrapped(X if self.kernel._takes_confounds else inside(X))  # others are for the estimator

    def source(self, X: Any) -> Any:
        """Return the compared objects of an input of the kernel."""
        kernel = self.kernel
        kernel._check_parameters()
        kernel._check_unchanged()
        source = kernel._source(kernel._admit(X, reset=False))
        return kernel._match(source, self.objects)

    def values(self, X: Any) -> Floats:
        """Return the weighted sums for an input of the pipeline, ``(n_samples, R)``."""
        kernel, data = self.kernel, self.transformed(X)
        if self.over == "features":
            rows = kernel.features(data)
            return np.asarray(to_numpy(rows @ self.weights.T), dtype=np.float64)
        side = kernel._train_side if self.reference is None else Side(self.reference)
        rows = np.asarray(to_numpy(kernel._gram(Side(self.source(data)), side)), dtype=np.float64)
        return np.asarray(rows @ self.weights.T)


class Decision(NamedTuple):
    """The R decisions of a fitted pipeline: sums of terms and a constant."""

    terms: tuple[Term, ...]
    bias: Floats  # (R,)
    outputs: tuple[str, ...]
    classes: Any = None
    confounds: Floats | None = None  # (R, c): coefficients of confounds that come with the input

    @property
    def single(self) -> bool:
        """Whether there is one output, which has no axis in decisions."""
        return len(self.outputs) == 1

    def constants(self, X: Any) -> Floats:
        """Return the part outside of all terms, ``(n_samples, R)``: the bias, and the contribution of confounds."""
        found = np.tile(self.bias, (n_objects(X), 1))
        if self.confounds is None:
            return found
        if not is_wrapped(X):
            raise ValueError("KernelRidge was fitted with confounds. Pass mc.Confounded(X, C) to mc.explain.")
        return np.asarray(found + X.confounds @ self.confounds.T)

    def values(self, X: Any) -> Floats:
        """Return the decisions, ``(n_samples, R)``."""
        with without_caches():
            return np.asarray(self.constants(X) + sum(term.values(X) for term in self.terms))

    def taken(self, index: int) -> Decision:
        """Return the decision of one output."""
        row = slice(index, index + 1)
        terms = tuple(term._replace(weights=term.weights[row]) for term in self.terms)
        confounds = None if self.confounds is None else self.confounds[row]
        return Decision(terms, self.bias[row], self.outputs[row], self.classes, confounds)


def decision_of(pipeline: Any) -> Decision:
    """Split a fitted pipeline into its transformers, kernels and the linear function of these."""
    if hasattr(pipeline, "witness_weights"):  # a two-sample test
        if pipeline.kernel is None:
            raise TypeError(
                "This test had a precomputed matrix, which knows no positions. Pass the data and the kernel to "
                "two_sample_test."
            )
        kernel, reference, _ = pipeline.kernel.sources(pipeline.objects)
        term = Term((), kernel, pipeline.witness_weights()[None], "objects", reference)
        return Decision((term,), np.zeros(1), ("X - Y",))
    if isinstance(pipeline, type) or not hasattr(pipeline, "fit"):
        raise TypeError(
            f"pipeline must be a fitted pipeline; got {pipeline!r}. Use mc.explain(make_pipeline(kernel, "
            "SVC(kernel='precomputed')).fit(X, y), X), for example."
        )
    return _read(pipeline, ())


# -- estimators ----------------------------------------------------------------------------------------------


def _read(step: Any, chain: tuple[Any, ...]) -> Decision:
    """Return the decision of a fitted estimator after a chain of fitted transformers."""
    step = found_by_search(step.estimator if isinstance(step, Compacted) else step, PURPOSE)
    names = kinds(step)
    if "Pipeline" in names:
        *before, last = [part for _, part in step.steps if not is_word(part, "passthrough")]
        return _read(last, (*chain, *before))
    if "BaseThresholdClassifier" in names:
        return _read(step.estimator_, chain)
    if names & {"FrozenEstimator", "_CalibratedClassifier"}:
        return _read(step.estimator, chain)
    if "CalibratedClassifierCV" in names:
        return _mean([_read(part, chain) for part in step.calibrated_classifiers_])
    if names & {"OneVsRestClassifier", "MultiOutputRegressor"}:
        return _stacked([_read(part, chain) for part in step.estimators_], getattr(step, "classes_", None))
    if names & {"GaussianProcessRegressor", "GaussianProcessClassifier"}:
        return _process(step, chain)
    function = linear_function(step)
    if function is None:
        why = "is not a linear function of kernel values or features"
        if "TransformedTargetRegressor" in names:
            why = "transforms the target, so its predictions are not sums"
        elif SVM in names:
            why = f"has kernel={step.kernel!r}; use kernel='precomputed' after a kernel of mercer"
        elif isinstance(step, Kernel | Landmarks):
            why = "is the last step, and nothing decides after it; add an estimator such as SVC(kernel='precomputed')"
        _refuse(step, why)
    weights, bias = function
    weights = np.asarray(weights.toarray() if sparse.issparse(weights) else weights, dtype=np.float64)
    classes, confounds = getattr(step, "classes_", None), None
    outputs = _outputs(len(weights), classes)
    if SVM in names and len(weights) > 1:
        pairs = list(combinations(range(len(step.classes_)), 2))
        outputs = tuple(f"{step.classes_[i]} - {step.classes_[j]}" for i, j in pairs)
        if step.decision_function_shape == "ovr":
            signs = np.zeros((len(step.classes_), len(pairs)))  # a class sums its decisions against all others
            for at, (i, j) in enumerate(pairs):
                signs[i, at], signs[j, at] = 1.0, -1.0
            weights, bias, outputs = signs @ weights, signs @ bias, _outputs(len(signs), classes)
    if isinstance(step, KernelRidge):
        chain = (*chain, step.kernel_) if isinstance(step.kernel, Kernel) else chain
        slope = np.atleast_2d(np.asarray(step.confound_coef_).T)
        confounds = slope if slope.size else None
    return Decision(tuple(_backward(chain, weights, bias)), bias, outputs, classes, confounds)


def _process(step: Any, chain: tuple[Any, ...]) -> Decision:
    """Return the mean of a Gaussian process; of a classifier, that of its latent functions."""
    if hasattr(step, "base_estimator_"):
        base = step.base_estimator_
        if hasattr(base, "estimators_"):
            return _stacked([_process(part, chain) for part in base.estimators_], step.classes_)
        return _process(base, chain)
    if not isinstance(step.kernel_, GPKernel):
        _refuse(step, f"has the kernel {step.kernel_}; use one kernel of mercer, kernel.as_gp()")
    kernel, reference, _ = step.kernel_.kernel.sources(unwrapped(step.X_train_))
    if hasattr(step, "alpha_"):
        scale = np.atleast_1d(step._y_train_std)
        weights = np.atleast_2d(np.asarray(step.alpha_).T) * scale[:, None]
        bias, classes = np.broadcast_to(np.atleast_1d(step._y_train_mean), len(weights)).astype(float), None
    else:
        weights, bias, classes = np.atleast_2d(step.y_train_ - step.pi_), np.zeros(1), step.classes_
    terms = (Term(chain, kernel, np.asarray(weights, dtype=np.float64), "objects", reference),)
    return Decision(terms, bias, _outputs(len(weights), classes), classes)


def _outputs(number: int, classes: Any) -> tuple[str, ...]:
    """Name the outputs: the positive class of two, every class, or targets."""
    if classes is not None and np.ndim(classes) == 1 and len(classes) in (2, number):
        return tuple(str(label) for label in (classes[1:] if number == 1 else classes))
    return ("decision",) if number == 1 else tuple(f"target {i}" for i in range(number))


def _mean(parts: list[Decision]) -> Decision:
    """Return the mean of several decisions between the same classes."""
    terms = tuple(term._replace(weights=term.weights / len(parts)) for part in parts for term in part.terms)
    bias = np.mean([part.bias for part in parts], axis=0)
    return Decision(terms, bias, parts[0].outputs, parts[0].classes)


def _stacked(parts: list[Decision], classes: Any) -> Decision:
    """Return several decisions with one output each as one with several outputs."""
    terms = []
    for row, part in enumerate(parts):
        for term in part.terms:
            weights = np.zeros((len(parts), term.weights.shape[1]))
            weights[row] = term.weights[0]
            terms.append(term._replace(weights=weights))
    bias = np.concatenate([part.bias for part in parts])
    return Decision(tuple(terms), bias, _outputs(len(parts), classes), classes)


# -- transformers after a kernel -------------------------------------------------------------------------------


def _backward(chain: tuple[Any, ...], weights: Floats, bias: Floats) -> Iterator[Term]:
    """Yield the terms of weights of the output of a chain; constants are added to ``bias``, in place."""
    if not chain:
        raise NoKernel("This pipeline has no kernel of mercer, so there is nothing to explain. Use one as a step.")
    *rest, step = chain
    before = tuple(rest)
    check_fitted(step, PURPOSE)
    names = kinds(step)
    if is_word(step, "passthrough"):
        yield from _backward(before, weights, bias)
    elif "Pipeline" in names:
        yield from _backward((*before, *(part for _, part in step.steps)), weights, bias)
    elif "FeatureUnion" in names:
        used = [(name, part) for name, part in step.transformer_list if not is_word(part, "drop")]
        for (name, part), at in zip(used, _blocks(step, [part for _, part in used], weights.shape[1]), strict=True):
            factor = float((step.transformer_weights or {}).get(name, 1.0))
            yield from _backward((*before, part), weights[:, at] * factor, bias)
    elif isinstance(step, Landmarks):
        if step.explicit_:
            yield Term(before, step.kernel_, weights, "features")
        else:
            yield Term(before, step.kernel_, weights @ step._projection.T, "objects", step._landmark_side.source)
    elif isinstance(step, Kernel):
        yield Term(before, step, weights)
    else:
        inner, constants = _affine(step, names, weights)
        bias += constants
        yield from _backward(before, inner, bias)


def _blocks(step: Any, parts: list[Any], total: int) -> list[slice]:
    """Return the columns of each transformer of a union; one may not tell how many it gives."""
    widths = []
    for part in parts:
        try:
            widths.append(n_objects(part.train_) if isinstance(part, Kernel) else len(part.get_feature_names_out()))
        except Exception:  # some transformers have no names, or want those of their input
            widths.append(-1)
    if widths.count(-1) > 1:
        _refuse(step, "has parts that do not tell how many columns they give")
    known = sum(width for width in widths if width >= 0)
    ends = np.cumsum([0, *(total - known if width < 0 else width for width in widths)]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def _affine(step: Any, names: set[str], weights: Floats) -> tuple[Floats, Floats]:
    """Return the weights of the input of an affine step, and the constants."""
    if SELECTOR in names:
        selected = step.get_support()
        found = np.zeros((len(weights), len(selected)))
        found[:, selected] = weights
        return found, np.zeros(len(weights))
    if "KernelCenterer" in names:
        total = weights.sum(axis=1)
        constant = step.K_fit_all_ * total - weights @ step.K_fit_rows_
        return weights - (total / weights.shape[1])[:, None], constant
    if names & SCALERS and not getattr(step, "clip", False):
        scale = 1.0 if step.scale_ is None else step.scale_
        inner = weights * scale if "MinMaxScaler" in names else weights / scale
    elif names & {"PCA", "TruncatedSVD"}:
        scale = np.sqrt(step.explained_variance_) if getattr(step, "whiten", False) else 1.0
        inner = (weights / scale) @ step.components_
    else:
        _refuse(step, "between kernel and estimator is not known to be linear")
    return inner, weights @ np.asarray(step.transform(np.zeros((1, inner.shape[1]))))[0]


def _refuse(step: Any, why: str) -> NoReturn:
    raise NotRead(
        f"{type(step).__name__} {why}. mc.explain reads a kernel of mercer, or mc.Features of one, before SVC, SVR, "
        "KernelRidge, a linear model or a Gaussian process."
    )
