"""Kernels with random Fourier features in place of an exact base kernel, where ``n_components`` is a number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer._random import seed_of
from mercer.kernels._evaluation import Prepared
from mercer.kernels._operands import Rows
from mercer.kernels._windows.random import FEWEST, spread
from mercer.kernels.base.kernel import Kernel

WORST = 0.1
"""Largest relative error of random features of models of sequences."""
FAR = 3.0
"""Standard errors that an estimated self-kernel may be away from the exact one."""


class RandomFeatures(Kernel):
    """A kernel in logarithms; with ``n_components``, its operands are rows of random features."""

    n_components: int | None
    random_state: Any

    @property
    def domain(self) -> str:  # type: ignore[override]
        """Domain of the values: logarithms, except with random features, whose inner products can be negative."""
        return "log" if self.n_components is None else "linear"

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._seed = seed_of(self.random_state)

    def _learned(self) -> Any:
        return None if self.n_components is None else self._seed

    def _tile(self, a: Any, b: Any) -> Array:
        return super()._tile(a, b) if self.n_components is None else a.inner(b)

    def _self(self, a: Any) -> Array:
        return super()._self(a) if self.n_components is None else a.squares()

    def standard_errors(self, X: Any, Y: Any = None) -> Floats:
        """Return the standard error of each entry of ``kernel(X, Y)``, from the spread over the frequencies.

        Zero if the kernel is exact: without ``n_components``, or for symbols. Infinite if fewer than about 20
        frequencies contribute to an object's norm: it is then much wider than the base kernel, and the entry is
        unreliable. An error ten times smaller needs a hundred times as many frequencies.

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
        >>> p = mc.Gaussians([[0.0], [1.0]], [1.0, 1.0])
        >>> exact, random = mc.MeanMap(gamma=0.5), mc.MeanMap(gamma=0.5, n_components=1000)
        >>> bool(abs(random(p) - exact(p))[0, 1] < 3 * random.standard_errors(p)[0, 1])
        True
        """
        kernel, a, b = self.operands(X, Y)
        b = a if b is None else b
        if not isinstance(a.operand, Rows):
            return np.zeros((len(a), len(b)))
        return spread(kernel._frequencies(a), kernel._frequencies(b), bool(kernel.normalize))

    def _frequencies(self, a: Prepared) -> Floats:
        if self.n_components == 1:
            raise ValueError(
                "n_components must be 2 or more for standard errors; got 1, and one frequency has no spread."
            )
        return to_numpy(a.operand.dense())


def check_precision(features: Floats, log_selves: Floats | None) -> None:
    r"""Raise if random features of models of sequences have a relative error above 10 %.

    The standard error of the kernel of p and q, divided by :math:`\sqrt{k(p,p) k(q,q)}`, is at most the geometric mean
    of :math:`\sqrt{r/F}` of both, with :math:`r = E|\varphi|^4 / (E|\varphi|^2)^2`. This is at most :math:`1/k(p,p)`,
    because :math:`|\varphi| \le 1`. The estimate of r is only trusted if enough frequencies contribute, and if the
    estimated self-kernel is near the exact one: rare frequencies that were not drawn may carry most of it.

    Parameters
    ----------
    features : array of shape (N, 2 F)
        Real parts, then imaginary ones.
    log_selves : array of shape (N,) or None
        Logarithms of the exact self-kernels, if they are known.
    """
    count = features.shape[1] // 2
    powers = features[:, :count] ** 2 + features[:, count:] ** 2  # 1/F of the squared moduli
    found, squares = powers.sum(axis=1), (powers**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exact = found if log_selves is None else np.exp(log_selves)
        error = np.where(squares > 0, np.sqrt(squares) / exact, np.inf)  # sqrt(r / F)
        off = np.abs(found / exact - 1)
        trusted = (found**2 >= FEWEST * squares) & (squares > 0) & (off < 0.5)
        error = np.maximum(error, np.where(np.isnan(off), np.inf, off) / FAR)
    if error.max(initial=0.0) <= WORST:
        return
    i = int(np.argmax(error))
    logs = np.log(exact) if log_selves is None else log_selves
    if trusted[i]:
        needed = f"about {_rounded(math.log10(count) + 2 * math.log10(error[i] / WORST))}"
    elif np.isfinite(logs[i]):
        needed = f"up to {_rounded(-float(logs[i]) / math.log(10) - 2 * math.log10(WORST))}"
    else:
        needed = "far more"
    size = f"of {100 * error[i]:.0f} %" if trusted[i] and error[i] < 1 else "of unknown size"
    exact_way = ", or use n_components=None, which is exact (and Landmarks for features)"
    instead = "" if log_selves is None else exact_way
    raise ValueError(
        f"The random features of model {i} have a relative error {size} with n_components={count}; at most "
        f"{100 * WORST:.0f} % is accepted, which needs {needed} frequencies. Raise n_components"
        f"{',' if instead else ' or'} use a smaller gamma or length{instead}."
    )


def _rounded(log10: float) -> str:
    """Return a number, given by its logarithm, with two digits, rounded up."""
    if log10 > 9:
        return f"10^{math.ceil(log10)}"
    step = 10 ** max(0, math.floor(log10) - 1)
    return f"{math.ceil(10**log10 / step) * step:,}"
