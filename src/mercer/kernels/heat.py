"""Leading term of the heat kernel on the probability simplex (Lafferty and Lebanon 2005), for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._array import Array, namespace
from mercer._checks import is_number
from mercer._coupling import FieldOperand, power
from mercer._parameters import Rule, Rules
from mercer._verdict import Verdict
from mercer.data.csr import CSRRows
from mercer.kernels._operands import Rows
from mercer.kernels.base.model import ModelKernel
from mercer.kernels.base.transformer import WIDE, Bounds

SHORTEST = 1e-30
"""The smallest time: squared angles below it are rounding."""
NEAR = 0.01
"""Below this squared sine, the angle is computed from a series, whose gradient at 0 is finite."""
SERIES = (1.0, 1 / 3, 8 / 45, 4 / 35, 128 / 1575, 128 / 2079, 1024 / 21021, 256 / 6435)
"""arcsin^2(y) = y^2 + y^4 / 3 + 8 y^6 / 45 + ..."""


@dataclass(eq=False, repr=False)
class Heat(ModelKernel):
    r"""Leading term of the heat kernel between categorical or multinomial distributions.

    Parameters
    ----------
    model : estimator or None, default=None
        Estimator that fits a distribution to each sample: `Multinomial` or `Categorical`. None compares batches of
        distributions.
    t : float, default=1.0
        Diffusion time. With a large t, all distributions look alike.

    Notes
    -----
    .. math:: k(p, q) = \exp\left(-\tfrac1t \arccos^2 \textstyle\sum_d \sqrt{p_d q_d}\right)

    (CMP-1). The angle is half the length of the shortest path from p to q in the Fisher metric. Distributions of s
    draws, ``Multinomials(trials=s)``, are :math:`\sqrt s` times as far apart. The factor
    :math:`(4\pi t)^{-(k-1)/2}` of the source is omitted, so that k(p, p) = 1.

    This is the first term of an expansion of the heat kernel and is not positive semi-definite. `JensenShannon` is a
    positive semi-definite kernel for the same purpose.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Multinomials([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    >>> mc.Heat(t=2.0)(p).round(4)
    array([[1.    , 0.5779, 0.2912],
           [0.5779, 1.    , 0.7346],
           [0.2912, 0.7346, 1.    ]])
    """

    _parameters: ClassVar[Rules] = {
        "t": Rule(f"a positive number, {SHORTEST:g} or more", lambda value: is_number(value) and value >= SHORTEST)
    }
    _smooth: ClassVar[Bounds] = {"t": WIDE}

    psd = Verdict(
        "no",
        "three outcomes, the three point masses and the three uniform distributions on two outcomes, t = 10: "
        "smallest eigenvalue -0.008 (CMP-1)",
    )

    model: Any = None
    t: float = 1.0

    def _source(self, X: Any) -> Any:
        batch = super()._source(X)
        if not hasattr(batch, "n_draws"):
            raise TypeError(
                f"Heat compares outcome probabilities, which {type(batch).__name__} do not have. Use Multinomials or "
                "Categoricals, or another kernel."
            )
        return batch

    def _prepare(self, source: Any) -> _OnSphere:
        return _OnSphere(Rows.widened(_roots(source.probability)), float(source.n_draws))

    def _tile(self, a: _OnSphere, b: _OnSphere) -> Array:
        return -a.squared_angles(b) / self.t * a.draws

    def _self(self, a: _OnSphere) -> Array:
        squares = a.rows.squares()
        return namespace(squares).zeros_like(squares)


@dataclass
class _OnSphere(FieldOperand):
    """Square roots of probabilities, which lie on the unit sphere, and the number of draws of the distributions."""

    rows: Rows
    draws: float
    _shared_fields = ("draws",)

    def squared_angles(self, other: _OnSphere) -> Array:
        """Return the squared angle of every pair, from the chord, which is accurate for nearly equal distributions."""
        chord = self.rows.squared_distances(other.rows)
        xp = namespace(chord)
        sine = xp.clip(chord / 4, 0.0, 0.5)  # squared sine of half the angle; the roots are at most a right angle apart
        near = sine < NEAR
        far = xp.asin(xp.sqrt(xp.where(near, NEAR * xp.ones_like(sine), sine))) ** 2
        return 4 * xp.where(near, _series(xp.where(near, sine, xp.zeros_like(sine))), far)


def _series(squared: Array) -> Array:
    """Compute arcsin^2(y) from a small y^2."""
    value: Any = 0.0
    for coefficient in reversed(SERIES):
        value = squared * (coefficient + value)
    return value


def _roots(probability: Any) -> Any:
    """Return the square roots of probabilities as unit vectors; the sums may differ from 1 by rounding."""
    if isinstance(probability, CSRRows):
        return probability.scaled(1 / probability.row_sums()).power(0.5)
    total = namespace(probability).sum(probability, axis=-1, keepdims=True)
    return power(probability / total, 0.5)
