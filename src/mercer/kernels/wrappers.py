"""Kernels made from a kernel: normalised, tempered, on distances."""

from __future__ import annotations

from typing import Any

from mercer._array import Array, namespace
from mercer._checks import check_gamma, is_number
from mercer._verdict import Verdict
from mercer.kernels._operands import WithNumbers, finite
from mercer.kernels.algebra import Together, Wrapper


class Normalized(Wrapper):
    r"""A kernel divided by the norms: :math:`k(x,y)/\sqrt{k(x,x)\,k(y,y)}`.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    on_zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Notes
    -----
    C-5. Most kernels do this themselves (``normalize=True``); sums and products of kernels do not.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Normalized(mc.Linear(normalize=False) + mc.RBF(gamma=1.0))([[1.0], [2.0]]).round(4)
    array([[1.    , 0.7488],
           [0.7488, 1.    ]])
    """

    normalize = True

    def __init__(self, kernel: Any, on_zero: str = "raise") -> None:
        self.kernel = kernel
        self.on_zero = on_zero

    @property
    def domain(self) -> str:  # type: ignore[override]
        """The kernel's."""
        return str(self._inner.domain)

    def _tile(self, a: Together, b: Together) -> Array:
        return self._tiles(a, b)[0]

    def _self(self, a: Together) -> Array:
        return self._diagonals(a)[0]

    @property
    def psd(self) -> Verdict:
        """As the kernel."""
        return Verdict(str(self._inner.psd), f"normalisation keeps it (C-5); {self._inner.psd.reason}")


class Tempered(Wrapper):
    r"""A normalised kernel to a power: :math:`\hat k(x,y)^\beta`, a cure for diagonal dominance.

    Parameters
    ----------
    kernel : Kernel
        A kernel with positive values.
    beta : float, default=0.5
        The power, above 0 and at most 1.

    Notes
    -----
    KK-2. Positive semi-definite for every beta only where the kernel is infinitely divisible, as ``psd`` says of those
    that are known to be. For others check the Gram matrix with ``mc.gram.psd.check`` and repair it with `Repaired`.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Tempered(mc.RBF(gamma=8.0), beta=0.125)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    def __init__(self, kernel: Any, beta: float = 0.5) -> None:
        self.kernel = kernel
        self.beta = beta

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_number(self.beta) or not 0 < self.beta <= 1:
            raise ValueError(f"beta = {self.beta!r}: give a power above 0 and at most 1")
        if self.kernel.domain != "log":
            why = "is not computed as a logarithm" if self.kernel.nonnegative else "can be negative"
            raise ValueError(
                f"{type(self.kernel).__name__} {why}, and has no powers: temper a kernel with positive values, such as "
                "ProbabilityProduct or RBF"
            )

    def _prepare(self, source: Any) -> Any:
        operand = super()._prepare(source)
        return WithNumbers(operand, self._inner._diagonal(operand.parts[0]))

    def _tile(self, a: Any, b: Any) -> Array:
        logs = self._tiles(a.operand, b.operand)[0]
        return self.beta * (logs - (finite(a.numbers)[:, None] + finite(b.numbers)[None, :]) / 2)

    def _self(self, a: Any) -> Array:
        return a.numbers - finite(a.numbers)

    def _remembered(self, a: Any, b: Any, *, log: bool = False, last: Any = None) -> Array:
        if not self._inner.normalize:
            return super()._remembered(a, b, log=log, last=last)
        # The kernel's own pairs are remembered, so that a search over beta evaluates them once.
        logs = self.beta * self._inner._remembered(a.parts[0], None if b is None else b.parts[0], log=True)
        return logs if log else self._exp(logs)

    @property
    def psd(self) -> Verdict:
        """As the kernel where it is infinitely divisible or beta is 1, else conditional."""
        if self.beta == 1:
            return Verdict(str(self._inner.psd), self._inner.psd.reason)
        if self._inner.infinitely_divisible:
            reason = f"every power of an infinitely divisible kernel is a kernel (KK-2); {self._inner.psd.reason}"
            return Verdict("always", reason)
        return Verdict(
            "conditional",
            "a power of a kernel is one for every beta only if the kernel is infinitely divisible (KK-2)",
        )


class Gaussianized(Wrapper):
    r"""A Gaussian of the distance in feature space: :math:`e^{-\gamma (k(x,x) - 2k(x,y) + k(y,y))}`.

    Parameters
    ----------
    kernel : Kernel
        The kernel whose distance is used.
    gamma : float, default=1.0
        Inverse width.

    Notes
    -----
    LMMK-2 (equation 24 of mehta2010); on a Fisher kernel it is the variant of shawetaylor2004, 12.29.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Gaussianized(mc.Linear(normalize=False), gamma=0.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def __init__(self, kernel: Any, gamma: float = 1.0) -> None:
        self.kernel = kernel
        self.gamma = gamma

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_gamma(self.gamma)

    def _prepare(self, source: Any) -> Any:
        operand = super()._prepare(source)
        return WithNumbers(operand, self._inner._diagonal(operand.parts[0]))

    def _tile(self, a: Any, b: Any) -> Array:
        inner, (p,), (q,) = self._inner, a.operand.parts, b.operand.parts
        return -float(self.gamma) * inner._squared_distances(inner.tile(p, q), a.numbers, b.numbers)

    def _self(self, a: Any) -> Array:
        return namespace(a.numbers).zeros_like(a.numbers)

    @property
    def infinitely_divisible(self) -> bool:  # type: ignore[override]
        """A power only changes gamma, which is safe where the distance is one of a Hilbert space."""
        return self._inner.psd == "always"

    @property
    def psd(self) -> Verdict:
        """As the kernel (Schoenberg)."""
        return Verdict(
            str(self._inner.psd), f"a Gaussian of a Hilbert space distance (LMMK-2); {self._inner.psd.reason}"
        )
