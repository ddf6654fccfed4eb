"""Fitted pipelines as linear functions of kernel values or features: what their decisions are made of."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse

from mercer._array import Floats, to_numpy
from mercer._checks import NoKernel, NotRead
from mercer._config import without_caches
from mercer.data.channels import inside
from mercer.kernels._data import unwrapped
from mercer.kernels._estimators import (
    AFFINE,
    SVM,
    LinearFunction,
    LinearInFeatures,
    check_fitted,
    found_by_search,
    is_word,
    kinds,
    linear_function,
)
from mercer.kernels._evaluation import Side
from mercer.kernels._explain._explanation import Output
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.compacted import Compacted
from mercer.kernels.gaussianprocess import GaussianProcess
from mercer.kernels.kernelridge import KernelRidge
from mercer.kernels.landmarks import Landmarks

PURPOSE = "mc.explain reads what a pipeline has learned."


class Decision(NamedTuple):
    """The R decisions of a fitted pipeline: weighted sums of kernel values or features, and constants."""

    steps: tuple[Any, ...]  # fitted transformers between the input and the kernel
    kernel: Any
    weights: Floats  # (R, N) of N reference objects, or (R, P) of P explicit features
    bias: Floats  # (R,)
    outputs: tuple[str, ...]
    classes: Any = None
    over: str = "objects"  # or "features"
    reference: Any = None  # the reference objects; None for the training objects of the kernel

    @property
    def single(self) -> bool:
        """Whether there is one output, which has no axis in decisions."""
        return len(self.outputs) == 1

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
        return kernel._match(kernel._source(kernel._admit(X, reset=False)), self.objects)

    def rows(self, X: Any) -> Any:
        """Return the features of an input of the kernel, or its kernel values with the reference objects."""
        if self.over == "features":
            return self.kernel.features(X)
        side = self.kernel._train_side if self.reference is None else Side(self.reference)
        return np.asarray(to_numpy(self.kernel._gram(Side(self.source(X)), side)), dtype=np.float64)

    def values(self, X: Any) -> Floats:
        """Return the decisions on an input of the pipeline, ``(n_samples, R)``."""
        with without_caches():
            sums = self.rows(self.transformed(X)) @ self.weights.T
            return np.asarray(to_numpy(sums), dtype=np.float64) + self.bias

    def taken(self, output: Output) -> Decision:
        """Return the decision of one output."""
        row = slice(output.at, output.at + 1)
        weights, bias = output.sign * self.weights[row], output.sign * self.bias[row]
        return self._replace(weights=weights, bias=bias, outputs=(output.name,))


class Decisions(NamedTuple):
    """The decisions of several fitted pipelines: of groups, which follow each other, the means of their members."""

    groups: tuple[tuple[Decision, ...], ...]
    outputs: tuple[str, ...]
    classes: Any = None

    def taken(self, output: Output) -> Decisions:
        """Return the decision of one output."""
        if len(self.groups) == 1:
            group = tuple(each.taken(output) for each in self.groups[0])
        else:
            group = self.groups[output.at]
        return Decisions((group,), (output.name,), self.classes)


def decisions_of(pipeline: Any) -> Decisions:
    """Split a fitted pipeline, or several inside one estimator, into their decisions.

    A calibrated classifier decides by the mean of its classifiers, whose decisions are mapped to probabilities; a
    classifier of one class against the rest has a pipeline for every class.
    """
    step = pipeline
    if hasattr(step, "fit") and not isinstance(step, type):
        step = found_by_search(step, PURPOSE)
    names = kinds(step)
    if "CalibratedClassifierCV" in names:
        parts = [decisions_of(each.estimator) for each in step.calibrated_classifiers_]
        if any(part.outputs != parts[0].outputs for part in parts):
            _refuse(step, "has classifiers that know different classes")
        groups = tuple(sum(members, ()) for members in zip(*(part.groups for part in parts), strict=True))
        return Decisions(groups, parts[0].outputs, step.classes_)
    if "OneVsRestClassifier" in names:
        if step.multilabel_:
            _refuse(step, "has several labels for one sample")
        parts = [decisions_of(each) for each in step.estimators_]
        outputs = _outputs(len(parts), step.classes_)
        if any(len(part.groups) != 1 or len(part.outputs) != 1 for part in parts):
            _refuse(step, "has estimators with several outputs")
        return Decisions(
            tuple(
                tuple(each._replace(outputs=(name,)) for each in part.groups[0])
                for part, name in zip(parts, outputs, strict=True)
            ),
            outputs,
            step.classes_,
        )
    decision = decision_of(pipeline)
    return Decisions(((decision,),), decision.outputs, decision.classes)


def decision_of(pipeline: Any) -> Decision:
    """Split a fitted pipeline into its transformers, kernel and the linear function of this."""
    if hasattr(pipeline, "witness_weights"):  # a two-sample test
        if pipeline.kernel is None:
            raise TypeError(
                "This test had a precomputed matrix, which has no positions. Pass the data and the kernel to "
                "two_sample_test."
            )
        kernel, reference, _ = pipeline.kernel.sources(pipeline.objects)
        return Decision((), kernel, pipeline.witness_weights()[None], np.zeros(1), ("X - Y",), reference=reference)
    if isinstance(pipeline, type) or not hasattr(pipeline, "fit"):
        raise TypeError(
            f"pipeline must be a fitted pipeline; got {pipeline!r}. Use mc.explain(make_pipeline(kernel, "
            "SVC(kernel='precomputed')).fit(X, y), X), for example."
        )
    return _read(pipeline, ())


def _read(step: Any, chain: tuple[Any, ...]) -> Decision:
    """Return the decision of a fitted estimator after a chain of fitted transformers."""
    step = found_by_search(step.estimator if isinstance(step, Compacted) else step, PURPOSE)
    names = kinds(step)
    if "Pipeline" in names:
        *before, last = [part for _, part in step.steps if not is_word(part, "passthrough")]
        return _read(last, (*chain, *before))
    process = isinstance(step, GaussianProcess)
    function = LinearFunction(np.atleast_2d(step.dual_coef_.T), np.ravel(step.intercept_)) if process else None
    function = function or linear_function(step)
    if function is None:
        why = "is not a linear function of kernel values or features"
        if SVM in names:
            why = f"has kernel={step.kernel!r}; use kernel='precomputed' after a kernel of mercer"
        elif isinstance(step, Kernel | Landmarks):
            why = "is the last step, and nothing decides after it; add an estimator such as SVC(kernel='precomputed')"
        _refuse(step, why)
    weights, bias = function
    weights = np.asarray(weights.toarray() if sparse.issparse(weights) else weights, dtype=np.float64)
    classes = getattr(step, "classes_", None)
    outputs = _outputs(len(weights), classes)
    if isinstance(step, LinearInFeatures):
        return Decision(chain, step.kernel_, weights, bias, outputs, classes, "features")
    if SVM in names and len(weights) > 1:
        pairs = list(combinations(range(len(step.classes_)), 2))
        outputs = tuple(f"{step.classes_[i]} - {step.classes_[j]}" for i, j in pairs)
        if step.decision_function_shape == "ovr":
            signs = np.zeros((len(step.classes_), len(pairs)))  # a class sums its decisions against all others
            for at, (i, j) in enumerate(pairs):
                signs[i, at], signs[j, at] = 1.0, -1.0
            weights, bias, outputs = signs @ weights, signs @ bias, _outputs(len(signs), classes)
    if isinstance(step, KernelRidge) and np.size(step.confound_coef_):
        _refuse(step, "was fitted with confounds, which have no positions")
    if process or (isinstance(step, KernelRidge) and isinstance(step.kernel, Kernel)):
        chain = (*chain, step.kernel_)
    while chain:
        *rest, last = chain
        check_fitted(last, PURPOSE)
        if isinstance(last, Kernel):
            return Decision(tuple(rest), last, weights, bias, outputs, classes)
        if isinstance(last, Landmarks) and last.explicit_:
            return Decision(tuple(rest), last.kernel_, weights, bias, outputs, classes, "features")
        if isinstance(last, Landmarks):
            weights, reference = weights @ last._projection.T, last._landmark_side.source
            return Decision(tuple(rest), last.kernel_, weights, bias, outputs, classes, reference=reference)
        if not kinds(last) & AFFINE or getattr(last, "clip", False):
            _refuse(last, "between kernel and estimator is not known to be linear")
        # An affine step is known by what it makes of nothing, and of the unit vectors.
        width = last.n_features_in_
        level = np.asarray(last.transform(np.zeros((1, width))))
        bias = bias + weights @ level[0]
        weights, chain = weights @ (np.asarray(last.transform(np.eye(width))) - level).T, tuple(rest)
    raise NoKernel("This pipeline has no kernel of mercer, so there is nothing to explain. Use one as a step.")


def _outputs(number: int, classes: Any) -> tuple[str, ...]:
    """Name the outputs: the positive class of two, every class, or targets."""
    if classes is not None and np.ndim(classes) == 1 and len(classes) in (2, number):
        return tuple(str(label) for label in (classes[1:] if number == 1 else classes))
    return ("decision",) if number == 1 else tuple(f"target {i}" for i in range(number))


def _refuse(step: Any, why: str) -> NoReturn:
    raise NotRead(
        f"{type(step).__name__} {why}. mc.explain reads a kernel of mercer, or mc.Features of one, before SVC, SVR, "
        "KernelRidge, GaussianProcess or a linear model."
    )
