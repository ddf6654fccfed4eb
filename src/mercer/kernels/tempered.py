"""Powers of normalized kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Array, to_numpy
from mercer._parameters import Rules, between, one_of
from mercer._verdict import Verdict
from mercer.data.segments import data_digests
from mercer.kernels._data import n_objects, take
from mercer.kernels._evaluation import Side
from mercer.kernels._operands import WithScalar, finite
from mercer.kernels.base.compound import Wrapper
from mercer.kernels.base.transformer import Bounds

MOST = 300
"""Number of training objects whose pairs the exponent is learned from."""


@dataclass(eq=False, repr=False)
class Tempered(Wrapper):
    r"""Power of a normalized kernel, :math:`\hat k(x,y)^\mathrm{exponent}`, against diagonal dominance.

    Parameters
    ----------
    kernel : Kernel
        A kernel with positive values.
    exponent : float or "auto", default="auto"
        The exponent, above 0 and at most 1. "auto" learns it in ``fit``: one over the median of
        :math:`|\log\hat k|` over pairs of training objects (at most 1), so that a typical value becomes 1 / e.

    Attributes
    ----------
    exponent_ : float
        The learned exponent, with "auto".

    Notes
    -----
    KK-2. Positive semi-definite for every exponent only if the kernel is infinitely divisible; ``psd`` tells whether it
    is known to be. Otherwise check the Gram matrix with ``mc.gram.psd.check`` and repair it with `Repaired`.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Tempered(mc.RBF(gamma=8.0), exponent=0.125)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    _parameters: ClassVar[Rules] = {
        "exponent": between(0, 1, "right", cure="'auto' learns it from the training data.") | one_of("auto")
    }
    _smooth: ClassVar[Bounds] = {"exponent": (1e-5, 1.0)}
    domain = "log"

    kernel: Any
    exponent: float | str = "auto"

    @property
    def _learns(self) -> bool:
        return isinstance(self.exponent, str)

    @property
    def _transparent(self) -> bool:  # type: ignore[override]
        return not self._learns

    @property
    def _needs_fit(self) -> str:
        return super()._needs_fit or ("exponent='auto' is learned from the training data" if self._learns else "")

    @property
    def _beta(self) -> float:
        return self.exponent_ if self._learns else float(self.exponent)

    @property
    def _learns_from_values(self) -> bool:
        return self._learns or super()._learns_from_values

    def _learn_from_values(self, y: Any = None) -> None:
        super()._learn_from_values(y)
        self.__dict__.pop("exponent_", None)
        if self._learns:
            self.exponent_ = self._typical(self.train_.parts[0])

    def _typical(self, source: Any) -> float:
        """Return one over the median absolute log kernel of pairs, of at most `MOST` objects."""
        inner, n = self._inner, n_objects(source)
        if n > MOST:  # those with the smallest digests: a choice that does not depend on the order
            digests = data_digests(source)
            source = take(source, np.sort(sorted(range(n), key=digests.__getitem__)[:MOST]))
        logs = to_numpy(inner._gram(inner._evaluation.side(source), None, log=True))  # the memo keeps the pairs
        diagonal = np.diag(logs)
        with np.errstate(invalid="ignore"):  # objects of zero norm
            pairs = np.abs(logs - (diagonal[:, None] + diagonal) / 2)[np.triu_indices(len(logs), 1)]
        pairs = pairs[np.isfinite(pairs)]
        median = float(np.median(pairs)) if len(pairs) else 0.0
        return 1 / median if median > 1 else 1.0

    def _learned(self) -> Any:
        return super()._learned(), getattr(self, "exponent_", None)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.kernel.domain != "log":
            why = "is not computed as a logarithm" if self.kernel.nonnegative else "can be negative"
            raise ValueError(
                f"{type(self.kernel).__name__} {why}, so Tempered cannot take its powers. Use a kernel with positive "
                "values, such as ProbabilityProduct or RBF."
            )

    def _prepare(self, source: Any) -> Any:
        operand = super()._prepare(source)
        return WithScalar(operand, self._inner._evaluation.diagonal(operand.parts[0]))

    def _tile(self, a: Any, b: Any) -> Array:
        logs = self._tiles(a.operand, b.operand)[0]
        return self._beta * (logs - (finite(a.numbers)[:, None] + finite(b.numbers)[None, :]) / 2)

    def _self(self, a: Any) -> Array:
        return a.numbers - finite(a.numbers)

    def _gram(self, left: Side, right: Side | None, *, log: bool = False) -> Array:
        inner = self._inner
        if not inner.normalize:
            return super()._gram(left, right, log=log)
        # Uses the memo of the wrapped kernel, so that a search over exponents evaluates its pairs once.
        sides = [None if side is None else inner._evaluation.side(side.source.parts[0]) for side in (left, right)]
        logs = self._beta * inner._gram(*sides, log=True)
        return logs if log else self._evaluation.exp(logs)

    @property
    def psd(self) -> Verdict:
        """Always if the kernel is infinitely divisible, the kernel's verdict if the exponent is 1, else conditional."""
        if self.exponent == 1 or getattr(self, "exponent_", None) == 1:
            return Verdict(str(self._inner.psd), self._inner.psd.reason)
        if self._inner.infinitely_divisible:
            reason = f"every power of an infinitely divisible kernel is a kernel (KK-2); {self._inner.psd.reason}"
            return Verdict("always", reason)
        return Verdict(
            "conditional",
            "powers of a kernel are kernels for every exponent only if it is infinitely divisible (KK-2)",
        )
