"""The protocol of the reproductions, and what they must reach on the real documents."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import mercer as mc
from mercer.papers import PAPERS, agarwal2011, load
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
        with pytest.raises(ValueError, match="class 'a' has 25 training objects: 26 cannot be drawn"):
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
    def test_heat_against_the_formula(self):
        x, y = [[3.0, 0.0, 1.0], [0.0, 2.0, 2.0]], [[1.0, 1.0, 0.0], [6.0, 0.0, 2.0]]
        slow = np.empty((2, 2))
        for i, a in enumerate(x):
            for j, b in enumerate(y):
                dot = sum(p * q for p, q in zip(a, b, strict=True))
                cosine = dot / math.sqrt(sum(p * p for p in a)) / math.sqrt(sum(q * q for q in b))
                slow[i, j] = math.exp(-(math.acos(min(cosine, 1.0)) ** 2) / 0.7)
        for convert in (np.array, sparse.csr_array):
            # acos loses half of the digits near 1.
            np.testing.assert_allclose(agarwal2011.heat(convert(x), convert(y), t=0.7), slow, atol=1e-7)

    def test_centering_is_about_each_draws_mean(self):
        counts = np.random.default_rng(0).integers(0, 5, size=(8, 6)) + 1.0
        train, wanted = np.array([0, 3, 4]), np.array([3, 6])
        rows = agarwal2011.Centering(counts)(train, wanted)
        p = mc.Multinomial().fit_each(counts)
        center = mc.Multinomials(np.mean(np.asarray(p.probability)[train], axis=0, keepdims=True))
        to = p.dual_divergence(center)[:, 0]
        slow = (to[wanted][:, None] + to[train] - p.dual_divergence(p)[np.ix_(wanted, train)]) / 2
        np.testing.assert_allclose(rows, slow / np.sqrt(np.outer(to[wanted], to[train])), atol=1e-12)

    def test_every_table_has_every_pair_and_method(self):
        for table, classes in (("table1", 4), ("table2", 5)):
            known = agarwal2011.TABLES[table]
            assert len({frozenset(pair) for pair in known.errors}) == classes * (classes - 1) / 2
            assert {len(row) for row in known.errors.values()} == {len(agarwal2011.METHODS)}
            assert known.differs

    def test_unknown_names(self):
        assert load(PAPERS[0]) is agarwal2011
        with pytest.raises(ValueError, match="'shakespeare1600' cannot be reproduced here; known sources are"):
            load("shakespeare1600")
        with pytest.raises(ValueError, match="'table9' is no table of agarwal2011; known are table1, table2"):
            agarwal2011.reproduce("table9")
        with pytest.raises(ValueError, match="draws = 0: give 1 or more"):
            agarwal2011.reproduce("table1", draws=0)


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
    assert len(webkb) == 2 * len(agarwal2011.METHODS)
    assert webkb[task, "Inverse"] < floor
    assert webkb[task, "Inverse"] < webkb[task, "Linear"]
    assert webkb[task, "PP"] < webkb[task, "Linear"]
