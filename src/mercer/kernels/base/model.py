"""Kernels between models, one model per sample."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mercer._array import Array, Floats, Indices, beside, namespace, to_numpy
from mercer._batch import Batch
from mercer._checks import is_listing, is_number, is_whole
from mercer._coupling import Coupling
from mercer._parameters import NONE, Rules, instance_of, whole
from mercer.families.estimator import Estimator
from mercer.kernels._outcomes import described, log_features, outcome_names
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.base.transformer import NoFeatures
from mercer.models.discount import Discounted, Lengths, check_lengths, discounted_sum

LONGEST = 10_000_000
"""Number of observations of the longest sequences that are compared."""


def _are_batches(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(batch, Batch) for batch in X)


class ModelKernel(Kernel):
    """A kernel between models: batches are used as they are, data are fitted with ``model.fit_each``."""

    _parameters: ClassVar[Rules] = {
        "model": instance_of(
            Estimator,
            what="an estimator",
            cure="Pass one that is not fitted, such as mc.Gaussian(); None compares batches.",
        )
        | NONE
    }
    model: Any

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Return the Gram matrix of ``X``, or the cross-Gram of ``X`` and ``Y``, as every kernel does.

        A list of batches, such as networks of different structures, stands for all of their members.
        """
        if not (_are_batches(X) or _are_batches(Y)):
            return super().__call__(X, Y)
        left = X if _are_batches(X) else [X]
        right = left if Y is None or Y is X else Y if _are_batches(Y) else [Y]
        blocks: dict[tuple[int, int], Array] = {}
        for i, j in np.ndindex(len(left), len(right)):
            known = blocks[j, i].T if right is left and j < i else None
            same = right is left and i == j
            blocks[i, j] = super().__call__(left[i], None if same else right[j]) if known is None else known
        xp = namespace(*blocks.values())
        rows = [xp.concat([blocks[i, j] for j in range(len(right))], axis=1) for i in range(len(left))]
        return xp.concat(rows, axis=0)

    def _accept(self, X: Any, *, reset: bool) -> Any:
        if _are_batches(X):
            raise TypeError(
                f"{type(self).__name__} is fitted to one batch; got a list of {len(X)}. Use kernel(X) for the matrix "
                f"of all, or {type(X[0]).__name__}.concat(X) if they have the same structure."
            )
        if isinstance(X, Batch):
            if X.ndim != 1:
                raise ValueError(f"A kernel needs a batch of shape (N,); got {X.shape}. Use p[3:4] or p.reshape(-1).")
            return X
        if self.model is None:
            raise TypeError(
                f"{type(self).__name__}() has no model, and {type(X).__name__} is not a batch of distributions. Pass "
                f"a model to fit to each sample, as in {type(self).__name__}(mc.Gaussian()), or a batch such "
                "as mc.Gaussians(...)."
            )
        if reset:
            return self.model.accept(X, owner=self, reset=True, context=None)
        return self._fits_new.accept(X, owner=self, reset=False, context=getattr(self, "context_", None))

    @property
    def _fits_new(self) -> Any:
        """The model that fits new samples: that of `fit`, which files of earlier versions have as the parameter."""
        return getattr(self, "_fitted_model", self.model)

    def _accepts_empty(self) -> bool:
        return bool(getattr(self.model, "accepts_empty", False))

    def _learn(self, X: Any, y: Any = None) -> None:
        for name in ("context_", "_fitted_model"):
            self.__dict__.pop(name, None)
        if not isinstance(X, Batch):
            self._fitted_model = clone(self.model)  # later changes of the parameter do not affect new samples
            self.context_ = self._fitted_model.shared_context(X)

    def _source(self, X: Any) -> Any:
        if isinstance(X, Batch):
            return X
        if not hasattr(self, "context_"):
            raise NotFittedError(
                f"This {type(self).__name__} was fitted to a batch of models and has learned nothing about data. Fit "
                "it to data, or pass a batch."
            )
        return self._fits_new._fit_accepted(X, self.context_)

    def _match(self, source: Any, reference: Any) -> Any:
        return source.matched(reference)

    @property
    def _learns_from_call(self) -> bool:
        return self.model is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.model, Estimator):
            tags.input_tags = self.model.__sklearn_tags__().input_tags
            # A model of one row needs a prior for the coordinates that the row lacks.
            tags.input_tags.allow_nan &= getattr(self.model, "prior", None) is not None
        return tags


