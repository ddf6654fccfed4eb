"""Hidden states of series under a linear dynamical system."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

import numpy as np

from mercer._array import Floats
from mercer._wording import counted
from mercer.data import Sequences

SHOWN = 10
"""Number of series in the table of a notebook."""


class HiddenStates(NamedTuple):
    """Gaussian posteriors of the hidden states of series, as returned by ``LDSs.posterior`` and ``LDSs.filter``.

    Examples
    --------
    >>> import mercer as mc
    >>> walk = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.1]]], [[[1.0]]], [[0.0]], [[[1.0]]])
    >>> means, covariances = walk.posterior([[0.0, 3.0], [1.0]]).of(1)
    >>> means.round(2).tolist(), covariances.round(2).tolist()
    ([[0.5]], [[[0.5]]])
    """

    X: Sequences
    """The N series."""
    means: Floats
    """Means at each observation, concatenated over series, ``(T, n)``."""
    covariances: Floats
    """Covariances, ``(T, n, n)``."""
    log_prob: Floats
    """Log probability of each series, ``(N,)``."""
    lags: Floats | None = None
    """``Cov(s_{t+1}, s_t)`` at each observation but the last of a series, where it is zero, ``(T, n, n)``."""

    def of(self, i: int) -> tuple[Floats, Floats]:
        """Return the means and covariances of series i."""
        rows = slice(int(self.X.offsets[i]), int(self.X.offsets[i + 1]))
        return self.means[rows], self.covariances[rows]

    def __repr__(self) -> str:
        n, lengths = len(self.X), self.X.lengths
        few, many = (int(lengths.min()), int(lengths.max())) if n else (0, 0)
        steps = f"{few} steps" if few == many else f"{few} to {many} steps"
        return f"HiddenStates({n} series of {steps}, states of {counted(self.means.shape[1], 'coordinate')})"

    def _repr_html_(self) -> str:
        """Return a table for a notebook: of each series its steps, log probability, and the last state."""
        head = "<tr><th>series</th><th>steps</th><th>log probability</th><th>last state</th></tr>"
        rows = []
        for i in range(min(len(self.X), SHOWN)):
            means, covariances = self.of(i)
            spread = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
            pairs = zip(means[-1], spread[-1], strict=True) if len(means) else ()
            last = ", ".join(f"{m:.3g} ± {s:.2g}" for m, s in pairs)
            name = i if self.X.ids is None else self.X.ids[i]
            cells = (name, len(means), f"{self.log_prob[i]:.1f}", last)
            rows.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
        more = f"<p>... and {len(self.X) - SHOWN} more</p>" if len(self.X) > SHOWN else ""
        return f"<p>{escape(repr(self))}</p><table>{head}{''.join(rows)}</table>{more}"
