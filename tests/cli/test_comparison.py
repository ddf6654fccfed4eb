"""Comparisons: folds, results that are kept, contenders that misbehave, and what the results say."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse, stats
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from tests.cli.contenders_for_tests import Breaks, Dies, Hangs, Refuses, Warns

import mercer as mc
from mercer._comparison.evaluation import Contender, Fold, Task, evaluate_fold, splits
from mercer._comparison.results import (
    Result,
    chosen_inside,
    difference,
    independent,
    interval_of,
    joined,
    signed,
    verdict,
    wilson,
)
from mercer._comparison.runner import Comparison, FoldCache
from mercer._comparison.summary import Summary
from mercer._sizes import duration
from mercer.data.baseline_features import ConfoundsOnly


def blobs(n: int = 60, *, apart: float = 3.0, contenders=(), **more) -> Task:
    """Points of two classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return Task("blobs", rng.normal(size=(n, 2)) + apart * y[:, None], y, list(contenders), **more)


def run(task: Task, *, folds: int = 3, budget: float = 60.0, jobs: int = 1, cache=None, report=None) -> Comparison:
    report = report or (lambda task, method, done: None)
    made = Comparison({"t": task}, folds, 0, budget, jobs, cache or FoldCache(None, folds, 0), report)
    made.run()
    return made


MAJORITY = Contender("majority", DummyClassifier())
LINEAR = Contender("linear", LogisticRegression())
KERNEL = Contender("kernel", make_pipeline(mc.RBF(gamma=0.5), SVC(kernel="precomputed")), {"svc__C": (1.0, 10.0)})


class TestFold:
    def test_the_parameters_are_chosen_inside_and_losses_are_of_the_test_fold(self):
        task = blobs()
        fold = evaluate_fold(task, KERNEL, 1, 3, 0)
        train, test = splits(task, np.arange(60), 3, 0)[1]
        best = make_pipeline(mc.RBF(gamma=0.5), SVC(kernel="precomputed", C=float(fold.parameters["svc__C"])))
        expected = best.fit(task.X[train], task.y[train]).predict(task.X[test]) != task.y[test]
        assert fold.losses == expected.tolist()
        assert fold.score == pytest.approx(1 - np.mean(expected))

    def test_targets_are_scored_by_r2(self):
        X = np.linspace(0, 1, 30)[:, None]
        task = Task("line", X, 3 * X[:, 0] + 1, [])
        assert task.measure == "R2"
        assert evaluate_fold(task, Contender("ridge", Ridge(1e-6)), 0, 3, 0).score == pytest.approx(1.0, abs=1e-4)
        assert evaluate_fold(task, Contender("mean", DummyRegressor()), 0, 3, 0).score < 0

    def test_weights_change_the_fit_and_the_score(self):
        weights = np.where(np.arange(60) % 2, 1.0, 5.0)
        task = blobs(apart=0.3, weights=weights)
        plain = evaluate_fold(blobs(apart=0.3), LINEAR, 0, 3, 0)
        heavy = evaluate_fold(task, LINEAR, 0, 3, 0)
        test = splits(task, np.arange(60), 3, 0)[0][1]
        assert heavy.score == pytest.approx(1 - sum(heavy.losses) / weights[test].sum())
        assert heavy.score > plain.score + 0.1
        evaluate_fold(task, Contender("neighbor", KNeighborsClassifier()), 0, 3, 0)  # has no weights

    def test_targets_with_confounds_are_scored_by_what_these_leave(self):
        rng = np.random.default_rng(0)
        X, age = rng.normal(size=(60, 1)), rng.normal(size=60)
        task = Task("", mc.Confounded(X, age), np.sin(X[:, 0]) + 10 * age, [])
        ridge = Contender("ridge", make_pipeline(mc.KernelRidge(mc.RBF(gamma=0.5))))
        train, test = splits(task, np.arange(60), 3, 0)[0]
        model = mc.KernelRidge(mc.RBF(gamma=0.5)).fit(task.X[train], task.y[train])
        fold = evaluate_fold(task, ridge, 0, 3, 0)
        assert fold.score == pytest.approx(model.score(task.X[test], task.y[test]))  # learned from the training fold
        assert fold.score > 0.9
        assert evaluate_fold(task, Contender("mean", DummyRegressor()), 0, 3, 0).score < -10
        only = Contender("confounds only", make_pipeline(ConfoundsOnly(), LinearRegression()))
        assert abs(evaluate_fold(task, only, 0, 3, 0).score) < 0.2
        heavy = Task("", task.X, task.y, [], weights=np.ones(60))
        assert evaluate_fold(heavy, ridge, 0, 3, 0).score == pytest.approx(fold.score)
        ours, theirs = results_of(task, ridge, only)
        assert difference(ours, theirs, task, 3, 0).mean == pytest.approx(ours.score - theirs.score)
        assert ours.score - theirs.score > 0.8  # in units of what the confounds leave

    def test_groups_are_never_cut(self):
        groups = np.arange(60) // 5
        for y in (np.arange(60) % 2, np.linspace(0, 1, 60)):
            task = Task("", np.zeros((60, 1)), y, [], groups)
            for train, test in splits(task, np.arange(60), 3, 0):
                assert not set(groups[train]) & set(groups[test])

    def test_every_sample_is_tested_once(self):
        assert sorted(np.concatenate([test for _, test in splits(blobs(), np.arange(60), 3, 0)])) == list(range(60))


