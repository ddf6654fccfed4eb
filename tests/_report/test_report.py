"""The report: its numbers, its pictures, and text from data that is shown but never run."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
import subprocess
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR

import mercer as mc
from mercer._comparison.evaluation import splits
from mercer._report.details import Curve, Details, _decision, _fitted, _margins, class_order, shares_of
from mercer._report.report import _task

figures = pytest.importorskip("mercer._report.figures", reason="needs matplotlib")
page = pytest.importorskip("mercer._report.page", reason="needs jinja2")

EVIL = '<script>document.title="owned"</script>&"\'\x00'


def strings(n: int = 24, seed: int = 0):
    rng = np.random.default_rng(seed)
    shares = [[0.4, 0.1, 0.1, 0.4]] * (n // 2) + [[0.15, 0.35, 0.35, 0.15]] * (n // 2)
    X = mc.Sequences(["".join(rng.choice(list("ACGT"), 25, p=p)) for p in shares], ids=[f"{EVIL}{i}" for i in range(n)])
    return X, np.repeat([EVIL, "GC"], n // 2)


PIPELINE = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed"))


@pytest.fixture(scope="module")
def found() -> mc.Report:
    X, y = strings()
    search = GridSearchCV(PIPELINE, {"spectrum__k": [1, 2], "svc__C": [1.0, 10.0]})
    return mc.report(X, y, {EVIL: search}, folds=3, title=EVIL)


class Page(HTMLParser):
    """Elements of a page, and those that were not closed."""

    VOID = ("meta", "img", "br", "circle", "line", "path", "use")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.said = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.said += data


class TestPage:
    def test_it_has_every_section(self, found):
        said = Page(found.html).said
        for heading in (
            "Scores", "Gram matrix", "Kernel principal components", "Confusion matrix", "Calibration", "Error over C",
            "Error over k", "Most typical", "Most ambiguous", "Spectrum and diagnosis", "Code", "seed 0",
        ):  # fmt: skip
            assert heading in said, heading

    def test_words_are_plain_and_the_range_of_colors_is_told(self, found):
        said = " ".join(Page(found.html).said.split())
        assert "How well similarities agree with what is predicted" in said
        assert "independent patterns describe the samples" in said
        assert "guaranteed for this kernel: an inner product of counts." in said
        assert not re.search(r"\([A-Z]+-\d", said)  # ids of formulas
        assert re.search(r"[-.\d]+ or less [-.\d]+ or more The colors span the similarities of different samples", said)

    def test_elements_are_closed_and_pictures_described(self, found):
        page = Page(found.html)
        assert page.open == []
        for tag, attributes in page.elements:
            if tag == "img":
                assert attributes["alt"]
            if attributes.get("role") == "img":
                assert attributes["aria-label"]

    def test_text_from_data_is_shown_not_run(self, found):
        page = Page(found.html)
        scripts = [attributes for tag, attributes in page.elements if tag == "script"]
        assert [s.get("type") for s in scripts] == ["application/json", None]
        assert 'document.title="owned"' in page.said
        assert EVIL[:8] not in found.html.split("<script>", 1)[0]
        assert "\x00" not in found.html

    def test_nothing_is_loaded(self, found):
        for tag, attributes in Page(found.html).elements:
            for name in ("src", "href", "xlink:href", "action"):
                assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
        assert "default-src 'none'" in found.html
        assert not re.search(r"url\(|@import|https?://", found.html)

    def test_figures_have_the_colors_of_the_theme_and_no_others(self, found):
        drawn = "".join(re.findall(r'<svg class="chart".*?</svg>', found.html, flags=re.DOTALL))
        assert {"var(--fg)", "var(--rule)", "var(--c0)", "var(--c1)"} <= set(re.findall(r"var\([^)]*\)", drawn))
        assert not re.findall(r"(?:fill|stroke): (?!none|var)[^;\"]*", drawn)
        ids = re.findall(r'<g id="[^"]*"', drawn)
        assert not ids

    @pytest.mark.slow
    def test_the_same_call_gives_the_same_page(self):
        X, y = strings(12)
        pages = [re.sub(r'<td class="time">.*', "", mc.report(X, y, PIPELINE, folds=2).html) for _ in range(2)]
        assert pages[0] == pages[1]

    def test_it_is_saved_and_shown_in_notebooks(self, found, tmp_path):
        found.save(tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text("utf-8") == found.html
        assert found._repr_html_().startswith("<iframe srcdoc=")
        assert repr(found).startswith("Report(")


@pytest.mark.slow
def test_targets_have_residuals_and_coverage():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(8, 2)) + i / 10 for i in range(24)]
    y = np.array([x.mean() for x in X])
    kernel = make_pipeline(mc.EmpiricalMeanMap(gamma=0.1), mc.KernelRidge())
    found = mc.report(mc.Sequences(X), y, kernel, folds=3)
    for heading in ("Targets and predictions", "Coverage of intervals", "Predicted worst", "Error over alpha"):
        assert heading in found.html
    assert found.rows[-1]["measure"] == "R2"


def test_targets_with_confounds_have_a_gram_matrix():
    X = mc.Confounded(strings()[0], np.arange(24.0))
    task = SimpleNamespace(X=X, y=np.sin(np.arange(24.0)), weights=None)
    _, _, K = _fitted(task, make_pipeline(mc.KernelRidge(kernel=mc.Spectrum(2))))
    np.testing.assert_allclose(K, mc.Spectrum(2)(strings()[0]), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["counts", "matrix"])
def test_other_data(data):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 8)
    counts = rng.poisson(np.array([[1, 5, 1], [5, 1, 1], [1, 1, 5]])[np.repeat([0, 1, 2], 8)])
    X = {"counts": sparse.csr_array(counts), "matrix": counts.astype(float)}[data]
    kernel = mc.ProbabilityProduct(mc.Multinomial()) if data == "counts" else mc.RBF(0.1)
    found = mc.report(X, y, make_pipeline(kernel, SVC(kernel="precomputed")), folds=2)
    assert Page(found.html).open == []
    assert found.rows[-1]["is_kernel"]


@pytest.mark.slow
def test_a_model_without_a_kernel_has_no_gram_matrix():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.repeat([0, 1], 10)
    found = mc.report(X, y, [LogisticRegression(), LogisticRegression(C=2.0)], folds=2)
    assert "Gram matrix" not in found.html
    assert [row["method"] for row in found.rows][-2:] == ["model 1", "model 2"]


@pytest.mark.slow
def test_a_search_without_a_grid_is_a_kernel():
    X, y = strings()
    search = RandomizedSearchCV(PIPELINE, {"svc__C": [1.0, 10.0]}, n_iter=1, cv=2, random_state=0)
    found = mc.report(X, y, search, folds=2)
    assert "finished" not in found.answer
    assert "Gram matrix" in found.html


@pytest.mark.slow
@pytest.mark.parametrize("form", ["frame", "coo"])
def test_other_tables(form):
    rng = np.random.default_rng(0)
    X = rng.poisson(2.0, size=(16, 3)).astype(float)
    data = pytest.importorskip("pandas").DataFrame(X) if form == "frame" else sparse.coo_matrix(X)
    kernel = make_pipeline(mc.Linear(), SVC(kernel="precomputed"))
    assert "Most typical" in mc.report(data, np.tile([0, 1], 8), kernel, folds=2).html


class TestErrors:
    def test_labels_of_another_length(self):
        with pytest.raises(ValueError, match=r"\(24,\)"):
            mc.report(strings()[0], np.zeros(3), PIPELINE)

    def test_too_many_samples(self):
        with pytest.raises(ValueError, match=r"2000.*random subset"):
            mc.report(np.zeros((2001, 2)), np.zeros(2001), PIPELINE)

    def test_ids_of_another_number(self):
        X, y = strings()
        with pytest.raises(ValueError, match="one name per sample"):
            mc.report(X, y, PIPELINE, ids=["a"])

    def test_something_else_for_a_model(self):
        X, y = strings()
        with pytest.raises(TypeError, match="pipelines"):
            mc.report(X, y, "spectrum")

    def test_one_class(self):
        X, y = strings()
        with pytest.raises(ValueError, match="two classes"):
            mc.report(X, np.repeat("a", len(y)), PIPELINE)

    @pytest.mark.parametrize(
        ("given", "match"),
        [
            ({"folds": 1}, "2 or more; got 1"),
            ({"folds": 2.5}, "whole number.*got 2.5"),
            ({"folds": None}, "whole number.*got None"),
            ({"random_state": None}, "same folds; got None"),
            ({"random_state": -1}, "from 0.*got -1"),
            ({"models": {}}, "models is empty"),
            ({"models": mc.Spectrum(2)}, "Spectrum.*cannot predict.*make_pipeline"),
            ({"models": SVC}, "the class SVC"),
            ({"models": {"majority class": PIPELINE}}, "'majority class'.*Rename"),
            ({"groups": [1, 2]}, r"one group per sample, shape \(24,\)"),
            ({"groups": [None] * 24}, "group of sample 0 is missing"),
            ({"groups": np.repeat([0, 1], 12)}, "2 different groups.*need 4"),
            ({"groups": np.arange(24) // 6 + np.repeat([0, 4], 12), "folds": 2}, "only the class|for training"),
            ({"models": make_pipeline(mc.Spectrum(2), SVR(kernel="precomputed"))}, "is a regressor.*SVC"),
            ({"ids": 5}, "list of names.*got 5"),
            ({"ids": "a" * 24}, "list of names"),
            ({"path": "missing/folder/report.html"}, "does not exist. Create it"),
            ({"path": "."}, "must name a file"),
            ({"ids": []}, "one name per sample, 24; got 0"),
            ({"models": SVC(kernel="precomputed")}, "takes a Gram matrix.*make_pipeline"),
            ({"models": GridSearchCV(SVC(kernel="precomputed"), {"C": [1.0]})}, "takes a Gram matrix"),
        ],
    )
    def test_options(self, given, match):
        X, y = strings()
        with pytest.raises((ValueError, TypeError, OSError), match=match):
            mc.report(X, y, **{"models": PIPELINE, "folds": 3} | given)

    @pytest.mark.parametrize(
        ("y", "match"),
        [
            ([None, *"ab" * 11, "a"], "sample 0 is missing.*Leave"),
            ([*"ab" * 11, "a", float("nan")], "sample 23 is missing"),
            ([1, "a"] * 12, "one type; got int and str"),
            (np.linspace(0, 1, 24), "is a classifier.*KernelRidge"),
            (np.ones(24), "All targets are 1"),
            ([*"ab" * 11, "c", "c"], "'c' has 2 members.*leave the class out"),
            ([*"ab" * 10, *"cccc"], "'c' has 4 members.*folds=4"),
            (np.arange(24), "1 member,.*pass floats"),
            (None, "got NoneType"),
            ("a" * 24, "got str"),
            ([[1], [2, 3]] * 12, "lists of different lengths"),
            ([b"a", b"b"] * 12, r"got bytes. Pass y.astype\(str\)"),
            (np.arange(24) * 1j, "complex numbers"),
            (np.arange(24) * 1e300, "too large.*Divide"),
            (np.arange(24) * 1e-300, "too little.*Multiply"),
        ],
    )
    def test_labels(self, y, match):
        with pytest.raises((ValueError, TypeError), match=match):
            mc.report(strings()[0], y, PIPELINE, folds=2)

    def test_a_model_that_fails_is_named(self):
        X, y = strings()
        with pytest.raises(ValueError, match="no window") as caught:
            mc.report(X, y, {"long words": make_pipeline(mc.Spectrum(30), SVC(kernel="precomputed"))}, folds=2)
        assert "'long words' on fold 0" in caught.value.__notes__[0]

    def test_more_folds_than_members(self):
        X, y = strings(8)
        with pytest.raises(ValueError, match="folds"):
            mc.report(X, y, PIPELINE, folds=5)


class TestDetails:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_decisions_are_those_of_pipelines_fitted_to_the_other_folds(self, weighted):
        from mercer._comparison.evaluation import evaluate_fold
        from mercer._comparison.results import Result
        from mercer._report.details import details_of

        X, y = strings()
        weights = np.where(np.arange(len(y)) % 3 == 0, 5.0, 0.2) if weighted else np.ones(len(y))
        task = replace(_task(X, y, PIPELINE, None, None, 3, 0), weights=weights if weighted else None)
        contender = task.contenders[-1]
        result = Result("data", contender, [evaluate_fold(task, contender, i, 3, 0) for i in range(3)])
        found: Details = details_of(task, result, 3, 0)
        for train, test in splits(task, np.arange(len(y)), 3, 0):
            model = clone(PIPELINE).fit(X[train], y[train], svc__sample_weight=weights[train])
            decision = model.decision_function(X[test])
            np.testing.assert_allclose(found.margins[test], np.where(y[test] == model.classes_[1], 1, -1) * decision)
        assert found.gram.shape == (len(y), len(y))
        np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)

    def test_pairs_of_classes_become_decisions_for_classes(self):
        X, y = strings()[0], np.tile([0, 1, 2, 3], 6)
        one, other = (
            make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed", decision_function_shape=shape)).fit(X, y)
            for shape in ("ovo", "ovr")
        )
        np.testing.assert_allclose(_decision(one, X), _decision(other, X), rtol=1e-12)

    def test_margins_of_many_classes(self):
        decisions = np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 5.0]])
        np.testing.assert_array_equal(_margins(np.vstack([decisions, decisions]), ["a", "b", "c", "c"])[:2], [2, -3])

    def test_order_keeps_classes_together(self):
        y = np.array(["b", "a", "b", "a"])
        order = class_order(y, np.eye(4))
        assert y[order].tolist() == ["a", "a", "b", "b"]


class TestShares:
    def test_they_sum_to_the_decision_for_the_predicted_class(self, found):
        assert 'class="p3"' in found.html

    def test_channels_have_their_own_where_they_can_be_told_apart(self):
        rng = np.random.default_rng(0)
        X = mc.Sequences([rng.normal([i % 2, 0], size=(12, 2)) for i in range(20)], channels=["signal", "noise"])
        y = np.array(["a", "b"])[np.arange(20) % 2]
        model = make_pipeline(mc.Fisher(mc.HMM(2, random_state=0)), SVC(kernel="precomputed")).fit(X, y)
        found = shares_of(SimpleNamespace(X=X), SimpleNamespace(model=model), [0, 3])
        expected = mc.explain(model, X[[0, 3]]).of_predicted().contributions
        for values, truth in zip(found.values(), expected, strict=True):
            np.testing.assert_allclose(values, truth)
        assert not np.allclose(found[0][:, 0], found[0][:, 1])
        made = page.item(X, 0, found[0])
        assert made["note"] == "12 steps"
        assert "signal, values" in made["figure"]

    def test_a_kernel_whose_formula_has_ids_is_told_in_words(self):
        kernel = mc.Fisher(mc.MarkovChain())
        rows = page._diagnosis(SimpleNamespace(kernel=kernel, diagnosis=mc.gram.diagnose(np.eye(3) + 0.5)))
        assert rows[-1][2].endswith("guaranteed for this kernel: an inner product of (whitened) scores.")

    @pytest.mark.slow
    def test_a_kernel_without_exact_shares_has_none(self):
        X, y = strings(12)
        kernel = mc.Tempered(mc.Marginalization(mc.AffinePairHMM((1, -1), open_probability=0.1)))
        made = mc.report(X, y, make_pipeline(kernel, SVC(kernel="precomputed")), folds=2)
        assert "Colored positions" not in made.html

    def test_other_errors_are_not_hidden(self, monkeypatch):
        def fails(*args, **kwargs):
            raise ValueError("a defect")

        monkeypatch.setattr("mercer._report.details.explain", fails)
        with pytest.raises(ValueError, match="a defect"):
            shares_of(SimpleNamespace(X=["ab"]), SimpleNamespace(model=None), [0])


@pytest.fixture
def in_style():
    from matplotlib import style

    with style.context(["default", figures.STYLE]):
        yield


@pytest.mark.usefixtures("in_style")
class TestFigures:
    def test_an_image_is_read_back(self):
        from io import BytesIO

        from matplotlib.image import imread

        made = figures.heat_map(np.arange(12.0).reshape(3, 4)[:, :3], "a & b", (0.0, 10.0))
        assert 'alt="a &amp; b"' in made
        image = imread(BytesIO(base64.b64decode(made.split("base64,")[1][:-2])))
        assert image.shape[:2] == (3, 3)
        np.testing.assert_allclose(image[0, 0, :3] * 255, [68, 1, 84], atol=1)

    def test_a_large_matrix_is_averaged(self):
        assert len(figures.heat_map(np.random.default_rng(0).random((900, 900)), "x", (0.0, 1.0))) < 250_000

    def test_the_colors_of_a_gram_matrix_span_the_similarities_of_different_samples(self):
        K = np.eye(4) + 0.01 * np.arange(16.0).reshape(4, 4)
        assert figures.limits(K) == pytest.approx((0.01, 0.14))
        rng = np.random.default_rng(0)
        K = 0.3 * rng.random((40, 40))
        others = K[~np.eye(40, dtype=bool)]
        assert figures.limits(np.where(np.eye(40, dtype=bool), 1.0, K)) == pytest.approx(
            np.quantile(others, [0.01, 0.99])
        )
        assert figures.limits(np.ones((1, 1))) == (1.0, 1.0)

    def test_a_series_has_gaps_and_single_points(self):
        values = np.array([0.0, 1.0, np.nan, 2.0, np.nan, 1.0, 0.0])[:, None]
        drawn = figures.series(values, np.array([3, 0, 0, -1, 0, 0, 0]))
        (line,) = re.findall(r'<path d="([^"]*)" style="fill: none; stroke: var\(--c0\)', drawn)
        assert line.count("M") == 3
        assert drawn.count("<use ") == 1
        assert re.findall(r"fill: var\(--(\w+)\); fill-opacity: ([.\d]+)", drawn) == [
            ("against", "0.18"),
            ("for", "0.5"),
        ]
        assert "values 0 to 2" in drawn
        assert 'aria-label="series of 2 steps"' in figures.series(np.full((2, 1), np.nan), None)

    def test_each_channel_of_a_series_has_an_axis_of_its_own(self):
        flat, high = np.sin(np.arange(12.0)), 36 + 0.1 * np.cos(np.arange(12.0))
        levels = np.zeros((12, 2), dtype=int)
        levels[3, 0], levels[8, 1] = 3, -3
        drawn = figures.series(np.stack([flat, high], axis=1), levels, ["acc", "skin_temp"])
        heights = []
        for k in range(2):
            (line,) = re.findall(rf'<path d="([^"]*)" style="fill: none; stroke: var\(--c{k}\)', drawn)
            heights.append(np.ptp([float(y) for y in re.findall(r"[ML] [-.\d]+ ([-.\d]+)", line)]))
        assert min(heights) > 0.9 * max(heights)  # although their ranges are 2 and 0.2
        assert "acc, values -1 to 0.989" in drawn
        assert "skin_temp, values 35.9 to 36.1" in drawn
        assert re.findall(r"fill: var\(--(\w+)\); fill-opacity: 0.5", drawn) == ["for", "against"]
        for_, against = drawn.index("var(--for)"), drawn.index("var(--against)")
        assert for_ < drawn.index("stroke: var(--c0)") < against < drawn.index("stroke: var(--c1)")

    def test_points_are_in_the_order_of_their_texts(self):
        task = SimpleNamespace(y=np.array(["b", "a", "b", "a"]), is_regression=False)
        embedding = np.array([[3.0, 0.0], [1.0, 0.0], [4.0, 1.0], [2.0, 1.0]])
        drawn = figures.components(task, SimpleNamespace(embedding=embedding, share=np.array([0.5, 0.25])))
        at = [float(x) for x in re.findall(r'<use [^>]*x="([.\d]+)"[^>]*fill-opacity', drawn)]
        assert at == sorted(at)
        assert "component 1 (50 % of the variance)" in drawn

    def test_targets_have_five_levels(self):
        task = SimpleNamespace(y=np.arange(20.0), is_regression=True)
        np.testing.assert_array_equal(np.bincount(figures.codes_of(task)), 4)

    def test_twenty_classes_look_different(self):
        assert len({(figures.MARKERS[i % 8], figures.color(i)) for i in range(20)}) == 20


class TestCoverage:
    def shares(self, errors, groups=None):
        task = SimpleNamespace(y=np.zeros(len(errors)), groups=groups)
        return figures.coverages(task, SimpleNamespace(predicted=np.asarray(errors)))

    def test_it_does_not_depend_on_the_order_of_the_samples(self):
        errors = np.sort(np.random.default_rng(0).normal(size=80) ** 2)  # one half by order would have the smallest
        found = self.shares(errors)
        assert found.shape == (figures.SPLITS, 9)
        np.testing.assert_allclose(found.mean(axis=0), figures.INTERVALS, atol=0.03)
        assert found.std(axis=0).min() > 0.01  # the splits differ

    def test_one_split_by_hand(self):
        errors = np.array([1.0, 2.0, 3.0, 4.0])
        first = np.random.default_rng(0).permutation(4)[:2]
        known, new = errors[first], np.delete(errors, first)
        expected = [np.mean(new <= np.quantile(known, level)) for level in figures.INTERVALS]
        np.testing.assert_allclose(self.shares(errors)[0], expected)

    def test_groups_stay_together(self):
        # Each half has one group only, in which all errors are equal: intervals cover all others or none.
        assert set(np.unique(self.shares([1.0] * 5 + [2.0] * 5, np.repeat(["a", "b"], 5)))) == {0.0, 1.0}


@pytest.mark.usefixtures("in_style")
class TestCurves:
    def curve(self, means, chosen=1.0, values=(0.01, 0.1, 1.0, 10.0)):
        made = Curve("C", list(values), np.array(means), np.full(len(means), 0.01), chosen)
        return page.about_curve(made, "accuracy"), figures.error_curve(made, "accuracy")

    @pytest.mark.parametrize("error", [0.0, 0.25])
    def test_an_error_that_is_the_same_everywhere_is_a_sentence(self, error):
        assert self.curve([error] * 4) == (f"1 - accuracy is {error:.3f} at every C from 0.01 to 10.", None)

    def test_all_values_with_the_smallest_error_are_named(self):
        about, _ = self.curve([0.5, 0.0, 0.0, 0.1])
        assert "at C = 0.1, 1;" in about
        assert "The line marks" in about
        assert "end of the range" not in about
        assert "end of the range" in self.curve([0.5, 0.4, 0.3, 0.1])[0]
        assert "The line marks" not in self.curve([0.5, 0.4, 0.3, 0.1], chosen=None)[0]

    def test_the_axis_is_that_of_errors(self):
        labels = re.findall(r">([-−.\d]+)</text>", self.curve([0.0, 0.995, 0.0, 1.0])[1])
        assert labels == ["0.01", "0.1", "1", "10", "0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]

    @pytest.mark.slow
    def test_models_that_do_not_converge_are_not_told(self):
        rng = np.random.default_rng(0)
        X = mc.Sequences([rng.normal(size=(9, 1)) + i % 2 for i in range(16)])
        model = make_pipeline(mc.Fisher(mc.HMM(2, n_iter=2, n_init=1)), SVC(kernel="precomputed"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mc.report(X, np.arange(16) % 2, model, folds=2)


@pytest.mark.slow
def test_a_report_on_the_largest_data_is_small():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 2)), np.arange(2000) % 2
    ids = [f"a sample with a rather long name, number {i}" for i in range(2000)]
    found = mc.report(X + y[:, None], y, make_pipeline(mc.RBF(0.1), SVC(kernel="precomputed")), folds=2, ids=ids)
    assert len(found.html) < 2e6


def test_long_names_make_no_large_page():
    task = SimpleNamespace(y=np.array(["x" * 9000]), is_regression=False)
    assert len(page.answer(task, "y" * 9000, 0)) < 300


def test_a_path_that_is_read_only_is_refused_before_the_work(monkeypatch, tmp_path):
    typer = pytest.importorskip("typer", reason="needs the command line")
    from mercer.cli._terminal import check_outputs

    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="read-only"):
        mc.report(*strings(), PIPELINE, path=tmp_path / "report.html")
    with pytest.raises(typer.Exit):
        check_outputs(tmp_path / "report.html")


class TestConfusions:
    def test_many_classes_are_drawn_and_the_most_frequent_confusions_listed(self):
        y = np.arange(13)
        found = page.confused(y, np.where(y == 3, 5, y))
        assert 'alt="confusion matrix of 13 classes' in found["image"]
        assert found["pairs"] == [("3", "5", 1)]

    def test_long_labels_are_cut(self, found):
        titles = [a["title"] for tag, a in Page(found.html).elements if tag == "span" and "title" in a]
        assert titles == [EVIL[:-1]] * 2  # NumPy drops the last character
        assert f"{EVIL[:23]}…" in Page(found.html).said


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PROBE = """<script>
window.addEventListener("load", () => {
  const point = document.querySelector("svg[data-live] use[data-i='3']");
  point.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
  const hovered = document.getElementById("tip").textContent;
  const chart = point.closest("svg");
  chart.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
  const moved = document.getElementById("tip").textContent;
  document.getElementById("theme").click();
  const theme = document.documentElement.dataset.theme;
  document.body.dataset.probe = JSON.stringify([hovered, moved, theme, document.title]);
});
</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: chromium)")
def test_in_a_browser(found, tmp_path):
    """Points answer to the mouse and to the keyboard, the theme changes, and the console is empty."""
    probed = tmp_path / "report.html"
    # The probe is a second script, which the policy of the page would refuse.
    probed.write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", found.html).replace("</body>", PROBE)
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=2000"]
    for target in (probed, tmp_path / "plain.html"):
        if target is not probed:
            target.write_text(found.html)
        run = subprocess.run(
            [CHROMIUM, *flags, "--dump-dom", target.as_uri()], capture_output=True, text=True, timeout=120
        )
        assert "CONSOLE" not in run.stderr, run.stderr
        if target is probed:
            hovered, moved, theme, title = json.loads(html.unescape(re.search(r'data-probe="([^"]*)"', run.stdout)[1]))
            assert hovered.startswith("<script>")
            assert moved != hovered
            assert theme in ("light", "dark")
            assert title != "owned"
