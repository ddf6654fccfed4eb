"""Accuracy of marginalization kernels on real proteins and DNA: the second table of docs/real_data.md.

    MERCER_DATA=... python benchmarks/accuracy_pairs.py            # all sets, a quarter of an hour on two cores
    MERCER_DATA=... python benchmarks/accuracy_pairs.py promoters  # one of them

Every parameter is chosen inside the training part of every outer fold, by a grid search there. Substitution matrices
by name need Biopython.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _accuracy import Method, Task, length_only, main, on_symbols, ten_folds

import mercer as mc
from mercer import datasets

FAMILIES = ("LuxC", "Patched", "Pkinase", "RRM_1", "SMC_N", "fn3")
"""Families with 10 members or more; the globins are from another source."""
GAPS = {"gap_open": [8, 11, 14], "gap_extend": [1, 2]}


def pairs_of_proteins(**parameters: Any) -> mc.Marginalization:
    """Return the kernel of alignments under BLOSUM62."""
    return mc.Marginalization(mc.AffinePairHMM("BLOSUM62", 11, 1, **parameters))


def inside(wrapper: str, grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Prefix parameters of the model in a kernel, or in a kernel in a wrapper."""
    return {f"{wrapper}model__{name}": values for name, values in grid.items()}


def protein_methods(kernel: mc.Marginalization) -> dict[str, Method]:
    """Baselines, the plain kernel, its two remedies, and scores of single proteins under the same model."""
    searched = inside("kernel__", GAPS)
    learning = mc.Marginalization(mc.AffinePairHMM("BLOSUM62", 11, 1, n_iter=5, tol=0.0, learn="gaps", n_pairs=200))
    return {
        "length only": length_only(gamma=["scale", 10.0, 100.0]),
        "Spectrum": on_symbols(mc.Spectrum(3), k=[1, 2, 3]),
        "Marginalization(AffinePairHMM)": on_symbols(kernel, **inside("", {"gap_open": [8, 11, 14]})),
        "EmpiricalKernelMap(Marginalization(AffinePairHMM))": on_symbols(mc.EmpiricalKernelMap(kernel), **searched),
        "the same, gap costs by EM": on_symbols(mc.EmpiricalKernelMap(learning)),
        "Tempered(Marginalization(AffinePairHMM))": on_symbols(
            mc.Tempered(kernel, exponent=0.01), exponent=[0.0005, 0.001, 0.005, 0.02], kernel__model__gap_open=[8, 11]
        ),
        "Fisher(AffinePairHMM)": on_symbols(mc.Fisher(kernel.model, information="diagonal")),
    }


def six_families() -> tuple[mc.Sequences, np.ndarray]:
    """Proteins of six families, and the names of the families."""
    found = datasets.fetch_pfam_seeds()
    y = np.asarray(found.target_names)[found.target]
    keep = np.isin(y, FAMILIES)
    return found.data[keep], y[keep]


def families() -> Task:
    """Six families of Pfam, 267 proteins: whole domains, whose lengths are informative."""
    X, y = six_families()
    return Task(X, y, ten_folds(y), protein_methods(pairs_of_proteins()), inner=3)


def starts() -> Task:
    """Take the first 60 residues of the same proteins, so that lengths are not informative."""
    X, y = six_families()
    X = mc.Sequences([x[:60] for x in X], alphabet="protein", ids=X.ids)
    methods = protein_methods(pairs_of_proteins())
    del methods["length only"]
    hmm = mc.HMM(n_states=10, n_init=1, random_state=0)
    states = {"n_states": [5, 10, 20]}
    methods |= {
        "EmpiricalKernelMap(Marginalization(HMM))": on_symbols(
            mc.EmpiricalKernelMap(mc.Marginalization(hmm)), **inside("kernel__", states)
        ),
        "Fisher(HMM)": on_symbols(mc.Fisher(hmm, information="diagonal"), **inside("", states)),
    }
    return Task(X, y, ten_folds(y), methods, inner=3)


def promoters() -> Task:
    """E. coli promoters, 106 strings of 57 letters."""
    found = datasets.fetch_promoters()
    pairs = mc.AffinePairHMM((1, -1), open_probability=0.01, extend_probability=0.5, continuation=0.98, alphabet="dna")
    kernel = mc.Marginalization(pairs)
    laws = {"matrix_scale": [0.2, 0.5, 1.0], "open_probability": [0.005, 0.02]}
    hmm = mc.HMM(n_states=8, n_init=1, random_state=0)
    states = {"n_states": [4, 8, 16]}
    methods = {
        "Spectrum": on_symbols(mc.Spectrum(3), k=[2, 3, 4, 5]),
        "Marginalization(AffinePairHMM)": on_symbols(kernel, **inside("", laws)),
        "EmpiricalKernelMap(Marginalization(AffinePairHMM))": on_symbols(
            mc.EmpiricalKernelMap(kernel), **inside("kernel__", laws)
        ),
        "Tempered(Marginalization(AffinePairHMM))": on_symbols(
            mc.Tempered(kernel, exponent=0.05), exponent=[0.02, 0.05, 0.1], **inside("kernel__", laws)
        ),
        "Fisher(AffinePairHMM)": on_symbols(mc.Fisher(pairs, information="diagonal"), **inside("", laws)),
        "Marginalization(HMM)": on_symbols(mc.Marginalization(hmm), **inside("", states)),
        "EmpiricalKernelMap(Marginalization(HMM))": on_symbols(
            mc.EmpiricalKernelMap(mc.Marginalization(hmm)), **inside("kernel__", states)
        ),
        "Fisher(HMM)": on_symbols(mc.Fisher(hmm, information="diagonal"), **inside("", states)),
    }
    y = np.asarray(found.target)
    return Task(found.data, y, ten_folds(y), methods)


TASKS: dict[str, Callable[[], Task]] = {"families": families, "starts": starts, "promoters": promoters}
TITLES = {"families": "six families", "starts": "their first 60 residues"}
"""Names of the sets on pages, where they differ."""


if __name__ == "__main__":
    main(TASKS, TITLES)