@pytest.mark.slow  # processes
class TestRunner:
    def test_all_contenders_finish_in_their_order(self):
        ended = run(blobs(contenders=[MAJORITY, LINEAR, KERNEL]), jobs=2)
        assert [r.contender.name for r in ended.results] == ["majority", "linear", "kernel"]
        assert all(len(r.folds) == 3 and not r.failure for r in ended.results)
        assert [fold.number for fold in ended.results[2].folds] == [0, 1, 2]
        assert ended.results[1].score > 0.9

    def test_a_process_gives_what_this_one_does(self):
        task = blobs(contenders=[KERNEL])
        (result,) = run(task).results
        here = [evaluate_fold(task, KERNEL, fold, 3, 0) for fold in range(3)]
        assert result.scores.tolist() == [fold.score for fold in here]
        assert [fold.losses for fold in result.folds] == [fold.losses for fold in here]

    def test_those_that_misbehave_are_named_and_the_others_race_on(self):
        made = [Contender(c.__name__, c()) for c in (Refuses, Breaks, Dies, Warns)]
        ended = run(blobs(contenders=[*made, MAJORITY]))
        failures = {r.contender.name: r.failure for r in ended.results}
        assert failures["Refuses"] == "does not apply to these data: sequence 3 is odd; make it even"
        assert failures["Warns"] == "does not apply to these data: shown: ''"
        assert failures["Breaks"] == "was skipped: ZeroDivisionError: division by zero"
        assert failures["Dies"] == "was skipped: its process ended (exit code 3)"
        assert failures["majority"] == ""

    def test_one_that_hangs_is_stopped_and_the_rest_is_not_tried_when_time_is_up(self):
        hangs = Contender("hangs", Hangs())
        ended = run(blobs(contenders=[hangs, MAJORITY]), budget=6.0)
        first, second = ended.results
        assert first.failure.startswith("was stopped after ")
        assert first.reason.endswith("with 0 of 3 folds done; increase --budget, or decrease --limit")
        assert not second.failure
        (late,) = run(blobs(contenders=[MAJORITY]), budget=0.0).results
        assert late.reason == "was not tried, because the budget of 0 s was used up; increase --budget"

    def test_interrupted(self):
        def interrupt(task: str, method: str, done: int) -> None:
            if method == "hangs" and not done:
                raise KeyboardInterrupt  # what Ctrl-C does; workers of pytest-xdist ignore the signal itself

        ended = run(blobs(contenders=[MAJORITY, Contender("hangs", Hangs())]), report=interrupt)
        assert ended.interrupted
        assert [r.failure for r in ended.results] == ["", "was interrupted"]

    def test_what_was_done_is_kept_and_found_again(self, tmp_path):
        task = blobs(contenders=[LINEAR, KERNEL])
        first = run(task, cache=FoldCache(tmp_path, 3, 0))
        (file,) = tmp_path.iterdir()
        lines = file.read_text().splitlines()
        assert len(lines) == 6
        file.write_text("\n".join([*lines[:-1], lines[-1][:20]]))  # killed while it wrote
        cache = FoldCache(tmp_path, 3, 0)
        again = run(blobs(contenders=[LINEAR, KERNEL]), cache=cache)
        assert cache.found == 5
        for a, b in zip(first.results, again.results, strict=True):
            assert a.scores.tolist() == b.scores.tolist()
        other = FoldCache(tmp_path, 3, 0)
        changed = Contender("linear", LogisticRegression(C=2.0))
        run(blobs(contenders=[changed]), cache=other)
        assert other.found == 0
        run(blobs(apart=2.9, contenders=[LINEAR]), cache=other)
        assert other.found == 0

    def test_a_folder_that_cannot_be_written_keeps_nothing(self, tmp_path):
        (tmp_path / "file").touch()
        ended = run(blobs(contenders=[MAJORITY]), cache=FoldCache(tmp_path / "file" / "x", 3, 0))
        assert not ended.results[0].failure

    def test_durations(self):
        assert [duration(s) for s in (0.5, 90, 150, 7200)] == ["0.5 s", "90 s", "2.5 min", "2 h"]


