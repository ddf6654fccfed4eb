"""Matched symbols of two sequences: posterior probabilities, the best alignment, and its text format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._checks import is_number
from mercer._wording import read_before
from mercer.data import Alphabet, Sequences

COLUMNS = 60
"""Width of a printed block."""
MARKS = ((0.9, "|"), (0.5, ":"), (0.1, "."))
"""Marks between two matched symbols, by minimum probability."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Posterior probabilities that symbols of two sequences come from the same hidden match.

    Parameters
    ----------
    first, second : str or array of symbols
        The two sequences, of n and m symbols.
    probability : array of shape (n, m)
        Entry i, j: probability that symbol i of the first and symbol j of the second were matched, given both
        sequences. Rows and columns sum to at most one.
    log_kernel : float
        Logarithm of the kernel of the two sequences, the probability of both.

    Examples
    --------
    >>> import mercer as mc
    >>> model = mc.AffinePairHMM(
    ...     (2, -3), alphabet="dna", open_probability=0.05, extend_probability=0.5
    ... )
    >>> matches = model.fit(["ACGTACGT", "ACGACGT"]).model_.matches("ACGTTACGT", "ACGACGT")
    >>> print(matches)
    ACGTTACGT
    |||  ||||
    ACG--ACGT
    >>> matches.pairs()[0][:2], bool(matches.expected > 6.5)
    ((0, 0), True)
    """

    first: Any
    second: Any
    probability: Floats
    log_kernel: float

    def __post_init__(self) -> None:
        probability = np.array(self.probability, dtype=np.float64)
        if probability.shape != (len(self.first), len(self.second)):
            raise ValueError(
                f"probability must have one value per pair of symbols, shape {(len(self.first), len(self.second))}; "
                f"got {probability.shape}."
            )
        bad = np.argwhere(~((probability >= 0) & (probability <= 1 + 1e-9)))
        if len(bad):
            i, j = map(int, bad[0])
            raise ValueError(f"probability must be from 0 to 1; got {probability[i, j]} at [{i}, {j}].")
        if not is_number(self.log_kernel):
            raise ValueError(
                f"log_kernel must be a finite number, the logarithm of the kernel; got {self.log_kernel!r}."
            )
        probability.setflags(write=False)
        object.__setattr__(self, "probability", probability)

    @property
    def expected(self) -> float:
        """Expected number of matches."""
        return float(self.probability.sum())

    def pairs(self, least: float = 0.0) -> list[tuple[int, int, float]]:
        """Return the alignment of maximum expected accuracy, as positions and probability of every match.

        It maximizes the sum of match probabilities, the expected number of correct matches.

        Parameters
        ----------
        least : float, default=0.0
            Matches with a smaller probability are left out.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.models._pairs.matches import Matches
        >>> Matches("ab", "b", np.array([[0.1], [0.8]]), -1.0).pairs()
        [(1, 0, 0.8)]
        """
        if not is_number(least) or not 0 <= least <= 1:
            raise ValueError(f"least must be a probability from 0 to 1; got {least!r}.")
        i, j = self.probability.shape
        best = np.zeros((i + 1, j + 1))  # largest sum of the first symbols; with equal sums, the fewest matches
        for row, p in enumerate(np.where(self.probability >= least, self.probability, 0.0)):
            best[row + 1, 1:] = np.maximum.accumulate(np.maximum(best[row, 1:], best[row, :-1] + p))
        found = []
        while i > 0 and j > 0:
            if best[i, j] == best[i - 1, j]:
                i -= 1
            elif best[i, j] == best[i, j - 1]:
                j -= 1
            else:
                i, j = i - 1, j - 1
                found.append((i, j, float(self.probability[i, j])))
        return found[::-1]

    def __repr__(self) -> str:
        n, m = self.probability.shape
        return f"Matches({n} x {m} symbols, expected={self.expected:.2f}, log_kernel={self.log_kernel:.4g})"

    def __str__(self) -> str:
        """Format the alignment of `pairs` in blocks of three lines; ``|``, ``:``, ``.`` mark 0.9, 0.5 and 0.1."""
        rows = self._columns()
        width = max((len(text) for row in rows for text in row), default=1)
        between = "" if width == 1 else " "
        step = max(1, COLUMNS // (width + len(between)))
        blocks = []
        for begin in range(0, max(len(rows[0]), 1), step):
            lines = (between.join(text.ljust(width) for text in row[begin : begin + step]).rstrip() for row in rows)
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def _columns(self) -> tuple[list[str], list[str], list[str]]:
        """List the columns of the alignment: a symbol or a gap, a mark, a symbol or a gap."""
        first, second = [str(s) for s in self.first], [str(s) for s in self.second]
        upper: list[str] = []
        marks: list[str] = []
        lower: list[str] = []
        i = j = 0
        for row, column, probability in [*self.pairs(), (len(first), len(second), 0.0)]:
            upper += first[i:row] + ["-"] * (column - j)
            lower += ["-"] * (row - i) + second[j:column]
            marks += [" "] * (row - i + column - j)
            if row < len(first) and column < len(second):
                upper.append(first[row])
                lower.append(second[column])
                marks.append(next((mark for least, mark in MARKS if probability >= least), " "))
            i, j = row + 1, column + 1
        return upper, marks, lower


def read_pair(alphabet: Alphabet, first: Any, second: Any) -> tuple[Floats, Floats]:
    """Read two sequences, each a str, an array of symbols or `Sequences` of length one, as codes."""
    codes = []
    for name, given in (("first", first), ("second", second)):
        try:
            with read_before():
                X = Sequences(given if isinstance(given, Sequences) else [given], alphabet=alphabet)
        except ValueError as error:
            raise ValueError(str(error).replace("sequence 0", f"the {name} sequence", 1)) from None
        if len(X) != 1:
            raise ValueError(f"{name} must be one sequence, such as X[3:4]; got {len(X)}.")
        codes.append(np.asarray(X.values))
    return codes[0], codes[1]
