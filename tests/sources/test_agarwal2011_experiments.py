"""Agarwal and Daume 2011, section 5: the compared methods, and their order in the tables and figures.

The tables and figures are measured by ``reproductions/agarwal2011.py``; here its result files are read.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.naive_bayes import MultinomialNB
from tests.sources.truths import Errors

import mercer as mc
from mercer.datasets import make_documents

GENERATIVE, OTHERS = ("Exp", "Inverse"), ("Heat", "Linear")


def test_a12_compared_methods(rng):
    counts, labels = rng.poisson(1.5, size=(12, 6)).astype(float) + np.eye(12, 6), np.arange(12) % 2
    unit = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    heat = np.exp(-(np.arccos(np.clip(unit @ unit.T, 0, 1)) ** 2) / 2.0)
    np.fill_diagonal(heat, 1)
    assert_allclose(mc.Heat(t=2.0)(mc.Multinomial().fit_each(counts**2)), heat, rtol=1e-7)

    frequencies = counts / counts.sum(axis=1, keepdims=True)
    roots = np.sqrt(frequencies)
    assert_allclose(mc.Linear(normalize=False)(frequencies), frequencies @ frequencies.T, rtol=1e-13)
    assert_allclose(mc.ProbabilityProduct(mc.Multinomial(), rho=0.5)(counts), roots @ roots.T, rtol=1e-12)

    alpha, uniform = 0.1, mc.Multinomials(np.full((1, 6), 1 / 6))
    smoothed = mc.Multinomial(prior=uniform, prior_strength=6 * alpha)
    bayes = mc.LikelihoodRatio(smoothed).fit(counts[:8], labels[:8])
    totals = np.array([counts[:8][labels[:8] == c].sum(axis=0) + alpha for c in (0, 1)])
    logs = counts[8:] @ np.log(totals / totals.sum(axis=1, keepdims=True)).T
    assert_allclose(bayes.decision_function(counts[8:]), logs[:, 1] - logs[:, 0], rtol=1e-10)
    reference = MultinomialNB(alpha=alpha).fit(counts[:8], labels[:8])
    assert_allclose(bayes.predict_proba(counts[8:]), reference.predict_proba(counts[8:]), rtol=1e-8)


# -- section 5.1: random multinomials ------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a13_documents_with_noise(noise):
    counts, _ = make_documents(4000, n_words=100, length=20, n_classes=1, noise=noise, random_state=0)
    plain, _ = make_documents(20_000, n_words=100, length=20, n_classes=1, random_state=0)
    frequencies = plain.sum(axis=0) / plain.sum()
    equal = np.sum(frequencies**2)
    # Draws at distance k are copies of the same draw with probability noise^k.
    lags = np.arange(1, 20)
    expected = 2 * np.sum((20 - lags) * (noise**lags * (1 - equal) + equal))
    counts = counts.toarray()
    pairs = np.sum(counts * (counts - 1), axis=1)
    assert np.all(counts.sum(axis=1) == 20)
    assert abs(pairs.mean() - expected) < 4 * pairs.std() / np.sqrt(4000)
    error = counts.std(axis=0) / np.sqrt(4000)
    assert np.all(np.abs(counts.mean(axis=0) - 20 * frequencies) < 6 * error + 1e-3)  # noise keeps the frequencies


@pytest.mark.parametrize("kind", ["", "best"])
def test_a13_figure_4(kind):
    errors = Errors("agarwal2011_figure4")
    for n in ("2", "5", "10", "20", "50", "100"):
        dense = {name: errors("dense", name, n, kind) for name in (*GENERATIVE, *OTHERS, "Naive Bayes")}
        assert dense["Naive Bayes"] == min(dense.values())  # no kernel beats the correct model
        assert max(dense[name] for name in GENERATIVE) <= min(dense[name] for name in OTHERS)
    for n in ("5", "10", "20", "50", "100"):
        gains = [
            1 - errors(setting, "Naive Bayes", n, kind) / errors(setting, "Inverse", n, kind)
            for setting in ("dense", "sparse")
        ]
        assert 0 <= gains[1] < gains[0] + 0.02  # relative differences are smaller where the problem is harder
        assert errors("sparse", "Inverse", n, kind) > 5 * errors("dense", "Inverse", n, kind)


@pytest.mark.parametrize("kind", ["", "best"])
def test_a13_figure_5(kind):
    errors = Errors("agarwal2011_figure5")
    ahead = {
        noise: errors("sparse", "Inverse", noise, kind) - errors("sparse", "Naive Bayes", noise, kind)
        for noise in ("0", "0.1", "0.2", "0.3", "0.5")
    }
    assert ahead["0"] > 0
    assert abs(ahead["0.1"]) < 0.003  # naive Bayes is better up to about 10 %
    assert max(ahead[noise] for noise in ("0.2", "0.3", "0.5")) < 0
    for name in GENERATIVE:
        for noise in ("0.2", "0.3", "0.5"):
            for other in OTHERS:
                assert errors("sparse", name, noise, kind) < errors("sparse", other, noise, kind) - 0.02
                assert errors("dense", name, noise, kind) < errors("dense", other, noise, kind)
    assert errors("dense", "Inverse", "0.5", kind) < errors("dense", "Naive Bayes", "0.5", kind)  # not in the paper


# -- section 5.2: text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ours (best)", "paper"])
def test_a14_table_1(kind):
    errors = Errors("agarwal2011_table1")
    tasks = ["faculty vs. course", "student vs. project", "course vs. project"]
    tasks += ["faculty vs. project", "faculty vs. student", "student vs. course"]
    for task in tasks:
        worst = max(errors(task, name, kind) for name in GENERATIVE)
        assert worst < min(errors(task, name, kind) for name in (*OTHERS, "Naive Bayes"))
        assert abs(errors(task, "Exp", "ours (best)") - errors(task, "Exp", "paper")) < 0.03
    assert errors("mean", "Exp", kind) < errors("mean", "Heat", kind) < errors("mean", "Linear", kind)


@pytest.mark.parametrize("kind", ["ours (CV)", "ours (best)", "paper"])
def test_a14_table_2(kind):
    errors = Errors("agarwal2011_table2")
    generative = [errors("mean", name, kind) for name in (*GENERATIVE, "Centering")]
    assert max(generative) - min(generative) < 0.004  # "all of the generative kernels perform almost equally good"
    assert max(generative) <= min(errors("mean", name, kind) for name in (*OTHERS, "Naive Bayes"))


@pytest.mark.parametrize("kind", ["", "best"])
@pytest.mark.parametrize(
    ("figure", "task"),
    [
        ("agarwal2011_figure6", "faculty vs. student"),
        ("agarwal2011_figure6", "student vs. course"),
        ("agarwal2011_figure7", "acq vs. earn"),
        ("agarwal2011_figure7", "acq vs. crude"),
    ],
)
def test_a14_figures_1_6_7(figure, task, kind):
    errors = Errors(figure)

    def curve(names, n):
        return [errors(task, name, n, kind) for name in names]

    for n in ("20", "50", "100"):  # the lower envelope of the other curves
        assert max(curve(GENERATIVE, n)) <= min(curve(OTHERS, n))
    for n in ("50", "100"):
        assert max(curve(GENERATIVE, n)) < min(curve(["Naive Bayes"], n))
    assert max(curve(GENERATIVE, "100")) < 0.4 * max(curve(GENERATIVE, "1"))
    if figure == "agarwal2011_figure7":
        for n in ("5", "10", "20", "50", "100"):  # "all of the generative kernels perform almost equally good"
            assert np.ptp(curve([*GENERATIVE, "Centering"], n)) < 0.009
