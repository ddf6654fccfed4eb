"""The verdict whether a kernel is positive semi-definite, and why."""

from __future__ import annotations

from collections.abc import Iterable

_WEAKEST_FIRST = ("no", "approximate", "conditional", "always")


class Verdict(str):
    """One of "always", "conditional", "approximate", "no", with the theorem or the counterexample as its reason.

    It compares equal to its plain string. ``reason`` gives the id of the formula in the documentation.

    Examples
    --------
    >>> verdict = Verdict("always", "an inner product of p^rho in L2 (PPK-1)")
    >>> verdict == "always", verdict.reason
    (True, 'an inner product of p^rho in L2 (PPK-1)')
    """

    reason: str

    def __new__(cls, answer: str, reason: str) -> Verdict:
        if answer not in _WEAKEST_FIRST:
            raise ValueError(f"answer must be one of {_WEAKEST_FIRST}; got {answer!r}.")
        verdict = super().__new__(cls, answer)
        verdict.reason = reason
        return verdict

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.reason

    @property
    def safe(self) -> bool:
        """Whether every Gram matrix is positive semi-definite up to rounding."""
        return self == "always"


def weakest(verdicts: Iterable[Verdict], because: str) -> Verdict:
    """Return the verdict of a sum or product: that of its weakest part."""
    part = min(verdicts, key=lambda verdict: _WEAKEST_FIRST.index(str(verdict)))
    return Verdict(str(part), f"{because}; weakest part: {part.reason}")
