"""Will this Gram matrix be useful? A kernel can be right to 12 digits and worthless (KK-5)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._array import to_numpy
from mercer.gram import psd


class DiagonalDominanceWarning(UserWarning):
    """Every object resembles itself alone: a classifier on this Gram matrix learns its training data by heart.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, mercer as mc
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", mc.gram.DiagonalDominanceWarning)
    ...     found = mc.gram.diagnose(np.eye(3))
    """


DOMINATED = 1e-3
"""A Gram matrix is diagonally dominant where the median of its normalised off-diagonal is below this (KK-5)."""


ALIKE, ONE = 0.99, 1.05
"""All objects look alike where that median is above the first, and the normalised matrix's rank below the second."""


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found.

    Parameters
    ----------
    n : int
        Number of objects.
    off_diagonal : dict
        Quantiles (0, .25, .5, .75, 1) of the normalised kernel between different objects.
    effective_rank : float
        (sum of eigenvalues)^2 / sum of their squares.
    alignment : float or None
        Centred alignment with the labels, from -1 to 1.
    smallest, largest : float
        The ends of the spectrum.
    advice : str
        One sentence.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> found = mc.gram.diagnose(np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> found.n, round(found.effective_rank, 2), round(found.smallest, 2)
    (2, 1.6, 0.5)
    """

    n: int
    off_diagonal: dict[float, float]
    effective_rank: float
    alignment: float | None
    smallest: float
    largest: float
    advice: str

    def __str__(self) -> str:
        quantiles = ", ".join(f"{value:.3g}" for value in self.off_diagonal.values())
        alignment = "" if self.alignment is None else f", alignment {self.alignment:.3f}"
        return (
            f"{self.n} objects, off-diagonal quantiles {quantiles}, effective rank {self.effective_rank:.1f}, "
            f"smallest eigenvalue {self.smallest:.3g}{alignment}. {self.advice}"
        )


def diagnose(K: Any, y: Any = None) -> Diagnosis:
    """Diagnose a Gram matrix: diagonal dominance, effective rank, alignment, smallest eigenvalue (KK-5).

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix.
    y : array of shape (N,), default=None
        Labels or targets.

    Returns
    -------
    Diagnosis
        With one sentence of ``advice``.

    Warns
    -----
    DiagonalDominanceWarning
        Where the median of the normalised off-diagonal is below 0.001.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> print(mc.gram.diagnose(np.eye(4)).advice)
    The matrix is diagonally dominant, so that every object resembles itself alone: try a smaller length, or \
length=Discounted(d), for sequence models; prior='pooled' with a larger prior_strength for fitted ones; or \
EmpiricalKernelMap(kernel), Tempered(kernel).
    """
    K, scale = _scaled(psd.square(K))
    n = len(K)
    diagonal = np.diag(K)
    if np.any(diagonal <= 0):
        i = int(np.flatnonzero(diagonal <= 0)[0])
        raise ValueError(f"object {i} has the self-kernel {scale * diagonal[i]:.3g}: a diagnosis needs positive ones")
    root = np.sqrt(diagonal)
    normalised = K / root / root[:, None]
    if n < 2:
        raise ValueError("a diagnosis compares objects with each other: give a Gram matrix of at least two")
    off = normalised[~np.eye(n, dtype=bool)]
    levels = (0.0, 0.25, 0.5, 0.75, 1.0)
    quantiles = dict(zip(levels, (float(q) for q in np.quantile(off, levels)), strict=True))
    rank = float(np.trace(K) ** 2 / np.sum(K * K))
    found = psd.check(K)
    found = replace(found, smallest=scale * found.smallest, largest=scale * found.largest)
    if abs(quantiles[0.5]) < DOMINATED:
        warnings.warn(DOMINANCE, DiagonalDominanceWarning, stacklevel=2)
    return Diagnosis(
        n=n,
        off_diagonal=quantiles,
        effective_rank=rank,
        alignment=None if y is None else target_alignment(K, y),
        smallest=found.smallest,
        largest=found.largest,
        advice=_advice(quantiles, float(n**2 / np.sum(normalised * normalised)), found),
    )


DOMINANCE = (
    "The matrix is diagonally dominant, so that every object resembles itself alone: try a smaller length, or "
    "length=Discounted(d), for sequence models; prior='pooled' with a larger prior_strength for fitted ones; or "
    "EmpiricalKernelMap(kernel), Tempered(kernel)."
)


def _advice(quantiles: dict[float, float], normalised_rank: float, found: psd.Check) -> str:
    if not found:
        return (
            f"The matrix is not positive semi-definite (smallest eigenvalue {found.smallest:.3g}): wrap the kernel in "
            "Repaired, which maps test rows too."
        )
    if abs(quantiles[0.5]) < DOMINATED:
        return DOMINANCE
    if quantiles[0.5] > ALIKE and normalised_rank < ONE:  # the median alone is 1 for two tight clusters, 80 to 20
        return (
            "All objects look alike to this kernel: try another gamma or length, a smaller prior_strength, or "
            "Centered(kernel)."
        )
    return "Nothing stands out: the matrix is positive semi-definite, and objects resemble each other in part."


def target_alignment(K: Any, y: Any) -> float:
    """Return the centred alignment of a Gram matrix with labels (same class or not) or numeric targets (KK-5).

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix.
    y : array of shape (N,)
        Labels; floats are numeric targets.

    Returns
    -------
    float
        From -1 to 1; 0 for labels that are all the same.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> y = np.array([0, 0, 1, 1])
    >>> round(mc.gram.target_alignment(y[:, None] == y, y), 6)
    1.0
    """
    (K, _), y = _scaled(psd.square(K)), np.asarray(to_numpy(y))
    if y.shape != (len(K),):
        raise ValueError(f"labels of shape {y.shape} for a Gram matrix of {len(K)} objects")
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError(f"target {int(np.flatnonzero(~np.isfinite(y))[0])} is not finite")
        y = y / (float(np.abs(y).max()) or 1.0)
        target = np.outer(y, y)
    else:
        target = (y[:, None] == y).astype(float)
    a, b = _centred(K), _centred(target)
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.sum(a * b)) / norm if norm > 0 else 0.0


def _scaled(K: Any) -> tuple[Any, float]:
    """Return a matrix whose largest entry is 1, and what it was: squares of 1e-170 or 1e300 are no numbers."""
    scale = float(np.abs(K).max()) or 1.0
    return K / scale, scale


def _centred(K: Any) -> Any:
    rows = K.mean(axis=0)
    return K - rows - rows[:, None] + rows.mean()
