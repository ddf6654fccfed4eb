"""Marginalization kernels on real proteins and DNA must be useful: floors on accuracy, parameters chosen inside folds.

The whole study is ``benchmarks/accuracy_pairs.py``; docs/real_data.md has its table. Here every search is small, so
that each test takes seconds.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer import datasets

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real"), pytest.mark.filterwarnings("ignore::UserWarning")]

FAMILIES = ("LuxC", "Patched", "Pkinase", "RRM_1", "SMC_N", "fn3")
"""Those with 10 members or more; the globins are of another source."""


def accuracy(kernel, X, y, **grid):
    """Accuracy over ten folds; C and the grid are searched inside the training part of each."""
    name = type(kernel).__name__.lower()
    searched = {"svc__C": [1.0, 10.0], **{f"{name}__{key}": values for key, values in grid.items()}}
    search = GridSearchCV(make_pipeline(kernel, SVC(kernel="precomputed")), searched, cv=3)
    return cross_val_score(search, X, y, cv=ten_folds()).mean()


def by_length(X, y):
    """Accuracy of the length alone, its parameters chosen inside the training folds too."""
    estimator = make_pipeline(mc.Lengths(), StandardScaler(), SVC())
    search = GridSearchCV(estimator, {"svc__C": [1.0, 10.0, 100.0], "svc__gamma": [1.0, 10.0, 100.0]}, cv=3)
    return cross_val_score(search, X, y, cv=ten_folds()).mean()


def ten_folds():
    return StratifiedKFold(10, shuffle=True, random_state=0)


def of_proteins(gap_open=11, gap_extend=1):
    return mc.Marginalization(mc.AffinePairHMM("BLOSUM62", gap_open, gap_extend))


def of_dna():
    pairs = mc.AffinePairHMM((1, -1), open_probability=0.02, extend_probability=0.5, alphabet="dna")
    return mc.Marginalization(pairs)


@pytest.fixture(scope="module")
def proteins(real_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MERCER_DATA", str(real_folder))
        found = datasets.fetch_pfam_seeds()
    y = np.asarray(found.target_names)[found.target]
    keep = np.isin(y, FAMILIES)
    assert keep.sum() == 267
    return found.data[keep], y[keep]


@pytest.fixture(scope="module")
def promoters(real_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MERCER_DATA", str(real_folder))
        found = datasets.fetch_promoters()
    return found.data, np.asarray(found.target)


def test_the_normalised_gram_of_proteins_is_the_identity(proteins):
    X, y = proteins
    K = of_proteins().fit_transform(X)
    assert np.abs(K - np.eye(len(X))).max() < 1e-6
    with pytest.warns(mc.gram.DiagonalDominanceWarning):
        mc.gram.diagnose(K, y)
    majority = np.mean(y == "fn3")
    assert accuracy(of_proteins(), X, y) == pytest.approx(majority, abs=0.02)
    for cure in (mc.EmpiricalKernelMap(of_proteins()), mc.Tempered(of_proteins(), exponent=0.01)):
        assert "diagonally dominant" not in mc.gram.diagnose(cure.fit_transform(X), y).advice


def test_families_by_empirical_maps(proteins):
    X, y = proteins
    found = accuracy(mc.EmpiricalKernelMap(of_proteins()), X, y, kernel__model__gap_open=[8, 11])
    assert found >= 0.98  # the length alone has .98 here, and words of residues .95
    assert by_length(X, y) < found
    assert accuracy(mc.Spectrum(3), X, y, k=[1, 2, 3]) < found


def test_families_by_tempered_kernels(proteins):
    # A log kernel grows with the length, here up to a thousand residues: so the exponent is about one over it.
    assert accuracy(mc.Tempered(of_proteins(), exponent=0.001), *proteins, exponent=[0.0005, 0.001, 0.01]) >= 0.95


def test_families_by_their_first_residues(proteins):
    """Without lengths: the first 60 residues of every protein."""
    X, y = proteins
    X = mc.Sequences([x[:60] for x in X], alphabet="protein")
    found = accuracy(mc.EmpiricalKernelMap(of_proteins()), X, y, kernel__model__gap_open=[8, 11, 14])
    assert found >= 0.95
    assert found > accuracy(mc.Spectrum(3), X, y, k=[1, 2, 3])


def test_promoters_by_empirical_maps(promoters):
    kernel = mc.EmpiricalKernelMap(of_dna())
    laws = {"kernel__model__matrix_scale": [0.2, 0.5], "kernel__model__open_probability": [0.005, 0.02]}
    assert accuracy(kernel, *promoters, **laws) >= 0.90
    assert by_length(*promoters) < 0.6  # all lengths are equal
    assert accuracy(mc.Spectrum(3), *promoters, k=[2, 3, 4]) >= 0.90  # words are as good here


def test_promoters_by_tempered_kernels(promoters):
    kernel = mc.Tempered(of_dna(), exponent=0.05)
    assert accuracy(kernel, *promoters, exponent=[0.02, 0.05], kernel__model__matrix_scale=[0.2, 0.5]) >= 0.90


def test_promoters_by_a_shared_path_of_hidden_states(promoters):
    kernel = mc.EmpiricalKernelMap(mc.Marginalization(mc.HMM(n_states=4, n_init=1, random_state=0)))
    assert accuracy(kernel, *promoters, kernel__model__n_states=[4, 8]) >= 0.80
