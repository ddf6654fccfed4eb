"""Contributions to decisions of kernels of scores, counts and words; transformers, and planted motifs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

import mercer as mc

RNG = np.random.default_rng(1)
STRINGS = mc.Sequences(["".join(RNG.choice(list("ACGT"), size=RNG.integers(6, 12))) for _ in range(24)], alphabet="dna")
LABELS = np.arange(24) % 2
CLASSES = np.arange(24) % 3
NEW = mc.Sequences(["ACGTTA", "NACNNGTTN", "TTGA"], alphabet="dna")
SERIES = [RNG.normal(size=(int(RNG.integers(5, 9)), 2)).cumsum(axis=0) + i % 2 for i in range(24)]
GAPS = [x.copy() for x in SERIES[:4]]
GAPS[0][2] = GAPS[1][:2] = GAPS[2][-2:] = np.nan
GAPS[3][1, 1] = np.nan

pytestmark = pytest.mark.filterwarnings("ignore")  # of fits that stop early


def estimator() -> SVC:
    return SVC(kernel="precomputed", C=5.0)


def exact(pipeline, X, values=None):
    found = mc.explain(pipeline, X, method="additive")
    if values is not None:
        np.testing.assert_allclose(found.decision, values, rtol=1e-9, atol=1e-9)
    assert np.abs(found.residual).max() < 1e-9
    return found


def hmm(n: int = 2, *emission) -> mc.HMM:
    return mc.HMM(n, *emission, n_init=1, n_iter=5)


CHAIN = mc.MarkovChain(1, smoothing=1.0)
KERNELS = [
    mc.Fisher(hmm()),
    mc.Fisher(hmm(), information="diagonal", per="step", power=0.5),
    mc.Fisher(hmm(), information="empirical", power=0.7),
    mc.Fisher(hmm(), by_class=True, parametrization="weight"),
    mc.Fisher(CHAIN),
    mc.Fisher(mc.MarkovChain(3, smoothing=1.0), information="diagonal", power=0.5),
    mc.kernels.Normalized(mc.Fisher(CHAIN, normalize=False) + 2.0 * mc.Spectrum(2)),
    mc.kernels.TargetAligned([mc.Spectrum(1), mc.Fisher(CHAIN)]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=range(len(KERNELS)))
def test_symbols(kernel):
    pipeline = make_pipeline(kernel, estimator()).fit(STRINGS, LABELS)
    found = exact(pipeline, NEW, pipeline.decision_function(NEW))
    assert [len(c) for c in found.contributions] == [6, 9, 4]
    assert not found.contributions[1][[0, 3, 4, 8]].any()  # missing symbols


def test_three_classes():
    kernel = mc.Fisher(hmm(), by_class=True)
    assert exact(make_pipeline(kernel, estimator()).fit(STRINGS, CLASSES), NEW).outputs == ("0", "1", "2")
    linear = make_pipeline(mc.Features(mc.Fisher(CHAIN)), LogisticRegression()).fit(STRINGS, CLASSES)
    exact(linear, NEW, linear.decision_function(NEW))


@pytest.mark.parametrize(
    "model",
    [
        hmm(2),
        hmm(2, mc.Mixture(mc.Gaussian("diagonal"), 2)),
        mc.Gaussian("diagonal"),
        pytest.param(mc.LDS(1, n_iter=2), marks=pytest.mark.slow),
    ],
    ids=["hmm", "mixture", "points", "lds"],
)
def test_series_with_gaps(model):
    for kernel in (mc.Fisher(model), mc.Fisher(model, information="empirical", power=0.6)):
        pipeline = make_pipeline(kernel, estimator()).fit(SERIES, LABELS)
        found = exact(pipeline, GAPS, pipeline.decision_function(GAPS))
        for x, c in zip(GAPS, found.contributions, strict=True):
            assert c.shape == x.shape
            assert not c[np.isnan(x)].any()


def test_powers_are_shared_in_proportion():
    """Truth by the definition: z_t phi(z) / z of every feature, with the weights of the features of the kernel."""
    kernel = mc.Fisher(mc.Gaussian("diagonal"), information="diagonal", per="step", power=0.5)
    pipeline = make_pipeline(kernel, estimator()).fit(SERIES, LABELS)
    kernel, svc, x = pipeline[0], pipeline[-1], SERIES[0]
    w = svc.dual_coef_[0] @ kernel.features([SERIES[i] for i in svc.support_])
    mean, sd = kernel.model_.mean[0], np.sqrt(kernel.model_.covariance[0])
    each = np.concatenate([(x - mean) / sd**2, ((x - mean) / sd) ** 2 - 1], axis=1) / len(x)
    z = each * kernel._whiten.columns
    total = z.sum(axis=0)
    shares = z * w * np.sign(total) * np.abs(total) ** 0.5 / total / np.linalg.norm(np.abs(total) ** 0.5)
    expected = shares[:, :2] + shares[:, 2:]  # mean and scale of the same channel
    np.testing.assert_allclose(mc.explain(pipeline, [x]).contributions[0], expected, atol=1e-10)


# -- words and columns ---------------------------------------------------------------------------------------


def test_words():
    counts = RNG.poisson(0.7, size=(24, 9)).astype(float) + np.eye(9)[np.arange(24) % 9]
    kernels = [mc.Linear(), mc.Fisher(mc.Multinomial()), mc.Fisher(mc.Multinomial(), information="diagonal")]
    kernels += [mc.Fisher(mc.Multinomial(), parametrization="weight")]
    for kernel in kernels:
        thick = exact(make_pipeline(kernel, estimator()).fit(counts, LABELS), counts[:2])
        thin = sparse.csr_array(counts)
        found = exact(make_pipeline(kernel, estimator()).fit(thin, LABELS), thin[:2])
        for row, c, whole in zip(counts, found.contributions, thick.contributions, strict=False):
            np.testing.assert_allclose(whole[row > 0], c, atol=1e-8)
            assert not whole[row == 0].any()  # words that do not occur contribute nothing


def test_names_of_words():
    text = ["red green blue", "red red dog", "blue sky cat", "green cat cat"]
    pipeline = make_pipeline(CountVectorizer(), mc.Fisher(mc.Multinomial()), estimator()).fit(
        text * 3, [0, 1, 0, 1] * 3
    )
    found = exact(pipeline, text[:2], pipeline.decision_function(text[:2]))
    assert found.names == [("blue", "green", "red"), ("dog", "red")]
    assert found.kind == "columns"


def test_leaves_of_a_tree():
    profiles = mc.datasets.make_profiles(16, random_state=0)
    X = profiles.data.astype(float)
    pipeline = make_pipeline(mc.Fisher(mc.HiddenTree(profiles.tree, n_iter=2)), estimator()).fit(X, np.arange(16) % 2)
    new = X[:2].copy()
    new[0, 3] = np.nan
    found = exact(pipeline, new, pipeline.decision_function(new))
    assert found.kind == "leaves"
    assert found.names[0][:2] == ("genome1", "genome2")
    assert found.contributions[0][3] == 0 != found.contributions[1][3]


# -- transformers of series ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        [mc.Derivatives(2)],
        [mc.Derivatives(), mc.Standardize()],
        [mc.data.Resample(6), mc.data.Clock(2.0)],
        [mc.data.Windows(3)],
        [mc.data.FillGaps()],
    ],
    ids=["derivatives", "standardize", "clock", "windows", "gaps"],
)
def test_shares_pass_back_through_transformers(steps):
    pipeline = make_pipeline(*steps, mc.Fisher(hmm()), estimator()).fit(SERIES, LABELS)
    found = exact(pipeline, GAPS, pipeline.decision_function(GAPS))
    for x, c in zip(GAPS, found.contributions, strict=True):
        assert c.shape == x.shape
        assert not c[np.isnan(x)].any()


def test_derivatives_pass_shares_on():
    X = mc.Sequences([RNG.normal(size=(5, 2)) for _ in range(6)], channels=["a", "b"])
    pipeline = make_pipeline(mc.Derivatives(), mc.EmpiricalMeanMap(), estimator()).fit(X, LABELS[:6])
    after = mc.explain(pipeline[1:], pipeline[0].transform(X[:1]), method="additive").contributions[0]
    found = exact(pipeline, X[:1])
    expected = after[:, :2].copy()
    for t in range(5):  # numpy.gradient: half to each of the two neighbors, at the ends to itself and the neighbor
        for at in (max(t - 1, 0), min(t + 1, 4)):
            expected[at] += after[t, 2:] / 2
    np.testing.assert_allclose(found.contributions[0], expected, atol=1e-12)
    assert found.channels == ("a", "b")


@pytest.mark.slow
def test_the_ensemble_is_explained():
    kernel = mc.FisherEnsemble(n_states=(2,), n_components=4, n_iter=3)
    pipeline = make_pipeline(kernel, estimator()).fit(SERIES, LABELS)
    found = exact(pipeline, GAPS, pipeline.decision_function(GAPS))
    for x, c in zip(GAPS, found.contributions, strict=True):
        assert not c[np.isnan(x)].any()


def test_other_transformers():
    other = make_pipeline(FunctionTransformer(), mc.EmpiricalMeanMap(), estimator()).fit(SERIES, LABELS)
    with pytest.raises(TypeError, match="cannot pass shares back through FunctionTransformer"):
        mc.explain(other, SERIES[:1], method="additive")


# -- planted motifs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", [mc.Spectrum(3), mc.Fisher(mc.MarkovChain(2, smoothing=1.0))], ids=["words", "chain"]
)
def test_planted_motifs_are_found(kernel):
    """The positions of the largest contributions are those of the motif; with shuffled labels they are not."""
    rng = np.random.default_rng(0)
    motif, length, n = "GATTACA", 40, 80
    codes = rng.choice(list("ACGT"), size=(n, length))
    starts, labels = rng.integers(0, length - len(motif), n), np.arange(n) % 2
    for i in np.flatnonzero(labels):
        codes[i, starts[i] : starts[i] + len(motif)] = list(motif)
    X = mc.Sequences(["".join(row) for row in codes], alphabet="dna")
    train, test = np.arange(n) < 60, (np.arange(n) >= 60) & (labels == 1)

    def precision(y):
        pipeline = make_pipeline(kernel, SVC(kernel="precomputed", C=10)).fit(X[train], y)
        found = mc.explain(pipeline, X[test])
        best = [np.argsort(-c)[:5] for c in found.contributions]
        hits = [(top >= at) & (top < at + len(motif)) for top, at in zip(best, starts[test], strict=True)]
        return np.mean(hits)

    found = precision(labels[train])
    null = [precision(rng.permutation(labels[train])) for _ in range(5)]
    assert found > 0.45  # chance is 7 of 40 positions
    assert found > max(null)
    assert found > np.mean(null) + 0.3


def test_positions_that_differ_between_two_samples():
    rng = np.random.default_rng(0)
    codes = rng.choice(list("ACGT"), size=(40, 20))
    codes[:20, 8:12] = list("GGGG")
    X, Y = (["".join(row) for row in part] for part in (codes[:20], codes[20:]))
    found = mc.stats.two_sample_test(X, Y, mc.Spectrum(3), n_permutations=99)
    why = mc.explain(found, X)
    kernel = mc.Spectrum(3)
    expected = kernel(X, X).mean(axis=1) - kernel(X, Y).mean(axis=1)
    np.testing.assert_allclose(why.decision, expected, atol=1e-12)
    assert np.abs(why.residual).max() < 1e-12
    best = np.mean(why.contributions, axis=0).argsort()[-4:]
    assert set(best) <= set(range(7, 13))
    with pytest.raises(TypeError, match="precomputed matrix"):
        mc.explain(mc.stats.two_sample_test(kernel(X + Y), [0] * 20 + [1] * 20, "precomputed", n_permutations=99), X)
