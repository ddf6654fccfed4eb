"""The protocol of all reproductions: what is chosen where, and how results are printed, drawn and written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from _protocol import KernelSVM, Outcome, Rule, balanced_wrong, curve, evaluate, share_wrong, svm_errors
from _results import Cell, Curve, Figure, Place, draw, main, markdown, numbers
from mehta2010 import make_folds

LABELS = np.repeat(["a", "b"], [40, 60])
GROUPS = np.arange(100) // 4
SAME = np.equal.outer(LABELS, LABELS).astype(float)


class TestFolds:
    @pytest.mark.parametrize("groups", [None, GROUPS])
    def test_every_object_is_tested_once_and_parameters_never_see_it(self, groups):
        folds = make_folds(LABELS, groups)
        assert len(folds) == 10
        assert np.array_equal(np.sort(np.concatenate([fold.test for fold in folds])), np.arange(100))
        for fold in folds:
            assert sorted([*fold.train, *fold.test]) == list(range(100))
            assert len(fold.folds) == 3
            for fit, held in fold.folds:
                assert sorted([*fit, *held]) == sorted(fold.train)
                assert groups is None or not set(groups[fit]) & set(groups[held])
            assert groups is None or not set(groups[fold.train]) & set(groups[fold.test])

    def test_folds_are_stratified_and_the_seed_decides(self):
        assert all(np.sum(LABELS[fold.test] == "a") == 4 for fold in make_folds(LABELS))
        first, again, other = (make_folds(LABELS, seed=seed)[0].test for seed in (0, 0, 1))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


class TestEvaluation:
    def test_the_training_part_alone_is_learned_from(self):
        folds, asked = make_folds(LABELS), []

        def kernels(train):
            asked.append(set(train.tolist()))
            return {"": SAME}

        cell = evaluate(KernelSVM("same", kernels), "task", LABELS, folds, paper=0.2)
        assert asked == [set(fold.train.tolist()) for fold in folds]
        assert (cell.chosen, cell.chosen_sd, cell.best, cell.paper, cell.best_setting) == (0, 0, 0, 0.2, "C=0.1")

    def test_chosen_does_not_look_at_test_objects(self):
        """A kernel that is right on the test objects of a fold alone is best, and is not chosen."""

        def kernels(train):
            tempting, swapped = np.eye(100), SAME.copy()
            test = np.ix_(np.setdiff1d(np.arange(100), train), train)
            tempting[test], swapped[test] = SAME[test], 1 - SAME[test]
            return {"tempting": tempting, "swapped": swapped}

        cell = evaluate(KernelSVM("trap", kernels, (1.0, 30.0)), "task", LABELS, make_folds(LABELS))
        assert cell.best == 0.0
        assert cell.best_setting.startswith("tempting")
        assert cell.chosen > 0.9

    def test_a_rule_with_settings_is_asked_inside_and_one_without_is_not(self):
        asked, fold = [], make_folds(LABELS)[0]

        def predict(train, test):
            asked.append((train, test))
            return {"good": LABELS[test], "bad": np.where(LABELS[test] == "a", "b", "a")}

        found = Rule("rule", predict).outcome(LABELS, fold)
        assert (found.test.tolist(), found.inside.tolist(), found.chosen) == ([0, 1], [0, 1], 0)
        assert [set(test) for _, test in asked] == [set(fold.test), *(set(held) for _, held in fold.folds)]
        Rule("one", lambda train, test: {"": asked.append(0) or LABELS[test]}).outcome(LABELS, fold)
        assert len(asked) == 5

    def test_folds_count_by_their_size(self):
        majority = Rule("b", lambda train, test: {"": np.full(len(test), "b")})
        uneven = [fold for i, fold in enumerate(make_folds(LABELS)) if i]
        first = uneven[0]._replace(test=np.concatenate([uneven[0].test, make_folds(LABELS)[0].test]))
        cell = evaluate(majority, "task", LABELS, [first, *uneven[1:]], by_size=True)
        assert cell.chosen == cell.best == pytest.approx(0.4)

    def test_the_scale_of_a_kernel_does_not_matter_and_it_may_be_a_function(self):
        X = np.random.default_rng(0).normal(size=(100, 3)) + (LABELS == "a")[:, None]
        fold, gram = make_folds(LABELS)[0], X @ X.T
        kernels = (1e-3 * gram, 1e3 * gram, lambda train, wanted: gram[np.ix_(wanted, train)], gram[:, :95])
        fold = fold._replace(train=fold.train[fold.train < 95])
        errors = [svm_errors(k, LABELS, fold.train, fold.test, (1.0, 30.0), scaled=True) for k in kernels]
        assert all(np.array_equal(errors[0], other) for other in errors[1:])

    def test_ties_are_averaged(self):
        assert Outcome([], np.array([0.1, 0.3, 0.9]), np.array([0.2, 0.2, 0.4])).chosen == pytest.approx(0.2)

    def test_rates(self):
        truth, predicted = np.array(["a", "a", "a", "b"]), np.array(["a", "a", "b", "a"])
        assert share_wrong(predicted, truth) == 0.5
        assert balanced_wrong(predicted, truth) == pytest.approx((1 / 3 + 1) / 2)

    def test_one_run_has_no_spread(self):
        assert curve("", "", (1.0,), np.array([[0.2]])).sd == (0.0,)


CURVES = [
    Curve("small", "linear", (0.0, 1.0), (0.2, 0.1), (0.01, 0.02), chosen=0.123, paper="18 %"),
    Curve("small", "ours", (0.0, 1.0), (0.15, 0.05), (0.01, 0.02)),
    Curve("large", "linear", (1.0, 2.0), (0.3, 0.25), (0.0, 0.0)),
]
PLACES = [
    Place("a", "birds", "wren", 0.5, -1.0),
    Place("a", "birds", "owl", 1.5, 1.0),
    Place("b", "plants", "fern", 0, 0),
]
CELLS = [Cell("t", "PPK", 0.1, 0.01, 0.09, "C=1", 0.2), Cell("t", "own", 0.3, 0.01, 0.2, "C=1", None)]
FIGURE = Figure("Errors", "Nothing differs.", "log C", log_y=True)


@pytest.mark.parametrize(
    ("results", "row"),
    [
        (CURVES, "| small | linear | .200 | .100 |  | .123 | 18 % |"),
        (PLACES, "| a | birds | 2 | 1.000 | 0.000 |"),
        (CELLS, "|  | paper | .200 |  |"),
    ],
)
def test_printed(results, row):
    assert row in markdown(results).splitlines()


def legend_of(figure) -> list[str]:
    (legend,) = (ax.get_legend() for ax in figure.axes if ax.get_legend())
    return [text.get_text() for text in legend.get_texts()]


def test_curves_have_a_panel_each_and_one_style_per_method():
    figure = draw(FIGURE, [*CURVES, Curve("large", "late", (1.0, 2.0), (0.3, 0.25), (0.0, 0.0))])
    small, large = figure.axes
    assert [small.get_title(), large.get_title()] == ["small", "large"]
    assert [small.get_ylabel(), large.get_ylabel()] == ["test error", ""]
    assert small.get_yscale() == "log"
    colors = [[line.lines[0].get_color() for line in ax.containers] for ax in (small, large)]
    assert colors[0][0] == colors[1][0] != colors[0][1]
    assert legend_of(figure) == ["linear", "ours", "late"]


def test_places_are_drawn_by_group_and_cells_against_the_papers():
    figure = draw(FIGURE, PLACES)
    assert [len(points.get_offsets()) for ax in figure.axes for points in ax.collections] == [2, 1]
    assert legend_of(figure) == ["birds", "plants"]
    (ax,) = draw(FIGURE, CELLS).axes
    (points,) = ax.collections  # what the paper does not have is left out
    assert points.get_offsets().tolist() == [[0.2, 0.1]]
    with pytest.raises(ValueError, match="The paper has no numbers to compare with; omit --figure"):
        draw(FIGURE, CELLS[1:])


def test_numbers_by_name():
    found = numbers(CURVES)
    assert found["small"]["linear"] == {"best": 0.1, "chosen": 0.123, "paper": "18 %"}
    assert found["small"]["ours"] == {"0": 0.15, "1": 0.05, "paper": ""}
    assert found["paper"] == {"ours": ""}  # the paper says different things of "linear"
    single = Curve("", "one", (3.0,), (0.4,), (0.1,), paper=".3")
    assert numbers([single])[""]["one"] == {"ours": 0.4, "paper": ".3"}
    found = numbers([*CELLS, Cell("u", "PPK", 0.2, 0.01, 0.15, "C=1", 0.1)])
    assert found["t"]["PPK"] == {"ours (CV)": 0.1, "ours (best)": 0.09, "paper": 0.2}
    assert found["mean"]["PPK"] == {"ours (CV)": pytest.approx(0.15), "ours (best)": 0.12, "paper": pytest.approx(0.15)}
    assert found["mean"]["own"] == {"ours (CV)": 0.3, "ours (best)": 0.2, "paper": None}
    assert found["mean distance"] == {"PPK": pytest.approx((0.11 + 0.05) / 2)}
    assert numbers(PLACES)["a"]["wren"] == {"x": 0.5, "y": -1.0}


def test_the_command(tmp_path, capsys):
    asked = []

    def reproduce(part, *, quick=False, seed=0, draws=None):
        asked.append((part, quick, seed, draws))
        return CURVES

    files = ["--figure", str(tmp_path / "a.svg"), "--json", str(tmp_path / "a.json")]
    main("A paper.", {"figure1": FIGURE}, reproduce, ["figure1", "--quick", "--draws", "2", *files])
    assert asked == [("figure1", True, 0, 2)]
    out = capsys.readouterr().out
    assert out.startswith("Errors\n")
    assert out.endswith("Nothing differs.\n")
    assert (tmp_path / "a.svg").stat().st_size > 1000
    assert json.loads((tmp_path / "a.json").read_text()) == {"values": numbers(CURVES)}
    for wrong in (["figure9"], ["figure1", "--draws", "0"], ["figure1", "--variants"]):
        with pytest.raises(SystemExit):
            main("A paper.", {"figure1": FIGURE}, reproduce, wrong)
