"""The tables and figures of agarwal2011: their kernels, their draws, and what they must reach on real pages."""

from __future__ import annotations

import math
from pathlib import Path

import agarwal2011
import numpy as np
import pytest
from agarwal2011 import HEAT_T, LINES, METHODS, document_methods
from scipy import sparse
from sklearn.utils import Bunch

import mercer as mc


def test_heat_is_of_normalized_counts():
    counts = sparse.csr_array([[1.0, 1.0, 0.0], [6.0, 0.0, 2.0], [3.0, 0.0, 1.0], [0.0, 2.0, 2.0]])
    heat = document_methods(counts, np.arange(4) % 2, 2)[METHODS.index("Heat")]
    x = counts.toarray().tolist()
    for t in HEAT_T:
        for i, a in enumerate(x):
            for j, b in enumerate(x[:2]):
                dot = sum(p * q for p, q in zip(a, b, strict=True))
                cosine = dot / math.sqrt(sum(p * p for p in a)) / math.sqrt(sum(q * q for q in b))
                truth = math.exp(-(math.acos(min(cosine, 1.0)) ** 2) / t)
                assert heat.kernels[f"t={t:g}"][i, j] == pytest.approx(truth, abs=1e-7)  # acos loses half the digits


def test_centering_is_about_each_draws_mean():
    counts = np.random.default_rng(0).integers(0, 5, size=(8, 6)) + 1.0
    train, wanted = np.array([0, 3, 4]), np.array([3, 6])
    rows = document_methods(sparse.csr_array(counts), np.arange(8) % 2, 5)[0].kernels[""](train, wanted)
    p = mc.Multinomial().fit_each(counts)
    center = mc.Multinomials(np.mean(np.asarray(p.probability)[train], axis=0, keepdims=True))
    to = p.dual_divergence(center)[:, 0]
    slow = (to[wanted][:, None] + to[train] - p.dual_divergence(p)[np.ix_(wanted, train)]) / 2
    np.testing.assert_allclose(rows, slow / np.sqrt(np.outer(to[wanted], to[train])), atol=1e-12)


class TestRandomDocuments:
    """Figures 4 and 5, with fewer documents."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(agarwal2011, "TEST", 200)

    @pytest.mark.slow
    def test_quick_figure(self):
        curves = agarwal2011.reproduce("figure4", quick=True, draws=1)
        assert [(one.panel, one.method) for one in curves] == [(p, m) for p in ("dense", "sparse") for m in LINES]
        for one in curves:
            assert one.x == (5.0, 50.0)
            assert one.sd == (0.0, 0.0)
            assert one.paper
            few, many = one.error
            assert many < few < 0.45
            assert many < (0.05 if one.panel == "dense" else 0.2)  # twenty runs: at most .008 and .070 on average

    def test_variants(self, monkeypatch):
        monkeypatch.setattr(agarwal2011, "VOCABULARIES", {"dense": 100})
        monkeypatch.setattr(agarwal2011, "SIZES", (2, 5))
        curves = agarwal2011.reproduce("figure4", quick=True, draws=1, variants=True)
        lines = agarwal2011.MORE_LINES
        assert [(c.panel, c.method) for c in curves] == [(p, m) for p in ("dense", "dense, best") for m in lines]
        for chosen, best in zip(curves[: len(lines)], curves[len(lines) :], strict=True):
            assert best.error <= chosen.error  # of one run


class TestRealDocuments:
    """Tables and figures 6 and 7, on documents of three words."""

    @pytest.fixture
    def fetch(self, monkeypatch):
        target = np.arange(400) % 2
        rate = np.where(target[:, None] == 0, [8.0, 2.0, 5.0], [2.0, 8.0, 5.0])
        documents = Bunch(
            data=sparse.csr_array(np.random.default_rng(0).poisson(rate) + 1.0),
            target=target,
            target_names=["a", "b"],
            split=np.where(np.arange(400) < 240, "train", "test"),
        )
        monkeypatch.setattr(agarwal2011, "REAL", {"figure6": (lambda: documents, (("a", "b"),))})
        monkeypatch.setattr(agarwal2011, "NUMBERS", (1, 2, 10))
        return lambda: documents

    @pytest.mark.slow
    def test_figure(self, fetch):
        curves = agarwal2011.reproduce("figure6", draws=2)
        assert [(c.panel, c.method) for c in curves] == [("a vs. b", m) for m in LINES]
        for one in curves:
            assert one.x == (1.0, 2.0, 10.0)
            assert one.paper
            assert one.error[2] < 0.1
            assert one.error[2] <= one.error[0] + 0.02

    def test_variants_and_balanced(self, fetch):
        curves = agarwal2011.reproduce("figure6", draws=1, variants=True, balanced=True, quick=True)
        half = len(curves) // 2
        assert [c.panel for c in curves] == ["a vs. b"] * half + ["a vs. b, best"] * half
        assert all(best.error <= chosen.error for chosen, best in zip(curves[:half], curves[half:], strict=True))

    def test_training_and_test_documents_are_apart(self, fetch, monkeypatch):
        asked = []
        monkeypatch.setattr(agarwal2011, "evaluate", lambda method, task, labels, splits, *_: asked.append(splits))
        table = agarwal2011.Table("", "", {("a", "b"): (0.1,) * 7}, fetch)
        agarwal2011.real_table(table, 3, False, False, None, 0, n=9)
        assert len({tuple(split.train) for split in asked[0]}) == 3
        for split in asked[0]:
            assert len(split.train) == 18
            assert len(split.test) == 160
            assert not set(split.train) & set(split.test)


@pytest.mark.slow
def test_real_pages(real_folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Twenty draws of 20 documents per class gave .050 and .141, linear .085 and .181, naive Bayes .076 and .172."""
    monkeypatch.setenv("MERCER_DATA", str(real_folder))
    cells = agarwal2011.reproduce("table1", quick=True, draws=5)
    found = {(cell.task, cell.method): cell.chosen for cell in cells}
    assert len(found) == 2 * len(METHODS)
    for task, most in (("faculty vs. course", 0.07), ("student vs. project", 0.16)):
        assert found[task, "Inverse"] < most
        assert found[task, "Inverse"] < found[task, "Linear"]
        assert found[task, "PP"] < found[task, "Linear"]
