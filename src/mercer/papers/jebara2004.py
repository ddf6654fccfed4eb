"""Jebara, Kondor and Howard, Probability product kernels (JMLR 2004): figures 7 (text), 8 (DNA) and 10 (series)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

import mercer as mc
from mercer._checks import is_choice
from mercer.datasets import fetch_webkb
from mercer.papers import _jebara_dna, _jebara_series
from mercer.papers._along_costs import curve, drawn_splits, outcome
from mercer.papers._protocol import Floats
from mercer.papers._results import Curve, Figure

TITLE = "Jebara, Kondor and Howard, Probability product kernels, JMLR 2004"

SIZES = (77, 622)
"""Numbers of training pages in figure 7."""
SIGMAS = {"1/4": 0.25, "1": 1.0, "4": 4.0}
"""Widths of the Gaussian kernels in figure 7."""
LOG_COSTS = tuple(float(x) for x in range(9))
"""Natural logarithms of C on the axis of figure 7; the paper does not name the base."""

PARTS = {
    "figure7": Figure(
        "Student against faculty pages of WebKB: Bhattacharyya kernel of multinomials and plain kernels",
        "Differs from the paper: random pages are held out instead of a university, which the files do not name, and "
        "words are stemmed; the paper does not give the base of log(C), ours is e.",
        "log C",
    ),
    **_jebara_dna.FIGURES,
    **_jebara_series.FIGURES,
}
"""Figures that can be reproduced."""


def text_kernels(counts: Any, variants: bool = False) -> dict[str, Floats]:
    """Return the kernels of figure 7 between all pages.

    Parameters
    ----------
    counts : sparse matrix of shape (n_pages, n_words)
        Word counts.
    variants : bool, default=False
        Whether to add the cosine, which is normalized like Bhattacharyya but without square roots.
    """
    frequencies = normalize(counts, norm="l1")
    found = {f"RBF sigma={name}": mc.RBF(gamma=0.5 / sigma**2)(frequencies) for name, sigma in SIGMAS.items()}
    found["Linear"] = mc.Linear(normalize=False)(frequencies)
    found["Bhattacharyya"] = mc.ProbabilityProduct(mc.Multinomial(), rho=0.5)(counts)
    if variants:
        found["Cosine"] = mc.Linear()(frequencies)
    return found


def reproduce(
    part: str,
    *,
    draws: int | None = None,
    quick: bool = False,
    variants: bool = False,
    seed: int = 0,
    progress: Callable[[str, int], None] = lambda what, steps: None,
) -> list[Curve]:
    """Reproduce a figure.

    Parameters
    ----------
    part : str
        One of ``PARTS``.
    draws : int or None, default=None
        Number of random splits; None means 20 for figure 7 and 5 for figure 8, fewer if quick. For figure 10, the
        number of sets of series; None means 1.
    quick : bool, default=False
        Figure 7 with 77 training pages only, figure 8 with 150 strings per class, figure 10 with 8 systems.
    variants : bool, default=False
        Whether to add, in figure 7, the cosine of the frequencies and, in figure 8, human strings without their ends
        and the fly's strings with their ends and lengths.
    seed : int, default=0
        Seed of the draws.
    progress : callable
        Called as ``progress(what, steps)`` before every step, with the total number of steps, or 0 if unknown.

    Returns
    -------
    list of Curve
        By panel: the test error along log C, its standard deviation over the splits, and the error with C (and T, K
        or the strength of a prior, if the curve covers several) chosen within the training part.
    """
    if not is_choice(part, PARTS):
        raise ValueError(f"part must be one of {', '.join(PARTS)}; got {part!r}.")
    if draws is None and part == "figure10":
        draws = 1
    if draws is None:
        draws = (3 if quick else 20) if part == "figure7" else (2 if quick else 5)
    if draws < 1:
        raise ValueError(f"draws must be at least 1; got {draws}.")
    if part == "figure7":
        return _figure7(SIZES[: 1 if quick else None], draws, seed, variants, progress)
    if part == "figure10":
        return _jebara_series.figure10(draws=draws, quick=quick, seed=seed, progress=progress)
    n = 150 if quick else 500
    return _jebara_dna.figure8(part, draws=draws, n=n, seed=seed, variants=variants, progress=progress)


def _figure7(
    sizes: tuple[int, ...], draws: int, seed: int, variants: bool, progress: Callable[[str, int], None]
) -> list[Curve]:
    progress("kernels", 0)
    pages = fetch_webkb()
    labels = np.array(pages.target_names)[pages.target]
    both = np.isin(labels, ["student", "faculty"])
    labels, kernels = labels[both], text_kernels(pages.data[both], variants)
    found = []
    for size in sizes:
        splits = drawn_splits(labels, size, draws, seed)
        for name, gram in kernels.items():
            progress(f"{size} pages: {name}", len(sizes) * len(kernels))
            outcomes = [outcome([gram], labels, split, LOG_COSTS) for split in splits]
            paper = "lowest" if name == "Bhattacharyya" else ""
            found.append(curve(f"{size} training pages", name, LOG_COSTS, outcomes, paper))
    return found
