"""What positions contribute to decisions: sums are exact, and shares have their definition as slow truth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import mercer as mc

RNG = np.random.default_rng(0)
STRINGS = ["".join(RNG.choice(list("ACGT"), size=RNG.integers(8, 20))) for _ in range(40)]
LABELS = np.array([x.count("A") > x.count("C") for x in STRINGS]).astype(int)
CLASSES = np.array(["a", "b", "c"])[np.array([x.count("G") % 3 for x in STRINGS])]
NEW = ["ACGTTGCA", "GGNGTACCA", "TTTTACGA"]


def estimator(C: float = 1.0, **parameters) -> SVC:
    return SVC(kernel="precomputed", C=C, **parameters)


def exact(pipeline, X, values, **options):
    found = mc.explain(pipeline, X, **options)
    assert found.exact
    assert found.method == "additive"
    np.testing.assert_allclose(found.decision, values, rtol=1e-9, atol=1e-9)
    assert np.abs(found.residual).max() < 1e-9
    return found


KERNELS = [
    mc.Spectrum(2),
    mc.Spectrum(3, mismatches=1, normalize=False),
    mc.Spectrum(6, mismatches=1, alphabet="dna"),
    mc.Spectrum(8, alphabet="dna", on_zero="zero"),
    mc.Centered(mc.Spectrum(2)),
    mc.Centered(mc.Spectrum(2), normalize=True),
    mc.kernels.Normalized(mc.Spectrum(2, normalize=False) + 0.5 * mc.Spectrum(1)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=range(len(KERNELS)))
def test_contributions_and_bias_sum_to_the_decision(kernel):
    pipeline = make_pipeline(kernel, estimator()).fit(mc.Sequences(STRINGS, alphabet="dna"), LABELS)
    new = mc.Sequences(NEW, alphabet="dna", ids=["one", "two", "three"])
    found = exact(pipeline, new, pipeline.decision_function(new))
    assert [len(c) for c in found.contributions] == [8, 9, 8]
    assert found.ids == ("one", "two", "three")
    assert found.names[1] == tuple("GGNGTACCA")
    assert found.contributions[1][2] == 0  # a missing symbol
    small = mc.compact(pipeline)
    for a, b in zip(found.contributions, exact(small, new, small.decision_function(new)).contributions, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_a_window_is_spread_over_its_positions():
    """Truth by the definition: sum_i a_i <counts of the window, counts of z_i>, over norms, a k-th to each position."""
    kernel = mc.Spectrum(2)
    pipeline = make_pipeline(kernel, estimator()).fit(STRINGS, LABELS)
    words = [a + b for a in "ACGT" for b in "ACGT"]

    def counts(x):
        return np.array([sum(x[t : t + 2] == w for t in range(len(x) - 1)) for w in words], dtype=float)

    svc, x = pipeline[-1], NEW[0]
    rows = np.array([counts(STRINGS[i]) for i in svc.support_])
    weight = svc.dual_coef_[0] @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)) / np.linalg.norm(counts(x))
    expected = np.zeros(len(x))
    for t in range(len(x) - 1):
        expected[t : t + 2] += weight[words.index(x[t : t + 2])] / 2
    np.testing.assert_allclose(mc.explain(pipeline, [x]).contributions[0], expected, atol=1e-12)


def test_mean_maps_of_symbols_and_points():
    pipeline = make_pipeline(mc.EmpiricalMeanMap(order=1, gamma=0.5), estimator()).fit(STRINGS, LABELS)
    exact(pipeline, NEW[::2], pipeline.decision_function(NEW[::2]))
    points = [
        RNG.normal(size=(n, 2)) + np.array([c, 0])
        for n, c in zip(RNG.integers(3, 8, 30), np.arange(30) % 2, strict=True)
    ]
    absolute = mc.EmpiricalMeanMap(order=1, gamma=0.5, base="laplace")
    for kernel in (mc.EmpiricalMeanMap(order=1, gamma=0.5), absolute, mc.EmpiricalMeanMap(gamma=0.5, n_components=20)):
        pipeline = make_pipeline(kernel, estimator()).fit(points, np.arange(30) % 2)
        found = exact(pipeline, points[:3], pipeline.decision_function(points[:3]), method="additive")
        assert found.contributions[0].shape == points[0].shape
        assert found.channels == ("x0", "x1")
    linear = make_pipeline(mc.Features(kernel), LogisticRegression()).fit(points, np.arange(30) % 2)
    exact(linear, points[:3], linear.decision_function(points[:3]))


# -- estimators ------------------------------------------------------------------------------------------------


def regressors():
    yield make_pipeline(mc.Spectrum(2), SVR(kernel="precomputed"))
    yield make_pipeline(mc.Spectrum(2), mc.KernelRidge())
    yield mc.KernelRidge(mc.Spectrum(2))
    yield make_pipeline(mc.Spectrum(2), KernelCenterer(), Ridge())
    yield make_pipeline(mc.Landmarks(mc.Spectrum(2), 20, explicit=False), Ridge())
    yield make_pipeline(mc.Features(mc.Spectrum(2)), StandardScaler(), PCA(5), Ridge())


@pytest.mark.parametrize("pipeline", list(regressors()), ids=range(6))
def test_regression(pipeline):
    pipeline.fit(STRINGS, LABELS * 1.5 + 3)
    exact(pipeline, NEW[::2], pipeline.predict(NEW[::2]))


def test_several_classes():
    new = NEW[::2]
    pairs = make_pipeline(mc.Spectrum(2), estimator(decision_function_shape="ovo")).fit(STRINGS, CLASSES)
    found = exact(pairs, new, pairs.decision_function(new))
    assert found.outputs == ("a - b", "a - c", "b - c")
    assert found.contributions[0].shape == (8, 3)
    rest = make_pipeline(mc.Spectrum(2), estimator()).fit(STRINGS, CLASSES)
    summed = mc.explain(rest, new)
    ovo = found.decision
    np.testing.assert_allclose(summed.decision[:, 0], ovo[:, 0] + ovo[:, 1], atol=1e-9)
    assert summed.outputs == ("a", "b", "c")
    assert np.abs(summed.residual).max() < 1e-9
    one = mc.explain(rest, new, output="b")
    assert one.outputs == ("b",)
    assert one.contributions[0].shape == (8,)
    np.testing.assert_allclose(one.contributions[0], summed.of_output("b").contributions[0], atol=1e-12)
    linear = make_pipeline(mc.Features(mc.Spectrum(2)), LogisticRegression()).fit(STRINGS, CLASSES)
    assert exact(linear, new, linear.decision_function(new)).classes.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="output must be one of a, b, c; got 'd'"):
        mc.explain(rest, new, output="d")


def test_estimators_around_a_pipeline():
    pipeline, new = make_pipeline(mc.Spectrum(2), estimator()), NEW[::2]
    search = GridSearchCV(pipeline, {"svc__C": [1.0, 10.0]}, cv=2).fit(STRINGS, LABELS)
    exact(search, new, search.decision_function(new))
    novel = make_pipeline(mc.Spectrum(2), OneClassSVM(kernel="precomputed")).fit(STRINGS)
    exact(novel, new, novel.decision_function(new))


def test_confounds():
    age = np.linspace(20, 60, len(STRINGS))
    X, new = mc.Confounded(STRINGS, age), mc.Confounded(NEW[::2], [[30.0], [70.0]])
    pipeline = make_pipeline(mc.Residualized(mc.Spectrum(2)), estimator()).fit(X, LABELS)
    assert mc.explain(pipeline, new).method == "marginal"
    with pytest.raises(TypeError, match="KernelRidge was fitted with confounds, which have no positions"):
        mc.explain(mc.KernelRidge(mc.Spectrum(2)).fit(X, LABELS), new)


# -- the result ----------------------------------------------------------------------------------------------


def test_lists_and_tables():
    pipeline = make_pipeline(mc.Spectrum(2), estimator()).fit(STRINGS, CLASSES)
    found = mc.explain(pipeline, NEW[:1])
    frame = found.to_frame()
    assert frame.columns.tolist() == ["sample", "position", "name", "output", "contribution"]
    assert len(frame) == 24
    first = found.top(3, output="a")[0]
    assert [abs(c.value) for c in first] == sorted((abs(c.value) for c in first), reverse=True)
    assert len(first) == 3
    assert first[0].name == NEW[0][first[0].position]
    assert found.predicted == tuple(pipeline.predict(NEW[:1]))
    assert found.top(2) == found.top(2, output=found.predicted[0])
    pairs = make_pipeline(mc.Spectrum(2), estimator(decision_function_shape="ovo")).fit(STRINGS, CLASSES)
    with pytest.raises(ValueError, match=r"3 outputs: a - b, a - c, b - c. Pass output="):
        mc.explain(pairs, NEW[:1]).top(2)
    with pytest.raises(ValueError, match="read-only"):
        found.contributions[0][0] = 1.0


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pipeline", "error", "sentence"),
    [
        (make_pipeline(mc.Spectrum(2), estimator()), NotFittedError, "not fitted. Call fit"),
        (SVC, TypeError, "must be a fitted pipeline"),
        (make_pipeline(StandardScaler(), Ridge()).fit(np.eye(3), [1, 2, 3]), ValueError, "no kernel of mercer"),
        (make_pipeline(StandardScaler(), SVC()).fit(np.eye(3), [1, 2, 1]), TypeError, "kernel='rbf'"),
        (make_pipeline(mc.Spectrum(2), KNeighborsClassifier()).fit(STRINGS, LABELS), TypeError, "KNeighborsClassifier"),
        (make_pipeline(mc.Spectrum(2)).fit(STRINGS), TypeError, "Spectrum is the last step"),
    ],
)
def test_pipelines_that_cannot_be_explained(pipeline, error, sentence):
    with pytest.raises(error, match=sentence):
        mc.explain(pipeline, NEW)


def test_the_other_class_of_two_and_samples_that_do_not_exist():
    pipeline = make_pipeline(mc.Spectrum(2), estimator()).fit(["ACGT", "AGGA", "TTTT", "TTAT"], [1, 1, 0, 0])
    found = mc.explain(pipeline, ["AGGT"], output=1)
    other = mc.explain(pipeline, ["AGGT"], output=0)
    assert other.outputs == ("0",)
    for against in (other, found.of_output(0), other.of_output(0), other.of_output(1).of_output(0)):
        np.testing.assert_array_equal(against.contributions[0], -found.contributions[0])
        assert against.decision == -found.decision
        assert np.abs(against.residual).max() < 1e-12
    with pytest.raises(ValueError, match="must be one of 1; got 2"):
        found.top(3, output=2)
    with pytest.raises(IndexError, match="1 samples has no sample 4"):
        found[4]


def test_kernels_and_options_that_cannot():
    product = make_pipeline(mc.Spectrum(1) * mc.Spectrum(2), estimator()).fit(STRINGS, LABELS)
    with pytest.raises(TypeError, match=r"Product is not a sum over positions.*method='marginal'"):
        mc.explain(product, NEW[:1], method="additive")
    pipeline = make_pipeline(mc.Spectrum(2), estimator()).fit(STRINGS, LABELS)
    with pytest.raises(ValueError, match=r"method must be one of .*; got 'exact'"):
        mc.explain(pipeline, NEW[:1], method="exact")
    with pytest.raises(ValueError, match="window must be a whole number"):
        mc.explain(pipeline, NEW[:1], window=0)
    with pytest.raises(ValueError, match="window = 3 needs method='marginal'"):
        mc.explain(pipeline, NEW[:1], window=3, method="additive")
