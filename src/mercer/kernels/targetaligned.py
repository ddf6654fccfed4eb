"""Weighted sum of kernels whose weights are learned from y by centered alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.utils.validation import check_array

from mercer._array import Array, Floats, as_array, safe_log, to_numpy
from mercer._parameters import Rules, one_of
from mercer._verdict import Verdict, weakest
from mercer.kernels._classes import check_target
from mercer.kernels._data import n_objects
from mercer.kernels._evaluation import Side
from mercer.kernels.algebra import Sum, added
from mercer.kernels.base.compound import Several, Views
from mercer.kernels.base.kernel import Kernel


@dataclass(eq=False, repr=False)
class TargetAligned(Several):
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
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 > 1  # a ring, not linearly separable
    >>> parts = [mc.RBF(gamma=1.0), mc.Linear(normalize=False)]
    >>> kernel = mc.kernels.TargetAligned(parts).fit(X, y)
    >>> kernel.weights_.round(2), kernel.alignments_.round(2)
    (array([1., 0.]), array([0.36, 0.01]))
    """

    _parameters: ClassVar[Rules] = {
        "target": one_of(
            "auto", "classes", "numbers", cure="'auto' treats floats as numbers and everything else as classes."
        ),
    }

    kernels: Any
    target: str = "auto"

    # -- weights -------------------------------------------------------------------------------------------

    def _learn(self, X: Any, y: Any = None) -> None:
        centered_target(y, self.target, n_objects(X))  # raises before anything is fitted
        super()._learn(X, y)

    @property
    def _learns_from_values(self) -> bool:
        return True

    def _learn_from_values(self, y: Any = None) -> None:
        super()._learn_from_values(y)
        n = len(self.train_)
        try:
            target = centered_target(y, self.target, n)
        except ValueError:  # y of all objects is checked above
            raise ValueError(
                f"y is the same for all {n} landmarks, so that no kernel can be aligned with it. Increase n_components."
            ) from None
        matrices = [to_numpy(part._gram(part._train_side, None)) for part in self.kernels_]
        self.weights_, self.alignments_, self.alignment_ = align_matrices(matrices, target)
        self.train_ = self._train_side.source = self._used(self.train_)
        self.kernels_ = tuple(self.kernels_[i] for i in np.flatnonzero(self.weights_))

    def _used(self, source: Views) -> Views:
        """Return the views of objects that have parts of positive weight."""
        return Views(tuple(source.parts[i] for i in np.flatnonzero(self.weights_)))

    def _match(self, source: Views, reference: Views) -> Views:
        known = len(source.parts) == len(self.kernels_)  # or the objects are older than the weights
        matched: Views = super()._match(source if known else self._used(source), reference)
        return matched

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
        >>> kernel = mc.kernels.TargetAligned([mc.Linear(normalize=False), mc.RBF(gamma=9.0)])
        >>> total = kernel.fit(X, y).as_sum()
        >>> total.k0.kernel, round(total.k0.weight, 3)
        (Linear(normalize=False), 0.646)
        """
        if not hasattr(self, "weights_"):
            self._ready()  # raises NotFittedError with the reason
        parts = [float(self.weights_[i]) * clone(self.kernels[i]) for i in np.flatnonzero(self.weights_)]
        return parts[0] if len(parts) == 1 else Sum(parts)

    @property
    def _needs_fit(self) -> str:
        return "it learns the weights of its parts from y"

    def _learned(self) -> Any:
        return super()._learned(), self.weights_

    # -- values --------------------------------------------------------------------------------------------

    def _added(self, values: list[Array]) -> Array:
        """Return the weighted sum of the values of the parts, in the domain of this kernel."""
        weights = self.weights_[self.weights_ > 0]
        if self.domain == "log":
            return added([v + float(np.log(w)) for v, w in zip(values, weights, strict=True)], "log")
        return added([float(w) * v for v, w in zip(values, weights, strict=True)], "linear")

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
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


NOTHING = 1e-12
"""Values below this fraction of the original matrix, target or weight are rounding errors."""


def align_matrices(matrices: list[Floats], target: Floats) -> tuple[Floats, Floats, float]:
    """Return the weights, the alignment of every matrix and that of their sum with a centered target ``(N, c)``."""
    centered, norms = zip(*(_unit(matrix) for matrix in matrices), strict=True)
    goal = target @ target.T
    goal /= np.linalg.norm(goal)
    own = np.array([np.sum(matrix * goal) for matrix in centered])
    between = np.array([[np.sum(left * right) for right in centered] for left in centered])
    weights = _nonnegative(between, own)
    if not weights.any():
        raise ValueError(
            "No kernel is aligned with y: their centered alignments are "
            f"{', '.join(f'{value:.3g}' for value in own)}. Use a kernel that separates the classes or numbers."
        )
    alignment = float(own @ weights / np.sqrt(weights @ between @ weights))
    # For the matrices before scaling, in the log domain, since squares of their norms may overflow.
    logs = safe_log(weights) - np.log(norms)
    raw = np.exp(logs - logs.max())
    return raw / raw.sum(), own, alignment


def _unit(matrix: Floats) -> tuple[Floats, float]:
    """Center a matrix and divide it by its Frobenius norm; zero if only rounding errors are left."""
    scale = float(np.abs(matrix).max()) or 1.0
    matrix = matrix.astype(float) / scale
    rows = matrix.mean(axis=0)
    centered = matrix - rows - rows[:, None] + rows.mean()
    norm = float(np.linalg.norm(centered))
    if norm <= NOTHING * float(np.linalg.norm(matrix)):
        return np.zeros_like(matrix), scale
    return centered / norm, norm * scale


def _nonnegative(between: Floats, own: Floats) -> Floats:
    """Minimize v'Mv - 2v'a over v >= 0, as least squares |S v - S^-T a| with M = S'S (Cortes et al. 2012)."""
    values, vectors = np.linalg.eigh(between)
    keep = values > NOTHING * max(float(values[-1]), 1.0)
    root = np.sqrt(values[keep])
    weights: Floats = nnls(root[:, None] * vectors[:, keep].T, vectors[:, keep].T @ own / root)[0]
    # Leave out matrices that vanish, and weights that are only rounding errors.
    return np.where((np.diag(between) > 0) & (weights > NOTHING * weights.max(initial=0.0)), weights, 0.0)


