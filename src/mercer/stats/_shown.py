"""How results of tests are shown: a sentence, one line, and a table for notebooks."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from mercer.stats._input import p_text


class Permuted:
    """A result with a p-value from permutations or random signs: what `TwoSample` and `Independence` share.

    Attributes that it shows are ``p_value``, ``permuted``, ``n_permutations``, ``exact`` and ``seed``.
    """

    p_value: float
    permuted: str
    n_permutations: int
    exact: bool
    seed: int | None

    @property
    def monte_carlo_error(self) -> float:
        """Standard error of the p-value, since permutations are random; 0 if these are all permutations."""
        return 0.0 if self.exact else float(np.sqrt(self.p_value * (1 - self.p_value) / self.n_permutations))

    def _p_value(self) -> str:
        """Return the p-value with its standard error."""
        return p_text(self.p_value) if self.exact else f"{p_text(self.p_value)} +/- {self.monte_carlo_error:.2g}"

    def _drawn(self) -> str:
        """Return what was drawn, how often and with which seed."""
        if self.exact:
            return f"all {self.n_permutations:,} permutations of {self.permuted}"
        what = self.permuted if self.permuted.startswith("signs") else f"permutations of {self.permuted}"
        return f"{self.n_permutations:,} random {what}{'' if self.seed is None else f', seed {self.seed}'}"

    def _rows(self) -> dict[str, str]:
        """Return the numbers of the result, after the p-value, by their names."""
        raise NotImplementedError

    def __repr__(self) -> str:
        numbers = {"p_value": f"{self.p_value:.3g}", **self._rows()}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in numbers.items())})"

    def _repr_html_(self) -> str:
        rows: dict[str, Any] = {"p_value": self._p_value().removeprefix("p = "), **self._rows(), "drawn": self._drawn()}
        cells = (
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows.items()
        )
        return f"<table><caption>{html.escape(str(self).partition(' (')[0])}</caption>{''.join(cells)}</table>"


def seed_of(random_state: Any) -> int | None:
    """Return the seed, if it is a number that gives the same result again."""
    return int(random_state) if isinstance(random_state, int | np.integer) else None
