"""Fitted steps of a pipeline, reduced to the columns of their input that they read.

A pipeline is read backward, by `Narrowing.needs`: which columns of its input has a step to get so that it can answer?
Then it is built forward, by `Narrowing.narrowed`: given the columns that are left, return the step for these, and say
which columns it gives itself. Columns are indices of the columns of the original pipeline; None stands for all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer._array import to_numpy
from mercer.kernels import _estimators as estimators
from mercer.kernels._copies import fresh, sklearn_name, unfitted
from mercer.kernels._data import n_objects
from mercer.kernels._evaluation import Side
from mercer.kernels._needs import OUTPUT, Kept, Needs, Objects, blocks, cancels, joined, shifted
from mercer.kernels._subset import subset
from mercer.kernels._trained import TrainedWrapper, sample
from mercer.kernels.base.compound import Compound
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.kernelridge import KernelRidge
from mercer.kernels.landmarks import Landmarks

SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
INSIDE = {
    "FixedThresholdClassifier": "estimator_",
    "FrozenEstimator": "estimator",
    "TransformedTargetRegressor": "regressor_",
    "TunedThresholdClassifierCV": "estimator_",
    "_CalibratedClassifier": "estimator",
}
"""Estimators around one fitted estimator that reads the same input, and the attribute that it is."""
LISTS = {
    "CalibratedClassifierCV": "calibrated_classifiers_",
    "MultiOutputClassifier": "estimators_",
    "MultiOutputRegressor": "estimators_",
    "OneVsRestClassifier": "estimators_",
    "StackingClassifier": "estimators_",
    "StackingRegressor": "estimators_",
    "VotingClassifier": "estimators_",
    "VotingRegressor": "estimators_",
}
"""Estimators around several fitted estimators that all read the same input, and the attribute that lists these."""


class Narrowing:
    """One pass over a fitted pipeline; ``kept`` lists the training objects that stay."""

    def __init__(self) -> None:
        self.kept: list[Objects] = []

    # -- backward -----------------------------------------------------------------------------------------

    def needs(self, step: Any, out: Needs) -> Needs:
        """Return what a fitted step reads of its input, if ``out`` is read of what it gives."""
        check_fitted(step)
        name = sklearn_name(step)
        if name == "Pipeline":
            return self._chain(step, out)[0]
        if name in SEARCHES:
            return self.needs(fitted(step, "best_estimator_"), out)
        if name in INSIDE:
            return self.needs(fitted(step, INSIDE[name]), out)
        if name in LISTS and not (name.startswith("Stacking") and step.passthrough):
            return Needs.of_all(self.needs(part, out) for part in fitted(step, LISTS[name]))
        if name == "OneVsOneClassifier":
            return self._of_pairs(step, out)
        return estimators.needs(step, out, name) or Needs(f"{_title(step)} reads every column")

    def _chain(self, pipeline: Any, out: Needs) -> list[Needs]:
        """Return what is read of the input of a pipeline, and of the output of every step."""
        found = [out]
        for _, step in reversed(pipeline.steps):
            found.append(found[-1] if is_word(step, "passthrough") else self.needs(step, found[-1]))
        return found[::-1]

    def _of_pairs(self, step: Any, out: Needs) -> Needs:
        """Return the needs of one classifier per pair of classes, which reads the columns of their samples."""
        parts = [self.needs(part, out) for part in fitted(step, "estimators_")]
        if step.pairwise_indices_ is not None:
            n = step.n_features_in_
            parts = [part.scattered(index, n) for part, index in zip(parts, step.pairwise_indices_, strict=True)]
        return Needs.of_all(parts)

    # -- forward ------------------------------------------------------------------------------------------

    def narrowed(self, step: Any, kept: Kept, out: Needs, where: str) -> tuple[Any, Kept]:
        """Return a step for the columns ``kept`` of its input, and the columns that it gives."""
        name = sklearn_name(step)
        if name in COMPOSED:
            return COMPOSED[name](self, step, kept, out, where)
        if isinstance(step, Kernel):
            return self._kernel(step, out, where)
        if isinstance(step, Landmarks):
            return self._landmarks(step, where), None
        if isinstance(step, KernelRidge) and isinstance(step.kernel, Kernel):
            return self._ridge(step, where), None
        if name in SEARCHES:
            return self.narrowed(step.best_estimator_, kept, out, where)
        if name in INSIDE:
            inside, given = self.narrowed(getattr(step, INSIDE[name]), kept, out, where)
            return fresh(step, kept, prototypes=True, **{INSIDE[name]: inside}), given
        if name in LISTS:
            place = _place(where, LISTS[name])
            found = enumerate(getattr(step, LISTS[name]))
            parts = [self.narrowed(part, kept, out, f"{place}[{i}]")[0] for i, part in found]
            return self._listed(step, kept, name, parts, where), None
        known = estimators.narrowed(step, kept, name)
        if known is not None:
            return known
        if holds_kernel(step):
            self.kept.append(_of_foreign(step, where))
        return copy.deepcopy(step), None

    def _pipeline(self, step: Any, kept: Kept, out: Needs, where: str) -> tuple[Any, Kept]:
        needs, steps = self._chain(step, out), []
        for (name, part), asked in zip(step.steps, needs[1:], strict=True):
            if not is_word(part, "passthrough"):
                part, kept = self.narrowed(part, kept, asked, _place(where, name))
            steps.append((name, part))
        made = copy.copy(step)
        made.steps, made.memory = steps, None
        return made, kept

    def _union(self, step: Any, kept: Kept, out: Needs, where: str) -> tuple[Any, Kept]:
        used = [(name, part) for name, part in step.transformer_list if not is_word(part, "drop")]
        total = None if out.columns is None else len(out.columns)
        places = blocks([width_of(part) for _, part in used], total)
        made, given = [], []
        for (name, part), at in zip(used, places, strict=True):
            left: Kept = None
            if not is_word(part, "passthrough"):
                asked = Needs(out.why) if at is None else out.block(at)
                part, left = self.narrowed(part, None, asked, _place(where, name))
            made.append((name, part))
            given.append(shifted(left, at))
        union = copy.copy(step)
        union.transformer_list = made
        return union, None if None in places else joined(given, total)

    def _column_transformer(self, step: Any, kept: Kept, out: Needs, where: str) -> tuple[Any, Kept]:
        made, given, places, start = [], [], {}, 0
        for name, part, columns in fitted(step, "transformers_"):
            at = step.output_indices_.get(name, slice(0, 0))
            left: Kept = None
            if not isinstance(part, str) and at.stop > at.start:
                part, left = self.narrowed(part, None, out.block(at), _place(where, name))
            made.append((name, part, columns))
            given.append(shifted(left, at))
            places[name] = slice(start, start + len(given[-1]))
            start += len(given[-1])
        if "remainder" in step.output_indices_ and "remainder" not in places:
            places["remainder"] = slice(start, start)
        union = copy.copy(step)
        union.transformers, union.transformers_, union.output_indices_ = unfitted(step.transformers), made, places
        return union, joined(given, None if out.columns is None else len(out.columns))

    def _pairs(self, step: Any, kept: Kept, out: Needs, where: str) -> tuple[Any, Kept]:
        indices, parts, places = step.pairwise_indices_, [], []
        for i, part in enumerate(step.estimators_):
            own, at = kept, f"{_place(where, 'estimators_')}[{i}]"
            if indices is not None and kept is not None:
                own = np.flatnonzero(np.isin(indices[i], kept))
                places.append(np.searchsorted(kept, indices[i][own]))
            parts.append(self.narrowed(part, own, out, at)[0])
        changes = {"pairwise_indices_": places} if places else {}
        return fresh(step, kept, prototypes=True, estimators_=parts, **changes), None

    def _listed(self, step: Any, kept: Kept, name: str, parts: list[Any], where: str) -> Any:
        """Return an estimator with other fitted estimators in its list."""
        changes: dict[str, Any] = {LISTS[name]: parts}
        if hasattr(step, "named_estimators_"):
            old = step.estimators_
            named = copy.copy(step.named_estimators_)
            for key, part in named.items():
                if not isinstance(part, str):
                    named[key] = parts[next(i for i, other in enumerate(old) if other is part)]
            changes["named_estimators_"] = named
        if hasattr(step, "final_estimator_"):
            place = _place(where, "final_estimator_")
            changes["final_estimator_"] = self.narrowed(step.final_estimator_, None, OUTPUT, place)[0]
        return fresh(step, kept, prototypes=True, **changes)

    # -- kernels ------------------------------------------------------------------------------------------

    def _kernel(self, kernel: Any, out: Needs, where: str) -> tuple[Any, Kept]:
        fitted(kernel, "train_")
        kernel._check_parameters()
        kernel._check_unchanged()
        n = n_objects(kernel.train_)
        if out.weights is not None and _cancels(kernel, out):
            out = Needs("fewer would change the rounding errors of values that nearly cancel")
        index = out.indices(n)
        taken = subset(kernel, index, out.weights)
        self.kept.append(Objects(where or _title(kernel).lower(), len(index), n, out.why))
        self._references(taken, where)
        return taken, index if len(index) < n else None

    def _references(self, kernel: Any, where: str) -> None:
        """Note the parts of a kernel that compare every new object with training objects of their own."""
        if isinstance(kernel, TrainedWrapper) and kernel._has_reference and kernel._known is None:
            n = n_objects(kernel._inner.train_)
            self.kept.append(
                Objects(
                    where or _title(kernel).lower(), n, n, f"{_title(kernel)} compares every object with all of them"
                )
            )
            return
        for part in kernel.kernels_ if isinstance(kernel, Compound) else ():
            self._references(part, where)

    def _landmarks(self, step: Any, where: str) -> Any:
        kernel = fitted(step, "kernel_")
        n = n_objects(kernel.train_)
        taken = subset(kernel, np.arange(n))
        own = {}
        if not step.explicit_:
            landmarks = step._landmark_side.source
            own["_landmark_side"] = Side(taken.train_ if landmarks is kernel.train_ else landmarks)
        made = fresh(step, None, prototypes=True, kernel_=taken, **own)
        why = "a kernel has one, its features need none" if step.explicit_ else f"landmarks of {_title(step)}"
        self.kept.append(Objects(where or _title(step).lower(), n, getattr(step, "_n_training", n), why))
        self._references(taken, where)
        return made

    def _ridge(self, step: Any, where: str) -> Any:
        needs = estimators.ridge_needs(step)
        kernel, left = self._kernel(fitted(step, "kernel_"), needs, where)
        return estimators.narrowed_ridge(step, left, kernel_=kernel)


COMPOSED: dict[str, Callable[..., tuple[Any, Kept]]] = {
    "ColumnTransformer": Narrowing._column_transformer,
    "FeatureUnion": Narrowing._union,
    "OneVsOneClassifier": Narrowing._pairs,
    "Pipeline": Narrowing._pipeline,
}
"""Estimators made of several whose inputs differ, and how they are narrowed."""

# -- helpers -----------------------------------------------------------------------------------------------


def holds_kernel(step: Any) -> bool:
    """Whether a step has a kernel of mercer among its parameters, or those of its parts."""
    if not hasattr(step, "get_params") or isinstance(step, type):
        return False
    values = [step, *step.get_params(deep=True).values()]
    return any(isinstance(value, Kernel) or isinstance(getattr(value, "kernel", None), Kernel) for value in values)


def _cancels(kernel: Any, out: Needs) -> bool:
    """Return whether so much is subtracted from kernel values that other rounding errors would be seen."""
    if out.shifted:
        rows = to_numpy(kernel._gram(sample(kernel), kernel._train_side))
        about = rows - rows.mean(axis=1, keepdims=True)
        if cancels(out.weights, about - about.mean(axis=0), rows):
            return True
    if isinstance(kernel, TrainedWrapper) and kernel._cancels(out.weights):
        return True
    return isinstance(kernel, Compound) and any(_cancels(part, out._replace(shifted=False)) for part in kernel.kernels_)


def _of_foreign(step: Any, where: str) -> Objects:
    fitted = next(
        (value for name in ("X_train_", "_fit_X", "X_fit_") if (value := getattr(step, name, None)) is not None), None
    )
    n = 0 if fitted is None else n_objects(fitted)
    return Objects(where or _title(step).lower(), n, n, f"{_title(step)} stays as it is")


def _title(step: Any) -> str:
    return type(step).__name__


def _place(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def is_word(step: Any, word: str) -> bool:
    """Whether a step is the word "passthrough" or "drop" in place of an estimator."""
    return (step is None and word == "passthrough") or (isinstance(step, str) and step == word)


PURPOSE = "mc.compact keeps what a pipeline has learned."


def check_fitted(step: Any, purpose: str = PURPOSE) -> None:
    """Raise if a step of a pipeline is not fitted."""
    if not hasattr(step, "fit") or isinstance(step, type):
        return
    try:
        check_is_fitted(step, "train_" if isinstance(step, Kernel) else None)
    except NotFittedError:
        raise NotFittedError(f"This {_title(step)} is not fitted. Call fit(X, y) first: {purpose}") from None


def fitted(step: Any, name: str, purpose: str = PURPOSE) -> Any:
    """Return what ``fit`` has set, or raise."""
    check_fitted(step, purpose)
    if not hasattr(step, name):
        raise NotFittedError(f"This {_title(step)} has no {name}. Call fit(X, y) first, in a search with refit=True.")
    return getattr(step, name)


def width_of(step: Any) -> int | None:
    """Return the number of columns that a fitted transformer gives; None if it does not tell."""
    if isinstance(step, Kernel):
        return n_objects(fitted(step, "train_"))
    try:
        return len(step.get_feature_names_out())
    except Exception:  # some transformers have no names, or want those of their input
        return None
