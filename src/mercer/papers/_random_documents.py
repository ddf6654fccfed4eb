"""Documents of random multinomials (agarwal2011, figures 4 and 5): errors over training set size and over noise.

Every run draws new classes and documents. Within a run, all methods use the same documents, larger training sets
contain the smaller ones, and higher noise copies all words that lower noise copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mercer.datasets import make_documents
from mercer.papers._document_methods import METHODS, document_methods
from mercer.papers._protocol import Floats, chosen_error, errors, validation_errors
from mercer.papers._results import Curve, Figure, Progress

WORDS = 20
"""Number of words per document, the paper's w."""
VOCABULARIES = {"dense": 5 * WORDS, "sparse": 100 * WORDS}
"""Sizes of the vocabulary, the paper's d."""

NUMBERS = (2, 5, 10, 20, 50, 100)
"""Numbers of training documents per class in figure 4."""
NOISES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
"""Noise levels in figure 5, with ``PER_CLASS`` training documents per class."""
PER_CLASS = 50
POOL, TEST = 2 * max(NUMBERS), 1000
"""Numbers of training and test documents in a run."""

LINES = ("Exp", "Inverse", "PP", "Heat", "Naive Bayes")
"""Methods in the paper's figures."""
ONCE = ("Inverse", "Naive Bayes")
"""Methods also run with repeated words counted once, to test whether the repetition harms them."""
MORE_LINES = (*METHODS, "PP, rho=1", *(f"{name}, words once" for name in ONCE))

DIFFERS = (
    "The paper does not say how it draws the two classes; ours are two Dirichlet(1) draws, new in every run. Its "
    "parameters are the best ones (--variants adds such panels); ours are chosen within the training documents."
)
FIGURES = {
    "figure4": Figure(
        "Random multinomials: test error over training documents per class", DIFFERS, "n", log_x=True, log_y=True
    ),
    "figure5": Figure(f"Random multinomials, n = {PER_CLASS}: test error over noise", DIFFERS, "noise"),
}

_FORMS = ("Exp", "Inverse")
_OTHERS = ("PP", "Heat")
PAPER = {
    ("figure4", "dense"): {
        **dict.fromkeys(_FORMS, "next to NB, as good at small n"),
        **dict.fromkeys(_OTHERS, "worse than Exp, Inverse"),
        "Naive Bayes": "best",
    },
    ("figure4", "sparse"): {
        **dict.fromkeys(_FORMS, "as in dense, nearer to NB"),
        **dict.fromkeys(_OTHERS, "worse than Exp, Inverse"),
        "Naive Bayes": "best",
    },
    ("figure5", "dense"): {
        **dict.fromkeys(_FORMS, "worse than NB at all noise"),
        **dict.fromkeys(_OTHERS, "worse than Exp, Inverse"),
        "Naive Bayes": "best at all noise",
    },
    ("figure5", "sparse"): {
        **dict.fromkeys(_FORMS, "best above 10 % noise"),
        **dict.fromkeys(_OTHERS, "worse than Exp, Inverse"),
        "Naive Bayes": "best up to 10 % noise",
    },
}
"""Statements of section 5.1 about the curves of a panel."""


@dataclass(frozen=True)
class Line:
    """The errors of one method along an axis in every run.

    Parameters
    ----------
    chosen : array of shape (runs, points)
        Test errors with parameters chosen within the training documents.
    test : array of shape (runs, points, settings)
        Test errors of every setting.
    """

    chosen: Floats
    test: Floats

    @property
    def best(self) -> Floats:
        """The errors at the setting that is best on average at each point, ``(runs, points)``."""
        setting = self.test.mean(axis=0).argmin(axis=-1)
        return np.take_along_axis(self.test, setting[None, :, None], axis=-1)[..., 0]


def figure(
    part: str,
    *,
    draws: int = 20,
    quick: bool = False,
    variants: bool = False,
    seed: int = 0,
    concentration: float = 1.0,
    progress: Progress = lambda what, steps: None,
) -> list[Curve]:
    """Reproduce a figure, with one panel for the dense and one for the sparse setting of the paper.

    The parameters are those of `mercer.papers.agarwal2011.reproduce`.
    """
    axis: tuple[float, ...] = (NUMBERS if part == "figure4" else NOISES)[1 if quick else 0 :: 3 if quick else 1]
    found = []
    for name, words in VOCABULARIES.items():
        runs = []
        for number in range(draws):
            progress(f"{name}, run {number + 1}", draws * len(VOCABULARIES))
            runs.append(one_run(part, axis, words, [seed, number, words], variants, concentration))
        lines = {method: _line(runs, method) for method in runs[0]}
        found += curves(name, axis, {method: line.chosen for method, line in lines.items()}, PAPER[part, name])
        if variants:
            best = {method: line.best for method, line in lines.items()}
            found += curves(f"{name}, best", axis, best, PAPER[part, name])
    return found


def one_run(
    part: str,
    axis: Sequence[float],
    n_words: int,
    seeds: Sequence[int],
    variants: bool = False,
    concentration: float = 1.0,
) -> dict[str, list[tuple[float, Floats]]]:
    """Draw two classes; return, by method and point, the chosen error and the errors of all settings.

    ``axis`` holds numbers of training documents per class, or noise levels; ``n_words`` is the size of the vocabulary.
    """
    lines = MORE_LINES if variants else LINES
    found: dict[str, list[tuple[float, Floats]]] = {name: [] for name in lines}
    test = np.arange(POOL, POOL + TEST)

    def learn(noise: float, numbers: Sequence[float]) -> None:
        """Train on the first 2 n documents, which contain n of each class, since the classes alternate."""
        counts, y = make_documents(
            POOL + TEST,
            n_words,
            length=WORDS,
            noise=noise,
            concentration=concentration,
            random_state=np.random.default_rng(seeds),
        )
        ever = np.arange(2 * int(max(numbers)))
        methods = document_methods(counts, ever, test, variants)
        if variants:
            others = document_methods((counts > 0).astype(np.float64), ever, test)
            methods += [replace(m, name=f"{m.name}, words once") for m in others if m.name in ONCE]
        for method in methods:
            if method.name not in lines:
                continue
            for n in numbers:
                train = np.arange(2 * int(n))
                wrong = errors(method, y, train, test)
                inside = validation_errors(method, y, train, folds=min(5, int(n)))
                found[method.name].append((chosen_error(wrong, inside), wrong))

    if part == "figure4":
        learn(0.0, axis)
    else:
        for noise in axis:
            learn(noise, [PER_CLASS])
    return found


def _line(runs: Sequence[dict[str, list[tuple[float, Floats]]]], method: str) -> Line:
    return Line(
        np.array([[chosen for chosen, _ in run[method]] for run in runs]),
        np.array([[wrong for _, wrong in run[method]] for run in runs]),
    )


def curves(panel: str, axis: Sequence[float], lines: dict[str, Floats], paper: dict[str, str]) -> list[Curve]:
    """Average the errors of every curve ``(runs, points)`` over the runs."""
    found = []
    for method, runs in lines.items():
        spread = runs.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros(len(axis))
        x, error, sd = (tuple(map(float, values)) for values in (axis, runs.mean(axis=0), spread))
        found.append(Curve(panel, method, x, error, sd, paper=paper.get(method, "")))
    return found