def centered_target(y: Any, kind: str, n: int) -> Floats:
    """Return centered indicators of classes, or centered numbers, ``(N, c)``."""
    if y is None:
        raise ValueError(
            "TargetAligned requires y to be passed, but the target y is None. Call fit(X, y) with classes or numbers."
        )
    plain = isinstance(y, list | tuple) or hasattr(y, "iloc")
    y = as_array(y if plain else to_numpy(y), "y", "one class or number per sample")
    check_target(y, n)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if kind == "numbers" or (kind == "auto" and (y.dtype.kind == "f" or y.ndim == 2)):
        values = np.asarray(check_array(y, ensure_2d=False, dtype=float, input_name="y")).reshape(n, -1)
        values = values / (np.abs(values).max(axis=0) + (values == 0).all(axis=0))
    elif y.ndim > 1:
        raise ValueError(
            f"classes must have shape (N,); got {y.shape}. Pass one class per object, or set target='numbers'."
        )
    else:
        try:
            classes, member = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise ValueError(
                f"y contains classes that cannot be sorted ({error}). Convert all of them to strings."
            ) from None
        values = np.eye(len(classes))[member]
    centered = values - values.mean(axis=0)
    if np.linalg.norm(centered) <= NOTHING * np.linalg.norm(values):
        raise ValueError(
            f"y is the same for all objects (n_samples = {n}), so that no kernel can be aligned with it. Pass objects "
            "of two or more classes, or different numbers."
        )
    return np.asarray(centered)