class CoupledKernel(ModelKernel):
    """A kernel between models that is computed by one coupling of their batches."""

    _parameters: ClassVar[Rules] = {
        "length": whole(
            1,
            LONGEST,
            cure="It is the number of observations of the compared sequences, each a step of the computation; "
            "mc.Discounted(0.9) compares all lengths.",
        )
        | instance_of(Discounted)
        | NONE
    }
    length: Any
    time: Any = "joint"
    _path: tuple[int, ...] | None = None
    """Lengths of a copy that `path` evaluates."""
    _with_features: ClassVar[str] = ""
    """The distributions whose explicit features are known, for messages; empty if there are none."""
    _other_features: ClassVar[str] = ""
    """How to get other features, for messages."""

    def _coupling(self) -> Coupling:
        raise NotImplementedError

    def _coupling_of(self, source: Any) -> Any:
        """Return the coupling of a batch; models whose hidden paths are drawn need more than the kernel of leaves."""
        return self._coupling()

    def _lengths(self) -> Any:
        if self._path is not None:
            return self._path
        return self.length if self.length is None or isinstance(self.length, Discounted) else (int(self.length),)

    def _prepare(self, source: Any) -> Any:
        if not hasattr(source, "couple"):
            raise TypeError(
                f"{type(self).__name__} compares one fitted model per sample; {type(source).__name__} is a single "
                "shared model. Use mc.Marginalization or mc.Fisher."
            )
        operand: Any
        if self.time == "independent":
            operand = step_operand(source, self._coupling_of(source), self._lengths())
        else:
            operand = source.couple(self._coupling_of(source), self._lengths())
        if isinstance(self.length, Discounted) and self._path is None and not self.normalize:
            operand.alone()  # raises if a self-kernel is infinite; normalization computes it anyway
        return operand

    def _tile(self, a: Any, b: Any) -> Array:
        return self._single(a, a.pair(b))

    def _self(self, a: Any) -> Array:
        return self._single(a, a.alone())

    def features(self, X: Any) -> Array:
        """Return explicit features whose inner products are the kernel, if the distributions have any."""
        if isinstance(X, Batch) and isinstance(getattr(self, "train_", None), Batch):
            self._match(X, self.train_)  # raises unless they have the same outcomes in the same order
        return super().features(X)

    def _features(self, a: Any) -> Array:
        values = log_features(a) if self._with_features else super()._features(a)
        if values is None:
            name, cure = type(self).__name__, self._other_features
            raise NoFeatures(
                f"{name} has exact explicit features only of {self._with_features}{described(a)}. {cure}Use its Gram "
                f"matrix, Landmarks({name}(...)) or EmpiricalKernelMap({name}(...))."
            )
        return values

    def _feature_names(self, width: int) -> list[str]:
        names = outcome_names(self.train_, width) if self._with_features else None
        return super()._feature_names(width) if names is None else names

    def _single(self, operand: Any, values: Array) -> Array:
        """Drop the axis of lengths if there is only one."""
        return values[0, ...] if self._path is None and _by_length(operand) else values

    def path(self, X: Any, Y: Any = None, *, lengths: Any, log: bool = False) -> Array:
        """Return the kernel for several lengths, from one pass over the longest.

        Parameters
        ----------
        X : data
            Objects to compare, as in ``kernel(X)``: models of sequences, or data to fit them to.
        Y : data, default=None
            The other side; None for the Gram matrices of ``X``.
        lengths : iterable of int
            Numbers of observations, in any order. The kernel's own ``length`` is ignored.
        log : bool, default=False
            Whether to return logarithms.

        Returns
        -------
        array of shape (H, N, M)
            One matrix per length, each as ``kernel.set_params(length=...)(X, Y)`` gives it.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> models = mc.HMMs(
        ...     initial=[[1.0], [1.0]],
        ...     transition=[[[1.0]], [[1.0]]],
        ...     emission=mc.Categoricals([[[0.5, 0.5]], [[0.9, 0.1]]], alphabet="HT"),
        ... )
        >>> mc.ProbabilityProduct(rho=1.0).path(models, lengths=[1, 2, 10])[:, 0, 1].round(4)
        array([0.7809, 0.6098, 0.0843])
        """
        asked = [lengths] if is_number(lengths) else list(lengths) if is_listing(lengths) else []
        wrong = [length for length in asked if not is_whole(length, 1)]
        if wrong or not asked:
            raise ValueError(f"lengths must be one or more whole numbers, 1 or more; got {lengths!r}.")
        distinct = sorted({int(length) for length in asked})
        if distinct[-1] > LONGEST:
            raise ValueError(
                f"lengths must be at most {LONGEST}, since every observation is a step of the computation; got "
                f"{distinct[-1]}. Use length=mc.Discounted(0.9) for all lengths."
            )
        asking = copy.copy(self)
        asking._path = tuple(distinct)  # so that its own length is not used
        kernel, left, right = asking.sources(X, Y)
        kernel = copy.copy(kernel)
        kernel._path = asking._path
        a, b = kernel._evaluation.sides(left, right)
        if not _by_length(a.operand):
            raise TypeError(
                f"{type(left).__name__} has no path over lengths, because it is not a model of sequences. Use "
                "kernel(X)."
            )
        values = kernel._evaluation.matrix(a, b, log=log)
        place = [distinct.index(int(length)) for length in asked]
        return (
            values
            if place == list(range(len(distinct)))
            else namespace(values).take(values, beside(values, place), axis=0)
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.length is None and self._path is None and self.model is not None and self.model.of_sequences:
            check_lengths(None)  # raise now, not after all models are fitted


def _by_length(operand: Any) -> bool:
    """Whether the operand is of a model of sequences: its values have a first axis of lengths."""
    return bool(getattr(operand, "by_length", False))


def step_operand(models: Any, coupling: Coupling, lengths: Lengths | None) -> StepOperand:
    """Prepare models that answer ``marginals(length)``, the distributions of single observations, ``(N, length)``."""
    if not hasattr(models, "marginals"):
        raise TypeError(
            "time='independent' needs `marginals`, the distribution of the observation at every step, which "
            f"{type(models).__name__} does not have. Use time='joint', or a model such as mc.LDS()."
        )
    check_lengths(lengths)
    assert lengths is not None
    return StepOperand(models, coupling, lengths)


class StepOperand:
    """Models that answer tiles: log kernels of each length, sums over time of those of the marginals."""

    by_length: ClassVar[bool] = True
    """Answers have a first axis of lengths."""
    order: Indices | None = None
    tile_hint: ClassVar[int] = 64

    def __init__(self, models: Any, coupling: Coupling, lengths: Lengths) -> None:
        self.models = models
        self.coupling = coupling
        self.lengths = lengths

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.models.shape)

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, key: Any) -> StepOperand:
        return StepOperand(self.models[key], self.coupling, self.lengths)

    def pair(self, other: StepOperand) -> Floats:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths; H = 1 for discounted ones."""

        def table(lengths: Indices, rows: slice) -> Floats:
            last = int(max(lengths))
            p, q = self.models[rows].marginals(last), other.models.marginals(last)
            return _cumulated((to_numpy(self.coupling.leaf(p[:, t], q[:, t])) for t in range(last)), lengths)

        return self._over_lengths(table)

    def alone(self) -> Floats:
        """Log kernel of every model with itself, ``(H, N)``; raises where a discounted one is infinite."""

        def table(lengths: Indices, rows: slice) -> Floats:
            last = int(max(lengths))
            p = self.models[rows].marginals(last)
            single = (p[:, t].reshape(-1, 1) for t in range(last))
            return _cumulated((to_numpy(self.coupling.leaf(one, one))[:, 0, 0] for one in single), lengths)

        return self._over_lengths(table)

    def _over_lengths(self, table: Callable[[Indices, slice], Floats]) -> Floats:
        if isinstance(self.lengths, Discounted):
            return np.asarray(discounted_sum(table, self.lengths.d, np.arange(len(self)))[None])
        return table(np.asarray(self.lengths), slice(None))


def _cumulated(steps: Iterable[Floats], lengths: Indices) -> Floats:
    """Return the sums of the log kernels of the first steps at the given lengths, ``(H, ...)``."""
    total: Any = 0.0
    found = {}
    for length, step in enumerate(steps, 1):
        total = total + step
        if length in lengths:
            found[length] = total
    return np.stack([found[length] for length in lengths.tolist()])
