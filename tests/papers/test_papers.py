"""The protocol of the reproductions, and what they must reach on the real documents."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import Bunch

import mercer as mc
from mercer.papers import PAPERS, _random_documents, _real_documents, agarwal2011, load
from mercer.papers._document_methods import HEAT_T, METHODS, Centering, document_methods
from mercer.papers._protocol import (
    KernelSVM,
    Lookup,
    NaiveBayes,
    balanced_wrong,
    chosen_error,
    draw_training,
    errors,
    evaluate,
    share_wrong,
)

LABELS = np.array(["a", "b", "c"] * 40)
TRAIN = np.arange(120) < 75


class TestDraws:
    def test_every_class_has_its_number_of_training_objects(self):
        for one in draw_training(LABELS, TRAIN, ["a", "c"], 20, 5):
            assert list(one) == ["a", "c"]
            for name, drawn in one.items():
                assert len(set(drawn.tolist())) == 20
                assert set(LABELS[drawn]) == {name}

    def test_no_test_object_is_drawn(self):
        for one in draw_training(LABELS, TRAIN, ["a", "b"], 25, 5):
            assert all(TRAIN[drawn].all() for drawn in one.values())

    def test_the_seed_decides(self):
        first, again, other = (draw_training(LABELS, TRAIN, ["a"], 9, 4, seed)[3]["a"] for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_draws_differ_from_one_another(self):
        assert len({tuple(one["a"]) for one in draw_training(LABELS, TRAIN, ["a"], 9, 6)}) == 6

    def test_neither_fewer_draws_nor_other_classes_change_a_draw(self):
        many = draw_training(LABELS, TRAIN, ["a", "b", "c"], 9, 6)
        few = draw_training(LABELS, TRAIN, ["b"], 9, 2)
        assert all(np.array_equal(many[i]["b"], few[i]["b"]) for i in range(2))

    def test_a_class_that_is_too_small(self):
        with pytest.raises(ValueError, match="'a' has 25 training objects, so 26 cannot be drawn"):
            draw_training(LABELS, TRAIN, ["a"], 26, 1)


class Recorder:
    """A method that remembers what it was asked and errs as it is told."""

    name = "recorder"
    settings = ("good", "bad")

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def predictions(self, labels, train, test):
        self.asked.append((tuple(train), tuple(test)))
        return [labels[test], np.where(labels[test] == "a", "b", "a")]


class TestEvaluation:
    DRAWS = tuple(
        (np.concatenate([one["a"], one["b"]]), np.flatnonzero(~TRAIN & (LABELS != "c")))
        for one in draw_training(LABELS, TRAIN, ["a", "b"], 10, 3)
    )

    def test_both_answers(self):
        cell = evaluate(Recorder(), "a vs. b", LABELS, self.DRAWS, paper=0.1)
        assert (cell.chosen, cell.chosen_sd, cell.best, cell.best_setting, cell.paper) == (0.0, 0.0, 0.0, "good", 0.1)

    def test_every_method_is_asked_the_same(self):
        first, second = Recorder(), Recorder()
        for method in (first, second):
            evaluate(method, "a vs. b", LABELS, self.DRAWS)
        assert first.asked == second.asked

    def test_parameters_are_chosen_without_the_test_objects(self):
        method = Recorder()
        evaluate(method, "a vs. b", LABELS, self.DRAWS)
        on_test, inside = method.asked[:3], method.asked[3:]
        test = set(self.DRAWS[0][1].tolist())
        assert [set(asked) for _, asked in on_test] == [test] * 3
        assert len(inside) == 15  # five folds of three draws
        for train, held in inside:
            assert not test & {*train, *held}
            assert not set(train) & set(held)

    def test_ties_are_averaged(self):
        assert chosen_error(np.array([0.1, 0.3, 0.9]), np.array([0.2, 0.2, 0.4])) == pytest.approx(0.2)

    def test_rates(self):
        truth, predicted = np.array(["a", "a", "a", "b"]), np.array(["a", "a", "b", "a"])
        assert share_wrong(predicted, truth) == 0.5
        assert balanced_wrong(predicted, truth) == pytest.approx((1 / 3 + 1) / 2)

    def test_a_machine_does_not_depend_on_the_scale_of_its_kernel(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 3)) + (LABELS == "a")[:, None]
        gram, every = X @ X.T, np.arange(120)
        small, large = (KernelSVM("linear", {"": Lookup(s * gram, every, every, 120)}) for s in (1e-3, 1e3))
        draw = self.DRAWS[0]
        assert np.array_equal(errors(small, LABELS, *draw), errors(large, LABELS, *draw))
        assert small.settings == ["C=0.1", "C=1", "C=10", "C=100"]

    def test_lookup(self):
        matrix = np.arange(6.0).reshape(3, 2)
        rows = Lookup(matrix, rows=np.array([4, 7, 9]), columns=np.array([7, 9]), size=10)
        assert rows(np.array([9, 7]), np.array([4, 9])).tolist() == [[1.0, 0.0], [5.0, 4.0]]

    def test_naive_bayes_learns(self):
        counts = sparse.csr_array(np.eye(3)[np.unique(LABELS, return_inverse=True)[1]])
        assert errors(NaiveBayes(counts), LABELS, *self.DRAWS[0]).tolist() == [0.0] * 4


class TestAgarwal2011:
    def test_heat_is_of_normalised_counts(self):
        counts = sparse.csr_array([[3.0, 0.0, 1.0], [0.0, 2.0, 2.0], [1.0, 1.0, 0.0], [6.0, 0.0, 2.0]])
        train, test = np.array([2, 3]), np.array([0, 1])
        heat = document_methods(counts, train, test)[METHODS.index("Heat")]
        x = counts.toarray().tolist()
        for t in HEAT_T:
            rows = heat.kernels[f"t={t:g}"](train, test)
            for i, a in enumerate(test):
                for j, b in enumerate(train):
                    dot = sum(p * q for p, q in zip(x[a], x[b], strict=True))
                    cosine = dot / math.sqrt(sum(p * p for p in x[a])) / math.sqrt(sum(q * q for q in x[b]))
                    # acos loses half of the digits near 1.
                    assert rows[i, j] == pytest.approx(math.exp(-(math.acos(min(cosine, 1.0)) ** 2) / t), abs=1e-7)

    def test_centering_is_about_each_draws_mean(self):
        counts = np.random.default_rng(0).integers(0, 5, size=(8, 6)) + 1.0
        train, wanted = np.array([0, 3, 4]), np.array([3, 6])
        rows = Centering(counts)(train, wanted)
        p = mc.Multinomial().fit_each(counts)
        center = mc.Multinomials(np.mean(np.asarray(p.probability)[train], axis=0, keepdims=True))
        to = p.dual_divergence(center)[:, 0]
        slow = (to[wanted][:, None] + to[train] - p.dual_divergence(p)[np.ix_(wanted, train)]) / 2
        np.testing.assert_allclose(rows, slow / np.sqrt(np.outer(to[wanted], to[train])), atol=1e-12)

    def test_every_table_has_every_pair_and_method(self):
        for table, classes in (("table1", 4), ("table2", 5)):
            known = agarwal2011.TABLES[table]
            assert len({frozenset(pair) for pair in known.errors}) == classes * (classes - 1) / 2
            assert {len(row) for row in known.errors.values()} == {len(METHODS)}
            assert known.differs

    def test_unknown_names(self):
        assert load("agarwal2011") is agarwal2011
        assert "agarwal2011" in PAPERS
        with pytest.raises(ValueError, match="agarwal2011, song2010; got 'shakespeare1600'"):
            load("shakespeare1600")
        with pytest.raises(ValueError, match=r"part must be one of table1, table2, figure4, .*; got 'table9'"):
            agarwal2011.reproduce("table9")
        with pytest.raises(ValueError, match="draws must be at least 1; got 0"):
            agarwal2011.reproduce("table1", draws=0)


class TestRandomDocuments:
    """Figures 4 and 5 of agarwal2011, with fewer documents."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(_random_documents, "TEST", 200)

    def test_a_point_does_not_depend_on_the_others(self):
        few = _random_documents.one_run("figure4", (5,), 100, [0, 1, 100])
        more = _random_documents.one_run("figure4", (2, 5), 100, [0, 1, 100])
        other = _random_documents.one_run("figure4", (5,), 100, [1, 1, 100])
        for name in _random_documents.LINES:
            assert not np.array_equal(few[name][0][1], other[name][0][1])
            assert len(more[name]) == 2
            assert few[name][0][0] == more[name][1][0]
            assert np.array_equal(few[name][0][1], more[name][1][1])

    def test_without_noise_the_figures_meet(self):
        per_class = _random_documents.PER_CLASS
        four = _random_documents.one_run("figure4", (per_class,), 100, [0, 0, 100])
        five = _random_documents.one_run("figure5", (0.0, 0.8), 100, [0, 0, 100])
        for name in _random_documents.LINES:
            assert np.array_equal(four[name][0][1], five[name][0][1])
        assert five["Naive Bayes"][1][0] > five["Naive Bayes"][0][0]

    def test_the_test_documents_are_not_trained_on(self, monkeypatch):
        asked = []

        def recorded(method, labels, train, test):
            asked.append((set(train.tolist()), set(test.tolist())))
            return errors(method, labels, train, test)

        monkeypatch.setattr(_random_documents, "errors", recorded)
        _random_documents.one_run("figure4", (2, 7), 100, [0, 0, 100])
        assert {len(train) for train, _ in asked} == {4, 14}
        assert {len(test) for _, test in asked} == {200}
        assert not any(train & test for train, test in asked)

    def test_best_is_one_setting_at_a_point(self):
        wrong = np.array([[[0.1, 0.3], [0.4, 0.2]], [[0.4, 0.1], [0.3, 0.4]]])  # runs, points, settings
        line = _random_documents.Line(chosen=wrong[..., 0], test=wrong)
        assert line.best.tolist() == [[0.3, 0.2], [0.1, 0.4]]

    def test_quick_figure(self):
        told = []
        curves = agarwal2011.reproduce("figure4", quick=True, draws=1, progress=lambda *step: told.append(step))
        assert told == [("dense, run 1", 2), ("sparse, run 1", 2)]
        assert [curve.panel for curve in curves] == 5 * ["dense"] + 5 * ["sparse"]
        assert [curve.method for curve in curves] == 2 * list(_random_documents.LINES)
        for curve in curves:
            assert curve.x == (5.0, 50.0)
            assert curve.sd == (0.0, 0.0)
            assert curve.paper
            few, many = curve.error
            assert many < few < 0.45
            assert many < (0.05 if curve.panel == "dense" else 0.2)  # twenty runs: at most .008 and .070 on average

    def test_variants(self, monkeypatch):
        monkeypatch.setattr(_random_documents, "VOCABULARIES", {"dense": 100})
        monkeypatch.setattr(_random_documents, "NUMBERS", (2, 5))
        curves = agarwal2011.reproduce("figure4", quick=True, draws=1, variants=True)
        lines = list(_random_documents.MORE_LINES)
        assert [(c.panel, c.method) for c in curves] == [(p, m) for p in ("dense", "dense, best") for m in lines]
        for chosen, best in zip(curves[: len(lines)], curves[len(lines) :], strict=True):
            assert best.error <= chosen.error  # of one run

    def test_the_words_of_the_paper(self):
        panels = {(part, panel) for part in _random_documents.FIGURES for panel in _random_documents.VOCABULARIES}
        assert set(_random_documents.PAPER) == panels
        for words in _random_documents.PAPER.values():
            assert set(words) == set(_random_documents.LINES)


