"""Weighted sum of kernels whose weights are learned from y by centered alignment."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from mercer._array import Array, Floats, logsumexp, namespace, to_numpy
from mercer._parameters import Rule, Rules, one_of
from mercer._verdict import Verdict, weakest
from mercer.kernels._alignment import align_matrices, centered_target
from mercer.kernels._data import n_objects
from mercer.kernels._evaluation import Side
from mercer.kernels.base.compound import Compound, Views
from mercer.kernels.base.kernel import Kernel


class TargetAligned(Compound):
    r"""Weighted sum of kernels with the weights that maximize its centered alignment with y.

    Parameters
    ----------
    kernels : list of Kernel
        The parts; their parameters are ``k0__...``, ``k1__...`` in a search.
    target : {"auto", "classes", "numbers"}, default="auto"
        Type of y: classes, or numbers to be predicted. "auto" treats floats as numbers and everything else as classes.

    Attributes
    ----------
    weights_ : array of shape (n_kernels,)
        Nonnegative weights of the kernels, which sum to 1. Kernels of weight 0 are not evaluated again.
    alignments_ : array of shape (n_kernels,)
        Centered alignment of each kernel by itself with y.
    alignment_ : float
        Centered alignment of the weighted sum, at least the largest of ``alignments_``.

    See Also
    --------
    target_aligned : Function that returns an ordinary sum of kernels.

    Notes
    -----
    With centered matrices :math:`K_k^c = H K_k H` and the target :math:`T = H Y Y^\top H` (Y the indicators of the
    classes, or the numbers), the alignment :math:`\langle\sum_k w_k K_k^c, T\rangle_F / \|\sum_k w_k K_k^c\|_F` over
    :math:`w \ge 0` is largest at the solution of a nonnegative least squares problem (Cortes, Mohri and Rostamizadeh
    2012, proposition 9),

    .. math:: w \propto \arg\min_{v\ge 0}\; v^\top M v - 2 v^\top a, \qquad
        M_{kl} = \langle K_k^c, K_l^c\rangle_F, \quad a_k = \langle K_k^c, T\rangle_F,

    which is :math:`M^{-1} a` if that is nonnegative.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, Algorithms for Learning Kernels Based on Centered Alignment, Journal of
    Machine Learning Research 13, 2012.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 > 1                                     # a ring, not linearly separable
    >>> kernel = mc.TargetAligned([mc.RBF(gamma=1.0), mc.Linear(normalize=False)]).fit(X, y)
    >>> kernel.weights_.round(2), kernel.alignments_.round(2)
    (array([1., 0.]), array([0.36, 0.01]))
    """

    _parameters: ClassVar[Rules] = {
        "kernels": Rule(
            "a list of one or more kernels",
            lambda value: isinstance(value, list | tuple) and len(value) > 0,
            "Use [mc.RBF(), mc.Linear()], for example.",
        ),
        "target": one_of(
            "auto", "classes", "numbers", cure="'auto' treats floats as numbers and everything else as classes."
        ),
    }

    weights_: Floats
    alignments_: Floats
    alignment_: float

    def __init__(self, kernels: Any, target: str = "auto") -> None:
        self.kernels = kernels
        self.target = target

    # -- parts and their parameters ------------------------------------------------------------------------

    def _names(self) -> tuple[str, ...]:
        return tuple(f"k{i}" for i in range(len(self.kernels))) if isinstance(self.kernels, list | tuple) else ()

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes only: the parts are k0, k1, ...
        kernels = self.__dict__.get("kernels")
        if re.fullmatch(r"k\d+", name) and isinstance(kernels, list | tuple) and int(name[1:]) < len(kernels):
            return kernels[int(name[1:])]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; ``deep`` adds the parts, k0, k1, ..., and their parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to add the parts and their parameters.
        """
        found: dict[str, Any] = super().get_params(deep=False)
        for name in self._names() if deep else ():
            part = getattr(self, name)
            found[name] = part
            if hasattr(part, "get_params"):
                found |= {f"{name}__{key}": value for key, value in part.get_params(deep=True).items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``k0__gamma`` sets a parameter of a part, ``k0`` a whole part.

        Parameters
        ----------
        **params : values
            Parameters by name.
        """
        if "kernels" in params:
            self.kernels = params.pop("kernels")
        whole = {name: params.pop(name) for name in self._names() if name in params}
        if whole:
            kept = [whole.get(name, getattr(self, name)) for name in self._names()]
            self.kernels = type(self.kernels)(kept)
        super().set_params(**params)
        return self

    # -- weights -------------------------------------------------------------------------------------------

    def _learn(self, X: Any, y: Any = None) -> None:
        self._centered_target = centered_target(y, self.target, n_objects(X))
        super()._learn(X, y)

    def _training(self, X: Any) -> Views:
        source: Views = super()._training(X)
        target = self.__dict__.pop("_centered_target")
        matrices = [to_numpy(part._gram(part._train_side, None)) for part in self.kernels_]
        self.weights_, self.alignments_, self.alignment_ = align_matrices(matrices, target)
        used = np.flatnonzero(self.weights_)
        self.kernels_ = tuple(self.kernels_[i] for i in used)
        return Views(tuple(source.parts[i] for i in used))

    def _accept(self, X: Any, *, reset: bool) -> Any:
        if reset:  # drop the results of an earlier fit
            for name in ("weights_", "alignments_", "alignment_", "kernels_", "train_"):
                self.__dict__.pop(name, None)
        return super()._accept(X, reset=reset)

    def as_sum(self) -> Kernel:
        """Return the weighted sum as an ordinary, unfitted kernel without the parts of weight 0.

        Examples
        --------
        >>> import mercer as mc
        >>> X, y = [[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]
        >>> total = mc.TargetAligned([mc.Linear(normalize=False), mc.RBF(gamma=9.0)]).fit(X, y).as_sum()
        >>> total.k1.kernel, round(total.k1.weight, 3)
        (Linear(normalize=False), 0.646)
        """
        self._check_fitted()
        return _weighted_sum(self.kernels, self.weights_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            self._ready()  # raises NotFittedError with the reason
        self._check_unchanged()

    @property
    def _needs_fit(self) -> str:
        return "it learns the weights of its parts from y"

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), "target")

    def _learned(self) -> Any:
        return super()._learned(), self.weights_

    # -- values --------------------------------------------------------------------------------------------

    def _added(self, values: list[Array]) -> Array:
        """Return the weighted sum of the values of the parts, in the domain of this kernel."""
        weights = self.weights_[self.weights_ > 0]
        if self.domain == "log":
            logs = [v + float(np.log(w)) for v, w in zip(values, weights, strict=True)]
            return logsumexp(namespace(*logs).stack(logs, axis=0), axis=0)
        return sum(float(w) * v for v, w in zip(values, weights, strict=True))

    def _tile(self, a: Views, b: Views) -> Array:
        return self._added(self._tiles(a, b))

    def _self(self, a: Views) -> Array:
        return self._added(self._diagonals(a))

    def _gram(self, left: Side, right: Side | None, *, log: bool = False) -> Array:
        # Uses the memo of the parts: the weights were learned from these pairs, and other weights need the same ones.
        log = log and self.domain == "log"
        values = []
        for k, part in enumerate(self.kernels_):
            sides = [None if side is None else part._evaluation.side(side.source.parts[k]) for side in (left, right)]
            values.append(part._gram(*sides, log=log))
        if log:
            return self._added(values)
        return sum(float(w) * v for v, w in zip(values, self.weights_[self.weights_ > 0], strict=True))

    @property
    def psd(self) -> Verdict:
        """The verdict of the weakest part."""
        self._check_parameters()
        return weakest([part.psd for part in self._parts()], "a sum of kernels with nonnegative weights")

    def __sklearn_tags__(self) -> Any:
        sound = bool(self._names()) and all(isinstance(part, Kernel) for part in self._parts())
        tags = super().__sklearn_tags__() if sound else Kernel.__sklearn_tags__(self)  # `fit` raises the error
        tags.target_tags.required = True
        return tags


def target_aligned(kernels: Any, y: Any, X: Any = None, target: str = "auto") -> Any:
    """Return the weighted sum of kernels with the largest centered alignment with y, as an ordinary kernel.

    The weights are learned from all of X and y. In a pipeline or a search use `TargetAligned`, which learns them from
    the training part of each fold.

    Parameters
    ----------
    kernels : list of Kernel
        The parts.
    y : array of shape (N,), or (N, c) of numbers
        Classes, or numbers to be predicted.
    X : data, default=None
        Input of the kernels, N objects; None if all kernels are fitted to them.
    target : {"auto", "classes", "numbers"}, default="auto"
        Type of y; "auto" treats floats as numbers and everything else as classes.

    Returns
    -------
    Kernel
        ``w0 * k0 + w1 * k1 + ...``, unfitted, without the parts of weight 0. Its attribute ``weights_`` has the weights
        of all kernels, including zeros; clones do not have it.

    See Also
    --------
    TargetAligned : Kernel that learns the weights in ``fit``.

    Notes
    -----
    Cortes, Mohri and Rostamizadeh 2012; see `TargetAligned` for the formula.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> kernel = mc.target_aligned([mc.RBF(gamma=1.0), mc.Linear()], X[:, 0] > 0, X)
    >>> kernel.weights_.round(2)
    array([0.17, 0.83])
    >>> kernel.k2.kernel, round(kernel.k2.weight, 2)
    (Linear(), 0.83)
    """
    together = TargetAligned(kernels, target=target)
    if X is None:
        weights = _weights_of_fitted(together, y)
    else:
        weights = together.fit(X, y).weights_
    total = _weighted_sum(kernels, weights)
    total.weights_ = weights
    return total


def _weights_of_fitted(together: TargetAligned, y: Any) -> Floats:
    """Return the weights of kernels that are fitted already."""
    together._check_parameters()
    parts = list(together.kernels)
    for i, part in enumerate(parts):
        if not hasattr(part, "train_"):
            raise ValueError(
                f"kernels[{i}] is {part!r}, which is not fitted, and X is missing. Call "
                "mc.target_aligned(kernels, y, X), or pass kernels that were fitted to the samples of y."
            )
    matrices = [to_numpy(part._gram(part._train_side, None)) for part in parts]
    sizes = [len(matrix) for matrix in matrices]
    if len(set(sizes)) > 1:
        raise ValueError(f"The kernels were fitted to {sizes} objects. Fit all of them to the samples of y.")
    return align_matrices(matrices, centered_target(y, together.target, sizes[0]))[0]


def _weighted_sum(kernels: Any, weights: Floats) -> Kernel:
    """Return the weighted sum of the unfitted kernels, without those of weight 0."""
    first, *rest = (float(weights[i]) * clone(kernels[i]) for i in np.flatnonzero(weights))
    total: Kernel = first
    for term in rest:
        total = total + term
    return total
