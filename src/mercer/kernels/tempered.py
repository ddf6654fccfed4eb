"""Powers of normalized kernels."""

from __future__ import annotations

from typing import Any, ClassVar

from mercer._array import Array
from mercer._parameters import Rules, between
from mercer._verdict import Verdict
from mercer.kernels._evaluation import Side
from mercer.kernels._operands import WithNumbers, finite
from mercer.kernels.base.compound import Wrapper
from mercer.kernels.base.hooks import Bounds


class Tempered(Wrapper):
    r"""Power of a normalized kernel, :math:`\hat k(x,y)^\mathrm{exponent}`, against diagonal dominance.

    Parameters
    ----------
    kernel : Kernel
        A kernel with positive values.
    exponent : float, default=0.5
        The exponent, above 0 and at most 1.

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

    _parameters: ClassVar[Rules] = {"exponent": between(0, 1, "right")}
    _smooth: ClassVar[Bounds] = {"exponent": (1e-5, 1.0)}
    _transparent = True
    domain = "log"

    def __init__(self, kernel: Any, exponent: float = 0.5) -> None:
        self.kernel = kernel
        self.exponent = exponent

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
        return WithNumbers(operand, self._inner._evaluation.diagonal(operand.parts[0]))

    def _tile(self, a: Any, b: Any) -> Array:
        logs = self._tiles(a.operand, b.operand)[0]
        return self.exponent * (logs - (finite(a.numbers)[:, None] + finite(b.numbers)[None, :]) / 2)

    def _self(self, a: Any) -> Array:
        return a.numbers - finite(a.numbers)

    def _gram(self, left: Side, right: Side | None, *, log: bool = False) -> Array:
        inner = self._inner
        if not inner.normalize:
            return super()._gram(left, right, log=log)
        # Uses the memo of the wrapped kernel, so that a search over exponents evaluates its pairs once.
        sides = [None if side is None else inner._evaluation.side(side.source.parts[0]) for side in (left, right)]
        logs = self.exponent * inner._gram(*sides, log=True)
        return logs if log else self._evaluation.exp(logs)

    @property
    def psd(self) -> Verdict:
        """Always if the kernel is infinitely divisible, the kernel's verdict if the exponent is 1, else conditional."""
        if self.exponent == 1:
            return Verdict(str(self._inner.psd), self._inner.psd.reason)
        if self._inner.infinitely_divisible:
            reason = f"every power of an infinitely divisible kernel is a kernel (KK-2); {self._inner.psd.reason}"
            return Verdict("always", reason)
        return Verdict(
            "conditional",
            "powers of a kernel are kernels for every exponent only if it is infinitely divisible (KK-2)",
        )
