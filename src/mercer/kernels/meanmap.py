"""Generative mean map kernels (Mehta and Gray 2010)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer._checks import check_gamma, is_whole
from mercer._coupling import CountSmoothed, Coupling, LaplaceSmoothed, Smoothed
from mercer._random import check_seed, seed_of
from mercer._verdict import Verdict
from mercer.families.characteristic import random_features
from mercer.kernels._operands import Rows
from mercer.kernels._windows.random import spread
from mercer.kernels.base.hooks import WIDE, NoFeatures
from mercer.kernels.base.model import CoupledKernel
from mercer.models.discount import Discounted

_COUPLINGS: dict[str, Any] = {"rbf": Smoothed, "laplace": LaplaceSmoothed, "counts": CountSmoothed}


class MeanMap(CoupledKernel):
    r"""The generative mean map kernel: the expected base kernel between a draw of p and a draw of q.

    Parameters
    ----------
    model : estimator or None, default=None
        Turns every datum into a distribution, as ``model.fit_each``; None compares batches that are given.
    gamma : float, default=1.0
        Of the base kernel ``exp(-gamma |x - y|^2)``; symbols are one-hot, so that a mismatch costs ``exp(-2 gamma)``.
    length : int, Discounted or None, default=10
        Number of observations of the compared sequences, for sequence models, or ``mc.Discounted(d)`` for all numbers
        at once; families ignore it. `path` gives many lengths in one sweep.
    base : {"rbf", "laplace", "counts"}, default="rbf"
        The base kernel: ``exp(-gamma |x - y|^2)``; ``exp(-gamma |x - y|_1)``, for Gaussians with independent
        coordinates, and for other laws through `n_components`; or the first between vectors of counts themselves, where
        "rbf" aligns the tokens of multinomials: for `Multinomials`, `CountVectors` and `Poissons`.
    n_components : int or None, default=None
        Number of random frequencies of explicit features in place of the exact kernel, for laws with a characteristic
        function: `Gaussians`, `Categoricals`, `Poissons`, `Multinomials`, `CountVectors`, `Mixtures` of these, `KDEs`.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the frequencies; None is 0.
    normalize : bool, default=True
        Whether every object has the kernel 1 with itself.
    on_zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Notes
    -----
    .. math:: k(p, q) = \iint p(x)\, q(y)\, e^{-\gamma\|x-y\|^2}\, dx\, dy

    (GMMK-0). For sequences the base kernel is the product over time. With ``base="rbf"`` multinomial counts have the
    base kernel that averages over all alignments of the tokens (GMMK-10c).

    Random features are characteristic functions at F frequencies, for every base kernel of a difference (MM-2):

    .. math:: k(p, q) = E_w\, \varphi_p(w)\, \overline{\varphi_q(w)}, \qquad
              \varphi_p(w) = E_{x \sim p}\, e^{i \langle w, x\rangle}

    with coordinates of w from :math:`\mathcal N(0, 2\gamma)` for "rbf" and "counts" (GMMK-10b), and from a Cauchy law
    of scale :math:`\gamma` for "laplace". The matrix is positive semi-definite for every F, and its error falls as one
    over the root of F. `standard_errors` reports it, and is infinite where too few frequencies count to tell.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Gaussians(mean=[[0.0], [2.0]], covariance=[0.0, 0.0])  # two points
    >>> mc.MeanMap(gamma=0.5)(p).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    >>> mc.MeanMap(gamma=0.5, base="laplace")(p).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    >>> words = mc.Multinomials([[0.5, 0.5], [0.9, 0.1]], trials=4)
    >>> mc.MeanMap(gamma=0.1, base="counts")(words).round(4)
    array([[1.    , 0.7056],
           [0.7056, 1.    ]])
    """

    _smooth = {"gamma": WIDE}  # noqa: RUF012

    def __init__(
        self,
        model: Any = None,
        gamma: float = 1.0,
        length: int | Discounted | None = 10,
        base: str = "rbf",
        n_components: int | None = None,
        random_state: Any = 0,
        normalize: bool = True,
        on_zero: str = "raise",
    ) -> None:
        self.model = model
        self.gamma = gamma
        self.length = length
        self.base = base
        self.n_components = n_components
        self.random_state = random_state
        self.normalize = normalize
        self.on_zero = on_zero

    def _coupling(self) -> Coupling:
        coupling: Coupling = _COUPLINGS[self.base](float(self.gamma))
        return coupling

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_gamma(self.gamma)
        if not isinstance(self.base, str) or self.base not in _COUPLINGS:
            raise ValueError(f"base = {self.base!r}: give 'rbf', 'laplace' or 'counts'")
        check_seed(self.random_state)
        if self.n_components is not None and not is_whole(self.n_components, 1):
            raise ValueError(
                f"n_components = {self.n_components!r}: give the number of random frequencies, 1 or more, or None for "
                "the exact kernel"
            )

    # -- random features --------------------------------------------------------------------------------

    @property
    def domain(self) -> str:  # type: ignore[override]
        """What tiles hold: logarithms, but for random features, whose inner products can be negative."""
        return "log" if self.n_components is None else "linear"

    @property
    def _why_zero(self) -> str:  # type: ignore[override]
        if self.n_components is None:
            return ""
        return " (its features underflow at all frequencies: give a smaller gamma, or n_components=None)"

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self.__dict__.pop("_seed", None)
        if self.n_components is not None:
            self._seed = seed_of(self.random_state)

    def _learned(self) -> Any:
        return getattr(self, "_seed", None)

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), "n_components", "random_state")

    def _prepare(self, source: Any) -> Any:
        if self.n_components is None:
            return super()._prepare(source)
        return Rows(random_features(source, self.base, float(self.gamma), int(self.n_components), self._seed))

    def _tile(self, a: Any, b: Any) -> Array:
        return super()._tile(a, b) if self.n_components is None else a.inner(b)

    def _self(self, a: Any) -> Array:
        return super()._self(a) if self.n_components is None else a.squares()

    def _features(self, a: Any) -> Array:
        if self.n_components is None:
            raise NoFeatures(
                "MeanMap has no finite explicit features: give n_components=1000 for random ones, or use its Gram "
                "matrix or Landmarks(MeanMap(...))"
            )
        return a.dense()

    def standard_errors(self, X: Any, Y: Any = None) -> Floats:
        """Return the standard error of every entry of ``kernel(X, Y)``, from the spread over the frequencies.

        Zeros where the kernel is exact, without ``n_components``. Infinite where fewer than about 20 frequencies carry
        an object's norm, or none: the law is much wider than the base kernel, and the entry is worth nothing. A tenth
        of it takes a hundred times the frequencies.

        Parameters
        ----------
        X, Y : data
            As in ``kernel(X, Y)``.

        Returns
        -------
        array of shape (N, M)

        Examples
        --------
        >>> import mercer as mc
        >>> words = mc.Multinomials([[0.5, 0.5], [0.9, 0.1]], trials=4)
        >>> kernel = mc.MeanMap(gamma=0.1, base="counts", n_components=1000)
        >>> bool(abs(kernel(words)[0, 1] - 0.7056) < 3 * kernel.standard_errors(words)[0, 1])
        True
        """
        kernel, a, b = self.operands(X, Y)
        if self.n_components is None:
            return np.zeros((len(a), len(a if b is None else b)))
        if int(self.n_components) < 2:
            raise ValueError("n_components = 1: one random frequency has no spread; give 2 or more")
        left, right = (to_numpy(side.operand.dense()) for side in (a, a if b is None else b))
        return spread(left, right, bool(kernel.normalize))

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        if self.n_components is not None:
            return Verdict("always", "an inner product of explicit features, for every number of them (MM-2, GMMK-10b)")
        return Verdict("always", "an inner product of mean embeddings, for every PSD base kernel (MM-1, GMMK-0)")
