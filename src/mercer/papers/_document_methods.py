"""Methods that agarwal2011 compares on word counts: kernels for support vector machines, and naive Bayes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

import mercer as mc
from mercer.papers._protocol import Floats, Ints, KernelSVM, Lookup, NaiveBayes

METHODS = ("Centering", "Exp", "Inverse", "Linear", "PP", "Heat", "Naive Bayes")
"""The columns of the tables, in the paper's order."""

EXP_T = (0.1, 1.0, 5.0)
INVERSE_T = (0.1, 1.0, 10.0)
HEAT_T = (0.5, 2.0, 10.0)


def document_methods(counts: Any, train: Ints, test: Ints, variants: bool = False) -> list[KernelSVM | NaiveBayes]:
    """Return the methods, with every kernel computed once for all documents.

    Parameters
    ----------
    counts : sparse matrix of shape (N, n_words)
        Word counts of all documents.
    train, test : arrays of int
        Documents that may be drawn for training, and test documents.
    variants : bool, default=False
        Whether to add three methods that are not in the paper.

    Returns
    -------
    list of KernelSVM or NaiveBayes
        In the order of ``METHODS``.
    """
    rows = np.concatenate([train, test])
    left, right = mc.Multinomial().fit_each(counts[rows]), mc.Multinomial().fit_each(counts[train])

    def once(matrix: Floats) -> Lookup:
        return Lookup(matrix, rows, train, counts.shape[0])

    def divergence(form: str, values: tuple[float, ...]) -> KernelSVM:
        grams = {f"t={t:g}": once(mc.JensenShannon(form=form, t=t)(left, right)) for t in values}
        return KernelSVM(form.capitalize(), dict(grams))

    frequencies = normalize(counts, norm="l1")
    linear = mc.Linear(normalize=False)
    # The paper's heat kernel uses l2-normalized counts: square roots of the probabilities of squared counts.
    squares = counts.power(2)
    on_sphere = [mc.Multinomial().fit_each(squares[index]) for index in (rows, train)]
    found: list[KernelSVM | NaiveBayes] = [
        KernelSVM("Centering", {"": Centering(counts)}),
        divergence("exp", EXP_T),
        divergence("inverse", INVERSE_T),
        KernelSVM("Linear", {"": once(linear(frequencies[rows], frequencies[train]))}),
        KernelSVM("PP", {"": once(mc.ProbabilityProduct(rho=0.5)(left, right))}),
        KernelSVM("Heat", {f"t={t:g}": once(mc.Heat(t=t)(*on_sphere)) for t in HEAT_T}),
        NaiveBayes(counts),
    ]
    if variants:
        found += [
            KernelSVM("Centering, raw", {"": Centering(counts, normalize=False)}),
            KernelSVM("Linear, counts", {"": once(linear(counts[rows], counts[train]))}),
            KernelSVM("PP, rho=1", {"": once(mc.ProbabilityProduct(rho=1.0)(left, right))}),
        ]
    return found


class Centering:
    """The centering form, whose center is the mean of the training documents of each draw."""

    def __init__(self, counts: Any, normalize: bool = True) -> None:
        self.documents = mc.Multinomial().fit_each(counts)
        self.kernel = mc.JensenShannon(form="centering", normalize=normalize)

    def __call__(self, train: Ints, wanted: Ints) -> Floats:
        """Return the kernel of the wanted documents with the training documents."""
        fitted = self.kernel.fit(self.documents[train])
        matrix: Floats = fitted(self.documents[wanted], self.documents[train])
        return matrix