def results_of(task: Task, *contenders: Contender, folds: int = 3) -> list[Result]:
    return [Result("t", c, [evaluate_fold(task, c, fold, folds, 0) for fold in range(folds)]) for c in contenders]


def of_losses(task: Task, contender: Contender, name: str, losses, inner=(0.5, 0.5, 0.5)) -> Result:
    """Return the result of a contender with these losses, in the order of the samples, and these inner scores."""
    tests = [test for _, test in splits(task, np.arange(len(task.y)), len(inner), 0)]
    parts = [np.asarray(losses, dtype=float)[test] for test in tests]
    folds = [
        Fold(i, 1 - part.mean(), v, part.tolist(), 0, 0, 0, {})
        for i, (part, v) in enumerate(zip(parts, inner, strict=True))
    ]
    return Result("t", replace(contender, name=name), folds)


def wrong(*members: int, n: int = 60):
    """Return zero-one losses: 1 for these samples."""
    return np.isin(np.arange(n), members)


class TestResults:
    def test_the_interval_is_that_of_a_paired_t_test(self):
        task = blobs(apart=1.0)
        plain, better = results_of(task, MAJORITY, LINEAR)
        found = difference(better, plain, task, 3, 0)
        assert found.mean == pytest.approx(np.mean(plain.losses) - np.mean(better.losses))
        expected = stats.ttest_rel(plain.losses, better.losses).confidence_interval()
        assert (found.low, found.high) == pytest.approx(expected)

    @pytest.mark.parametrize("groups", [None, np.repeat(np.arange(12), 5)])
    def test_methods_that_agree_on_all_samples_may_differ_on_others(self, groups):
        task = blobs(groups=groups)
        n = 60 if groups is None else 12
        perfect = of_losses(task, KERNEL, "perfect", wrong())
        found = difference(perfect, perfect, task, 3, 0)
        width = stats.t.ppf(0.975, n + 1) / np.sqrt((n + 1) * (n + 2))  # two gains more, whose squares sum to 1
        assert (found.mean, found.low, found.high) == pytest.approx((0, -width, width))

    def test_methods_that_agree_are_closer_than_those_that_differ_once(self):
        task = blobs()
        perfect, once = (of_losses(task, KERNEL, "", losses) for losses in (wrong(), wrong(0)))
        none, once = (difference(perfect, other, task, 3, 0) for other in (perfect, once))
        assert none.high - none.low < once.high - once.low

    def test_samples_of_a_group_are_one_observation(self):
        groups = np.repeat(np.arange(12), 5)
        task = blobs(apart=1.0, groups=groups)
        plain, better = results_of(task, MAJORITY, LINEAR)
        found = difference(better, plain, task, 3, 0)
        order = np.concatenate([test for _, test in splits(task, np.arange(60), 3, 0)])
        gains = np.array([(plain.losses - better.losses)[groups[order] == g].mean() for g in range(12)])
        expected = stats.ttest_1samp(gains, 0.0).confidence_interval()
        assert (found.low, found.high) == pytest.approx(expected)

    @pytest.mark.parametrize("n", [1, 7, 90, 2000])
    @pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98, 1.0])
    def test_the_interval_of_an_accuracy_solves_the_equation_of_the_score_test(self, share, n):
        def excess(rate):
            """Return how much the squared statistic of the test of this rate is above its quantile, times variance."""
            return (share - rate) ** 2 - stats.chi2.ppf(0.95, 1) * rate * (1 - rate) / n

        low, high = wilson(share, n)
        inside = (share + 0.5 / n) / (1 + 1 / n)  # between the roots, as its own statistic is small
        assert low == pytest.approx(0.0 if share == 0 else optimize.brentq(excess, 0.0, inside, xtol=1e-14), abs=1e-9)
        assert high == pytest.approx(1.0 if share == 1 else optimize.brentq(excess, inside, 1.0, xtol=1e-14), abs=1e-9)

    def test_the_interval_of_an_accuracy_is_never_a_point_and_has_the_score(self):
        for n in (1, 2, 50, 10**6):
            for share in np.linspace(0, 1, 21):
                low, high = wilson(share, n)
                assert 0 <= low <= share <= high <= 1
                assert high - low > 1 / (n + 1)

    @pytest.mark.parametrize("kind", ["array", "list", "frame", "sparse", "sequences", "confounded"])
    def test_identical_samples_count_once(self, kind):
        X = np.random.default_rng(0).normal(size=(30, 3))[np.arange(60) % 30]
        made = {
            "array": lambda: X,
            "list": lambda: [{"a": x} for x in X],
            "frame": lambda: pytest.importorskip("pandas").DataFrame(X),
            "sparse": lambda: sparse.csr_array(X),
            "sequences": lambda: mc.Sequences(list(X[:, :, None])),
            "confounded": lambda: mc.Confounded(mc.Sequences(list(X[:, :, None])), np.arange(60.0)),
        }[kind]()
        task = Task("", made, np.arange(60) % 2, [])
        assert independent(task) == 30
        result = Result("t", MAJORITY, [Fold(i, 1.0, 1.0, [0.0] * 30, 0, 0, 0, {}) for i in range(2)])
        (row,) = Summary({"t": task}, [result], 2, 0).rows
        assert (row["score_low"], row["score_high"]) == wilson(1.0, 30)

    def test_groups_and_weights_make_fewer_samples(self):
        assert independent(blobs(60)) == 60
        assert independent(blobs(60, groups=np.arange(60) // 5)) == 12
        assert independent(blobs(60, weights=np.full(60, 3.0))) == pytest.approx(60)
        assert independent(blobs(60, weights=np.repeat([1.0, 0.0], 30))) == pytest.approx(30)

    def test_the_interval_of_r2_is_that_of_its_losses(self):
        task = Task("", np.arange(20.0)[:, None], np.arange(20.0), [])
        (result,) = results_of(task, Contender("mean", DummyRegressor()))
        low, high = interval_of(result, task, 20, 3, 0)
        tests = [test for _, test in splits(task, np.arange(20), 3, 0)]
        shares = np.concatenate([np.full(len(test), 1 / np.var(task.y[test]) / len(test)) for test in tests])
        width = stats.t.ppf(0.975, 19) * np.std(result.losses * shares, ddof=1) * np.sqrt(20) / 3
        assert high - low == pytest.approx(2 * width)
        assert (low + high) / 2 == pytest.approx(result.score)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("grouped", [False, True])
    def test_a_difference_is_that_of_the_scores_in_the_table(self, grouped, weighted):
        """For folds of different sizes, too."""
        rng = np.random.default_rng(1)
        X = rng.normal(size=(61, 1))
        more = {
            "groups": np.minimum(np.arange(61) // 4, 11) if grouped else None,
            "weights": rng.uniform(0.5, 2, 61) if weighted else None,
        }
        numbers = Task("", X, X[:, 0] + 0.5 * rng.normal(size=61), [], **more)
        labels = Task("", X, (numbers.y > 0).astype(int), [], **more)
        pairs = {"labels": (labels, MAJORITY, LINEAR)}
        pairs["numbers"] = numbers, Contender("mean", DummyRegressor()), Contender("ridge", Ridge())
        for task, plain, better in pairs.values():
            a, b = results_of(task, plain, better)
            assert len({len(fold.losses) for fold in a.folds}) > 1
            assert difference(b, a, task, 3, 0).mean == pytest.approx(b.score - a.score)
            assert b.score > a.score + 0.1

    def test_targets_that_are_equal_in_a_fold_are_no_division_by_zero(self):
        groups = np.repeat([0, 1, 2, 3, 4], [10, 5, 5, 5, 5])  # the first fills a fold
        task = Task("", np.zeros((30, 1)), np.where(groups == 0, 2.0, np.arange(30)), [], groups)
        mean, ridge = results_of(task, Contender("mean", DummyRegressor()), Contender("ridge", Ridge()))
        found = difference(ridge, mean, task, 3, 0)
        assert np.isfinite([found.mean, found.low, found.high]).all()
        assert found.mean == pytest.approx(ridge.score - mean.score)

    def test_the_choice_inside_never_sees_the_test_fold(self):
        def result(name, inner, score):
            folds = [Fold(i, s, v, [1 - s], 0, 0, 0, {}) for i, (v, s) in enumerate(zip(inner, score, strict=True))]
            return Result("t", Contender(name, DummyClassifier()), folds)

        a, b = result("a", (0.9, 0.1), (0.0, 0.0)), result("b", (0.2, 0.8), (1.0, 1.0))
        assert [r.contender.name for r in chosen_inside([a, b], kernels=False)] == ["a", "b"]
        assert joined(chosen_inside([a, b])).score == 0.5  # the choice among all recipes, without its luck
        assert joined(chosen_inside([a, b])).contender.name == "a or b"

    @pytest.mark.slow
    def test_random_labels_recommend_nothing(self):
        wins = 0
        for seed in range(10):
            rng = np.random.default_rng(seed)
            task = Task("noise", rng.normal(size=(40, 2)), rng.permutation(np.arange(40) % 2), [])
            wins += verdict(results_of(task, MAJORITY, LINEAR, KERNEL), task, 3, 0)[1]
        assert wins <= 2  # of 10, at 2.5 % each

    def test_what_the_verdict_says(self):
        ring = np.random.default_rng(0)
        angle = ring.uniform(0, 2 * np.pi, 80)
        y = np.arange(80) % 2
        task = Task("ring", (1 + 2 * y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), y, [])
        sentence, wins = verdict(results_of(task, MAJORITY, LINEAR, KERNEL), task, 3, 0)
        assert wins
        assert sentence.startswith("A kernel (kernel) is better than the best baseline (")
        poor = Contender("poor", make_pipeline(mc.RBF(gamma=1e4), SVC(kernel="precomputed")))
        sentence, wins = verdict(results_of(blobs(), MAJORITY, LINEAR, poor), blobs(), 3, 0)
        assert not wins
        assert sentence.startswith("No kernel beats the baselines: linear is better than poor")
        sentence, wins = verdict(results_of(blobs(), LINEAR, KERNEL), blobs(), 3, 0)
        assert not wins
        assert "is shown to beat the best baseline" in sentence
        assert verdict(results_of(task, MAJORITY), task, 3, 0) == ("No kernel finished.", False)

    def test_a_row_above_zero_and_a_verdict_without_a_winner_are_explained(self):
        """The kernel with the best test score is not the one that was chosen within the training folds."""
        task = blobs(60)
        half = range(30)
        results = [
            of_losses(task, KERNEL, "lucky", wrong(), inner=[0.4] * 3),
            of_losses(task, KERNEL, "chosen", wrong(*half), inner=[0.9] * 3),
            of_losses(task, MAJORITY, "plain", ~wrong(*half)),
            of_losses(task, MAJORITY, "poor", ~wrong()),
        ]
        found = Summary({"t": task}, results, 3, 0)
        sentence, wins = found.verdicts["t"]
        assert not wins
        assert (
            "the +0.500 of lucky in the table is that of the best of 2 kernels on the test folds, which is partly "
            "luck, as plain is the best of 2 baselines. Use plain, or collect more data." in sentence
        )
        rows = {row["method"]: row for row in found.rows}
        assert rows["lucky"]["low"] > 0
        assert [name for name, row in rows.items() if row["recommended"]] == ["plain"]

    def test_a_kernel_must_beat_the_best_baseline_of_the_table(self):
        """It is not enough to beat the baseline that was chosen within the training folds, which may be a poor one."""
        task = blobs(60)
        results = [
            of_losses(task, KERNEL, "kernel", wrong(0)),
            of_losses(task, MAJORITY, "good", wrong(0, 1), inner=[0.4] * 3),
            of_losses(task, MAJORITY, "chosen", wrong(*range(0, 60, 4)), inner=[0.9] * 3),
        ]
        found = Summary({"t": task}, results, 3, 0)
        sentence, wins = found.verdicts["t"]
        assert not wins
        assert sentence.startswith("No kernel is shown to beat the best baseline (good): kernel differs by +0.017 of ")
        rows = {row["method"]: row for row in found.rows}
        assert rows["kernel"]["difference"] == pytest.approx(rows["kernel"]["score"] - rows["good"]["score"])
        assert [name for name, row in rows.items() if row["recommended"]] == ["good"]
        sentence, wins = verdict([results[0], results[2]], task, 3, 0)
        assert wins
        assert sentence.startswith("A kernel (kernel) is better than the best baseline (chosen): +0.233 of accuracy")

    def test_a_baseline_must_beat_the_best_kernel_of_the_table(self):
        """A sentence that one is better is never owed to the luck of a choice, on either side."""
        task = blobs(60)
        results = [
            of_losses(task, KERNEL, "good", wrong(0, 1), inner=[0.4] * 3),
            of_losses(task, KERNEL, "chosen", wrong(*range(0, 60, 4)), inner=[0.9] * 3),
            of_losses(task, MAJORITY, "plain", wrong(0)),
        ]
        assert verdict(results, task, 3, 0)[0].startswith(
            "No kernel is shown to beat the best baseline (plain): chosen"
        )
        sentence, wins = verdict(results[1:], task, 3, 0)
        assert not wins
        assert sentence.startswith(
            "No kernel beats the baselines: plain is better than chosen, the best kernel: +0.233"
        )
        assert sentence.endswith("Use plain.")

    def test_methods_without_an_error_need_other_data(self):
        task = blobs(60)
        results = [of_losses(task, kind, name, wrong()) for kind, name in ((KERNEL, "kernel"), (MAJORITY, "plain"))]
        assert verdict(results, task, 3, 0) == (
            "No kernel is shown to beat the best baseline (plain): neither plain nor kernel makes an error, so these "
            "data cannot tell which is better. Use plain, which is simpler.",
            False,
        )

    def test_an_end_of_an_interval_that_is_not_zero_is_not_shown_as_zero(self):
        assert [signed(x) for x in (0.0, 0.03, 0.0004, -0.00004, 0.0006)] == [
            "+0.000", "+0.030", "+0.0004", "-0.00004", "+0.001",
        ]  # fmt: skip

    def test_what_is_marked_is_what_the_verdict_recommends(self):
        ring = np.random.default_rng(0).uniform(0, 2 * np.pi, 80)
        y = np.arange(80) % 2
        task = Task("ring", (1 + 2 * y)[:, None] * np.column_stack([np.cos(ring), np.sin(ring)]), y, [])
        found = Summary({"t": task}, results_of(task, MAJORITY, LINEAR, KERNEL), 3, 0)
        assert [row["method"] for row in found.rows if row["recommended"]] == ["kernel"]
        assert found.recommended().contender is KERNEL


@pytest.mark.slow
def test_a_comparison_leaves_no_process_behind():
    import multiprocessing

    run(blobs(contenders=[MAJORITY]))
    time.sleep(0.1)
    assert not multiprocessing.active_children()