class TestRealDocuments:
    """Figures 6 and 7 of agarwal2011, on documents of two words."""

    @pytest.fixture
    def fetched(self, monkeypatch):
        rng = np.random.default_rng(0)
        target = np.arange(400) % 2
        rate = np.where(target[:, None] == 0, [8.0, 2.0, 5.0], [2.0, 8.0, 5.0])
        documents = Bunch(
            data=sparse.csr_array(rng.poisson(rate) + 1.0),
            target=target,
            target_names=["a", "b"],
            split=np.where(np.arange(400) < 240, "train", "test"),
        )
        monkeypatch.setattr(_real_documents, "TASKS", {"figure6": (lambda: documents, (("a", "b"),))})
        monkeypatch.setattr(_real_documents, "NUMBERS", (1, 2, 10))
        return documents

    def test_quick_figure(self, fetched):
        told = []
        curves = agarwal2011.reproduce("figure6", draws=2, progress=lambda *step: told.append(step))
        assert [(c.panel, c.method) for c in curves] == [("a vs. b", m) for m in _random_documents.LINES]
        assert told[0] == ("a vs. b: kernels", 0)
        for curve in curves:
            assert curve.x == (1.0, 2.0, 10.0)
            assert curve.paper
            assert curve.error[2] < 0.1
            assert curve.error[2] <= curve.error[0] + 0.02

    def test_variants_and_balanced(self, fetched):
        curves = agarwal2011.reproduce("figure6", draws=1, variants=True, balanced=True, quick=True)
        panels = {c.panel for c in curves}
        assert panels == {"a vs. b", "a vs. b, best"}
        half = len(curves) // 2
        for chosen, best in zip(curves[:half], curves[half:], strict=True):
            assert best.error <= chosen.error

    def test_larger_training_sets_contain_smaller_ones(self, fetched):
        labels, train = np.array(["a", "b"])[fetched.target], fetched.split == "train"
        few, more = (_real_documents._draw(labels, train, ("a", "b"), n, [0, 1]) for n in (3, 9))
        assert np.array_equal(few, more[:, :3])
        assert train[more].all()
        with pytest.raises(ValueError, match="'a' has 120 training documents, so 500 cannot be drawn"):
            _real_documents._draw(labels, train, ("a", "b"), 500, [0])

    def test_the_words_of_the_paper(self):
        assert set(_real_documents.PAPER) == set(_real_documents.FIGURES) == set(_real_documents.TASKS)
        for words in _real_documents.PAPER.values():
            assert set(words) == set(_random_documents.LINES)


@pytest.fixture(scope="module")
def webkb(real_folder: Path) -> dict[tuple[str, str], float]:
    """Errors of the quick table on the real pages, chosen by cross-validation, with five draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MERCER_DATA", str(real_folder))
        cells = agarwal2011.reproduce("table1", quick=True, draws=5)
    return {(cell.task, cell.method): cell.chosen for cell in cells}


@pytest.mark.parametrize(("task", "floor"), [("faculty vs. course", 0.07), ("student vs. project", 0.16)])
def test_real_pages(webkb: dict[tuple[str, str], float], task: str, floor: float):
    """Twenty draws of 20 documents per class gave .050 and .141, linear .085 and .181, naive Bayes .076 and .172."""
    assert len(webkb) == 2 * len(METHODS)
    assert webkb[task, "Inverse"] < floor
    assert webkb[task, "Inverse"] < webkb[task, "Linear"]
    assert webkb[task, "PP"] < webkb[task, "Linear"]
