"""Diagnose whether a Gram matrix is useful for learning (KK-5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._array import to_numpy
from mercer._notices import notify
from mercer.gram import psd


class DiagonalDominanceWarning(UserWarning):
    """Warning that every object is similar only to itself, so that a classifier overfits the training data.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, mercer as mc
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", mc.gram.DiagonalDominanceWarning)
    ...     found = mc.gram.diagnose(np.eye(3))
    """


DOMINATED = 1e-3
"""A Gram matrix is diagonally dominant if the median of its normalized off-diagonal is below this (KK-5)."""


ALIKE, ONE = 0.99, 1.05
"""All objects look alike if that median exceeds the first, and the normalized matrix has a rank below the second."""


@dataclass(frozen=True)
class Diagnosis:
    """Result of `diagnose`.

    Parameters
    ----------
    n : int
        Number of objects.
    off_diagonal : dict
        Quantiles (0, .25, .5, .75, 1) of the normalized kernel between different objects.
    effective_rank : float
        ``(sum of eigenvalues)^2 / (sum of squared eigenvalues)``.
    alignment : float or None
        Centered alignment with the labels, from -1 to 1.
    smallest, largest : float
        Smallest and largest eigenvalue.
    advice : str
        What to do, in one or two sentences.

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
        Statistics of the matrix, and ``advice``.

    Warns
    -----
    DiagonalDominanceWarning
        If the median of the normalized off-diagonal is below 0.001.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> found = mc.gram.diagnose(np.eye(4))
    >>> found.effective_rank
    4.0
    >>> print(found.advice.partition(". ")[0])
    The matrix is diagonally dominant: every object is similar only to itself
    """
    K, scale = _scaled(psd.square(K))
    n = len(K)
    diagonal = np.diag(K)
    if np.any(diagonal <= 0):
        i = int(np.flatnonzero(diagonal <= 0)[0])
        raise ValueError(
            f"The diagonal of K must be positive; got {scale * diagonal[i]:.3g} for object {i}. Leave the object out."
        )
    root = np.sqrt(diagonal)
    normalized = K / root / root[:, None]
    if n < 2:
        raise ValueError("K must be the Gram matrix of at least two objects; got one. Pass the matrix of all objects.")
    off = normalized[~np.eye(n, dtype=bool)]
    levels = (0.0, 0.25, 0.5, 0.75, 1.0)
    quantiles = dict(zip(levels, (float(q) for q in np.quantile(off, levels)), strict=True))
    rank = float(np.trace(K) ** 2 / np.sum(K * K))
    spectrum = psd.check(K)
    spectrum = replace(spectrum, smallest=scale * spectrum.smallest, largest=scale * spectrum.largest)
    if abs(quantiles[0.5]) < DOMINATED:
        notify(DOMINANCE, DiagonalDominanceWarning)
    return Diagnosis(
        n=n,
        off_diagonal=quantiles,
        effective_rank=rank,
        alignment=None if y is None else target_alignment(K, y),
        smallest=spectrum.smallest,
        largest=spectrum.largest,
        advice=_advice(quantiles, float(n**2 / np.sum(normalized * normalized)), spectrum),
    )


DOMINANCE = (
    "The matrix is diagonally dominant: every object is similar only to itself. Try a smaller length or "
    "length=Discounted(d) for sequence models, prior='pooled' with a larger prior_strength for fitted models, "
    "EmpiricalKernelMap(kernel) or Tempered(kernel)."
)


def _advice(quantiles: dict[float, float], normalized_rank: float, spectrum: psd.Check) -> str:
    if not spectrum:
        return (
            f"The matrix is not positive semi-definite (smallest eigenvalue {spectrum.smallest:.3g}). Wrap the kernel "
            "in Repaired, which also maps test rows."
        )
    if abs(quantiles[0.5]) < DOMINATED:
        return DOMINANCE
    if quantiles[0.5] > ALIKE and normalized_rank < ONE:  # the median is also 1 for two tight clusters, 80 to 20
        return (
            "All objects look alike to this kernel. Try another gamma or length, a smaller prior_strength, or "
            "Centered(kernel)."
        )
    return "No problem found: the matrix is positive semi-definite, and similarities vary between objects."


def target_alignment(K: Any, y: Any) -> float:
    """Return the centered alignment of a Gram matrix with labels (same class or not) or numeric targets (KK-5).

    Parameters
    ----------
    K : array of shape (N, N)
        A Gram matrix.
    y : array of shape (N,)
        Labels; floats are treated as numeric targets.

    Returns
    -------
    float
        From -1 to 1; 0 if all labels are equal.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> y = np.array([0, 0, 1, 1])
    >>> round(mc.gram.target_alignment(y[:, None] == y, y), 6)
    1.0
    """
    (K, _), y = _scaled(psd.square(K)), np.asarray(to_numpy(y))
    if y.shape != (len(K),):
        raise ValueError(f"y must have shape ({len(K)},), one label per row of K; got shape {y.shape}.")
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            i = int(np.flatnonzero(~np.isfinite(y))[0])
            raise ValueError(
                f"Targets must be finite; got {y[i]} for object {i}. Leave the object out, or impute its target."
            )
        y = y / (float(np.abs(y).max()) or 1.0)
        target = np.outer(y, y)
    else:
        target = (y[:, None] == y).astype(float)
    a, b = _centered(K), _centered(target)
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.sum(a * b)) / norm if norm > 0 else 0.0


def _scaled(K: Any) -> tuple[Any, float]:
    """Return the matrix divided by its largest absolute entry, and that entry, so that squares do not overflow."""
    scale = float(np.abs(K).max()) or 1.0
    return K / scale, scale


def _centered(K: Any) -> Any:
    rows = K.mean(axis=0)
    return K - rows - rows[:, None] + rows.mean()
