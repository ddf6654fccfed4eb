"""Positive semi-definite repair of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._parameters import Rules, nonnegative, one_of
from mercer._verdict import Verdict
from mercer.kernels._evaluation import Side
from mercer.kernels._trained import FeaturedWrapper


@dataclass(eq=False, repr=False)
class Repaired(FeaturedWrapper):
    r"""Kernel made positive semi-definite by clipping the negative eigenvalues of its training matrix.

    Parameters
    ----------
    kernel : Kernel
        A kernel that is not always positive semi-definite.
    method : {"clip"}, default="clip"
        How to repair: "clip" sets negative eigenvalues to zero.
    tolerance : float, default=1e-12
        Eigenvalues below this fraction of the largest are treated as zero.

    Attributes
    ----------
    clipped_ : float
        Absolute sum of the clipped eigenvalues, as a fraction of the sum of all absolute eigenvalues.

    Notes
    -----
    With :math:`K = V \Lambda V^\top` and the positive part :math:`V_+, \Lambda_+`, objects are mapped to
    :math:`k(x, \cdot) V_+ \Lambda_+^{-1/2}`: the training matrix becomes the nearest positive semi-definite
    matrix, and test rows are projected in the same way.

    Examples
    --------
    >>> import mercer as mc
    >>> X = [[0.0], [1.0], [2.0]]
    >>> indefinite = mc.RBF(gamma=1.0) + (-0.9) * mc.RBF(gamma=3.0)
    >>> K = mc.kernels.Repaired(indefinite).fit_transform(X)
    >>> bool(mc.gram.psd.check(K))
    True
    """

    _parameters: ClassVar[Rules] = {
        "method": one_of("clip", cure="It is the only repair that maps test rows consistently."),
        "tolerance": nonnegative("It is a fraction of the largest eigenvalue."),
    }

    psd = Verdict("always", "an inner product of explicit features, after clipping negative eigenvalues")

    kernel: Any
    method: str = "clip"
    tolerance: float = 1e-12

    def _learn_gram(self) -> None:
        values, vectors = np.linalg.eigh(to_numpy(self._train_gram()))
        keep = values > self.tolerance * np.abs(values).max()
        self.clipped_ = float(np.abs(values[values < 0]).sum() / max(np.abs(values).sum(), np.finfo(float).tiny))
        self._projection = vectors[:, keep] / np.sqrt(values[keep])

    def _feature_names(self, width: int) -> list[str]:
        return [f"direction[{i}]" for i in range(width)]

    def _map(self, objects: Side) -> Floats:
        return np.asarray(to_numpy(self._columns(objects)) @ self._projection)
