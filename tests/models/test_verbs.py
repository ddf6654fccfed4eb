"""The table of docs/models/verbs.md: what every estimator can be asked, and that the answers agree."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

PAGE = (Path(__file__).parents[2] / "docs/models/verbs.md").read_text(encoding="utf-8")
RNG = np.random.default_rng(0)
SERIES = [np.cumsum(RNG.normal(size=(n, 2)), axis=0) for n in (25, 18)]
ROWS = ["ACG-TAC", "ACGGTAC", "AC--TAC"]
TABLE = [["no", "no"], ["no", "yes"], ["yes", "yes"], ["no", "no"]]
NODES = {"smoke": ["no", "yes"], "cough": ["no", "yes"]}
SHORT = {"n_iter": 3, "tol": 0.0}  # no warning
CASES = {
    "HMM": (mc.HMM(2, **SHORT), SERIES),
    "ProfileHMM": (mc.ProfileHMM("dna"), ROWS),
    "LDS": (mc.LDS(2, **SHORT), SERIES),
    "SwitchingLDS": (mc.SwitchingLDS(2, 1, n_init=1, **SHORT), SERIES),
    "FactorialHMM": (mc.FactorialHMM(n_init=1, **SHORT), SERIES),
    "BayesNet": (mc.BayesNet(NODES, {"cough": ["smoke"]}), TABLE),
    "MarkovNetwork": (mc.models.MarkovNetwork(NODES, [("smoke", "cough")]), TABLE),
    "EmbeddedHMM": (mc.EmbeddedHMM(n_components=3), ["abcabc" * 4, "bcabca"]),
    "Mixture": (mc.Mixture(n_components=2, **SHORT), np.concatenate(SERIES)),
}
FITTED = {name: estimator.fit(X) for name, (estimator, X) in CASES.items()}
TIMED, STATES = ["HMM", "LDS", "SwitchingLDS", "FactorialHMM"], ["HMM", "SwitchingLDS", "FactorialHMM"]
ARGUMENTS = {
    "sample": {"ProfileHMM": (2,), "BayesNet": (2,), "MarkovNetwork": (2,), "Mixture": (2,)},
    "predict": {"BayesNet": (TABLE, "smoke"), "MarkovNetwork": (TABLE, "smoke")},
}
ARGUMENTS["predict_proba"] = ARGUMENTS["predict"]


def table():
    """Return the cells of the page: estimator, verb, and what is there."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
    (_, *verbs), _, *rows = lines[: 2 + len(CASES)]
    for name, *cells in rows:
        for verb, cell in zip(verbs, cells, strict=True):
            for one in re.findall(r"`(\w+)`", verb):
                yield re.search(r"`(\w+)`", name)[1], one, cell


@pytest.mark.parametrize(("name", "verb", "cell"), list(table()))
def test_every_cell_of_the_table(name, verb, cell):
    fitted, X = FITTED[name], CASES[name][1]
    assert hasattr(fitted, verb) == (not cell.startswith("-"))
    if cell.startswith("-"):
        for other in re.findall(r"`(\w+)`", cell):
            assert getattr(fitted, other)(X) is not None
        return
    usual = {"sample": (4,), "summary": ()}.get(verb, (X,))
    found = getattr(fitted, verb)(*ARGUMENTS.get(verb, {}).get(name, usual))
    assert found is not None
    if verb in ("score", "aic", "bic"):
        assert isinstance(found, float)
        assert np.isfinite(found)
    with pytest.raises(NotFittedError):
        getattr(clone(fitted), verb)(*usual)


def test_the_table_has_every_estimator():
    assert {name for name, *_ in table()} == set(CASES)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("BayesNet", "MarkovNetwork", "EmbeddedHMM")])
def test_parameters_are_those_of_the_model_without_its_axis(name):
    fitted, row = FITTED[name], next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    model = fitted.model_
    fields = set(model._arrays | model._parts) - {"n_states", "state_dims", "annotations"}
    assert set(re.findall(r"`(\w+)_`", row)) == fields
    for field in fields:
        whole, found = getattr(model, field), getattr(fitted, field + "_")
        if hasattr(whole, "set"):
            assert_array_equal(found, whole.set(0))
        else:
            assert tuple(found.shape) == tuple(whole.shape[1:])
    assert not hasattr(clone(fitted), min(fields) + "_")


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("LDS", "BayesNet", "MarkovNetwork")])
def test_probabilities_sum_to_one_and_agree_with_predictions(name):
    fitted, X = FITTED[name], CASES[name][1]
    states, shares = fitted.predict(X), fitted.predict_proba(X)
    for path, p in zip(states, shares, strict=True):
        assert_allclose(p.sum(axis=-1), 1.0, atol=1e-12)
        if name not in ("EmbeddedHMM", "Mixture"):  # the best path is not made of the best states, but nearly so
            best = np.take_along_axis(p, np.asarray(path)[..., None] % p.shape[-1], axis=-1)
            assert best.mean() > 0.4
    if name == "Mixture":
        assert_array_equal(states, shares.argmax(axis=1))
        assert [p.shape for p in fitted.predict_proba(SERIES)] == [(25, 2), (18, 2)]
        assert_array_equal(np.concatenate(fitted.predict(SERIES)), states)
    if name == "EmbeddedHMM":
        assert states == ["bcabca" * 4, "cabcab"]


@pytest.mark.parametrize("name", STATES)
def test_the_filter_knows_at_the_end_what_the_posterior_knows(name):
    fitted = FITTED[name]
    seen, known = fitted.filter(SERIES), fitted.predict_proba(SERIES)
    for i, p in enumerate(known):
        assert seen[i].shape == p.shape
        assert_allclose(seen[i][-1], p[-1], atol=1e-9)
        cut = fitted.filter([SERIES[i][:7]])[0]
        assert_allclose(seen[i][:7], cut, atol=1e-9)  # of the past only


def test_the_smoother_of_a_system_ends_where_its_filter_ends():
    fitted = FITTED["LDS"]
    for one, other in zip(fitted.filter(SERIES).of(0), fitted.smooth(SERIES).of(0), strict=True):
        assert_allclose(one[-1], other[-1], atol=1e-10)


def test_the_forecast_of_a_system_by_hand():
    fitted, x = FITTED["LDS"], SERIES[0]
    names = ("transition_", "emission_", "process_covariance_", "observation_covariance_")
    a, c, q, r = (np.asarray(getattr(fitted, name)) for name in names)
    b, offset = fitted.state_offset_, fitted.observation_offset_
    mean, spread = fitted.initial_mean_, fitted.initial_covariance_
    for y in x:
        gain = spread @ c.T @ np.linalg.inv(c @ spread @ c.T + r)
        mean, spread = mean + gain @ (y - c @ mean - offset), spread - gain @ c @ spread
        mean, spread = a @ mean + b, a @ spread @ a.T + q
    means, covariances = fitted.forecast([x], steps=2)
    assert_allclose(means[0], [c @ mean + offset, c @ (a @ mean + b) + offset], rtol=1e-8)
    assert_allclose(covariances[0, 0], c @ spread @ c.T + r, rtol=1e-8)


@pytest.mark.parametrize("name", TIMED)
def test_samples_have_the_moments_that_are_forecast_from_nothing(name):
    fitted = FITTED[name]
    drawn = fitted.sample(3, 20_000, random_state=0)
    means, covariances = fitted.model_.forecast([np.empty((0, 2))], steps=3)
    for t in range(3):
        scale = np.sqrt(np.diagonal(covariances[0, t]))
        assert_allclose(drawn[:, t].mean(axis=0), means[0, t], atol=0.04 * scale.max())
        assert_allclose(
            np.cov(drawn[:, t].T) / np.outer(scale, scale), covariances[0, t] / np.outer(scale, scale), atol=0.05
        )
    if name in STATES:
        series, states = fitted.sample(4, 3, random_state=1, return_states=True)
        assert_allclose(series, fitted.sample(4, 3, random_state=1))
        assert states.shape[:2] == (3, 4)


def test_samples_of_mixtures_and_of_embedded_models():
    mixture = FITTED["Mixture"]
    x = mixture.sample(20_000, random_state=0)
    assert_allclose(x.mean(axis=0), mixture.weights_ @ mixture.components_.mean, atol=0.1)
    codes = FITTED["EmbeddedHMM"].sample(12, 5, random_state=0)
    assert codes.shape == (5, 12)
    assert np.mean((codes[:, 1:] - codes[:, :-1]) % 3 == 1) > 0.9  # abcabc
    vectors = mc.EmbeddedHMM(n_components=2).fit(SERIES)
    assert not hasattr(vectors, "predict_proba")
    drawn = vectors.sample(4, 3, random_state=0)
    assert all((row == np.concatenate(SERIES)).all(axis=1).any() for row in drawn.reshape(-1, 2))
    words = mc.EmbeddedHMM(mc.Spectrum(2, alphabet="ab"), n_components=3).fit([["aab", "bba", "bab"] * 8])
    assert words.predict([["aab", "bba"]])[0] == ["bba", "bab"]
    assert words.sample(3, random_state=0)[0][0] in ("aab", "bba", "bab")


@pytest.mark.parametrize("name", [name for name in CASES if name != "EmbeddedHMM"])
def test_criteria_count_the_parameters_that_the_summary_names(name):
    fitted, X = FITTED[name], CASES[name][1]
    count = {"ProfileHMM": 7 + 6 + 5, "BayesNet": 4, "MarkovNetwork": 4, "Mixture": 43}.get(name, 43)
    if name == "ProfileHMM":
        X = [row.replace("-", "") for row in ROWS]
        count = sum(map(len, X))
    free = int(np.ravel(fitted.model_.n_parameters)[0])
    total = -2 * np.sum(fitted.score_samples(X))
    assert_allclose(fitted.aic(X), 2 * free + total)
    assert_allclose(fitted.bic(X), np.log(count) * free + total)
    assert f"{free} free parameters" in fitted.summary()
    if name in (*TIMED, "Mixture"):
        assert "covariance" in fitted.summary().splitlines()[0]


def test_observations_that_are_missing_do_not_count():
    x = SERIES[0].copy()
    x[3] = np.nan
    for name in TIMED:
        fitted = FITTED[name]
        free = int(np.ravel(fitted.model_.n_parameters)[0])
        assert_allclose(fitted.bic([x]) - fitted.aic([x]), free * (np.log(24) - 2))


@pytest.mark.parametrize("covariance", ["full", "diagonal", "isotropic", "tied"])
def test_covariances_count_as_what_they_are(covariance):
    own = {"full": 2 * 3, "diagonal": 2 * 2, "isotropic": 2, "tied": 3}[covariance]
    hmm = mc.HMM(2, mc.Gaussian(covariance), smoothing=1.0, **SHORT).fit(SERIES)
    mixture = mc.Mixture(mc.Gaussian(covariance), 2, **SHORT).fit(SERIES)
    assert hmm.model_.n_parameters.tolist() == [1 + 2 + 4 + own]
    assert mixture.model_.n_parameters.tolist() == [1 + 4 + own]
    assert f"Gaussians of {covariance} covariance" in hmm.summary()
    assert f"2 Gaussians of {covariance} covariance" in mixture.summary()


@pytest.mark.parametrize("noise", ["full", "diagonal", "isotropic"])
def test_noise_of_systems_counts_as_what_it_is(noise):
    own = {"full": 3, "diagonal": 2, "isotropic": 1}[noise]
    lds = mc.LDS(1, noise, **SHORT).fit(SERIES)
    assert lds.model_.n_parameters.tolist() == [2 + 3 + 2 + own]
    assert f"{noise} covariance of the noise" in lds.summary()


def test_states_of_profiles_by_counting():
    fitted = FITTED["ProfileHMM"]
    from mercer.models._profile.inference import expected

    X = mc.Sequences(["TTACGTAC", "ACGGGTC"], alphabet="dna")
    counts, m = expected(fitted.model_, 0, X), fitted.match_.shape[0]
    for i, p in enumerate(fitted.predict_proba(X)):
        assert p.shape == (len(X[i]), 2 * m + 1)
        assert_allclose(p[:, 1 : m + 1].sum(axis=0), counts.match[i].sum(axis=1), atol=1e-12)
        assert_allclose(p[:, :m:-1].sum(axis=0), counts.insert[i].sum(axis=1), atol=1e-12)
        for code in range(4):
            here = X.values[X.offsets[i] : X.offsets[i + 1]] == code
            assert_allclose(p[here, 1 : m + 1].sum(axis=0), counts.match[i][:, code], atol=1e-12)


@pytest.mark.parametrize("name", ["HMM", "SwitchingLDS"])
def test_occupancy_by_runs(name):
    fitted = FITTED[name]
    found = fitted.occupancy(mc.Sequences(SERIES, ids=["a", "b"]))
    assert found["sample"].tolist() == ["a", "a", "b", "b"]
    for i, path in enumerate(fitted.predict(SERIES)):
        runs = [(state, len(list(run))) for state, run in groupby(path)]
        for k in range(2):
            row, own = found.iloc[2 * i + k], [length for state, length in runs if state == k]
            assert row["state"] == k
            assert_allclose(row["occupancy"], np.mean(path == k))
            assert row["visits"] == len(own)
            assert_allclose(row["dwell"], np.mean(own) if own else np.nan)
            assert_allclose(row["switching_rate"], (len(runs) - 1) / (len(path) - 1))


@pytest.mark.parametrize("name", TIMED)
def test_stacked_rows_with_lengths_are_a_list(name):
    fitted, X, lengths = FITTED[name], np.concatenate(SERIES), [25, 18]
    if name in ("HMM", "LDS"):
        assert_array_equal(clone(fitted).fit(X, lengths=lengths).transition_, fitted.transition_)
    for verb in ("score", "aic", "bic"):
        assert getattr(fitted, verb)(X, lengths=lengths) == getattr(fitted, verb)(SERIES)
    assert_array_equal(fitted.score_samples(X, lengths=lengths), fitted.score_samples(SERIES))
    if name in STATES:
        for verb in ("predict", "predict_proba"):
            for one, other in zip(
                getattr(fitted, verb)(X, lengths=lengths), getattr(fitted, verb)(SERIES), strict=True
            ):
                assert_array_equal(one, other)
    for wrong, match in (([3], "43 rows of X; got a sum of 3"), ([-3, 46], "0 or more .*; got the length -3")):
        with pytest.raises(ValueError, match=match):
            fitted.score(X, lengths=wrong)


@pytest.mark.filterwarnings("ignore:X is read as")
@pytest.mark.parametrize("name", TIMED)
def test_one_series_without_a_list_is_told(name):
    with pytest.raises(ValueError, match=r"pass one series x of shape \(T, d\) as \[x\]"):
        FITTED[name].filter(SERIES[0])


def test_what_users_of_hmmlearn_pass():
    symbols, counts = [RNG.integers(3, size=(n, 1)) for n in (12, 9)], [RNG.poisson(4, size=n) for n in (12, 9)]
    for emission in (None, mc.Categorical()):
        hmm = mc.HMM(2, emission, **SHORT).fit(np.concatenate(symbols), lengths=[12, 9])
        assert hmm.emission_.probability.shape == (2, 3)
        for one, other in zip(hmm.predict(symbols), hmm.predict([x[:, 0] for x in symbols]), strict=True):
            assert_array_equal(one, other)
        with pytest.warns(UserWarning, match=r"12 sequences of one symbol; pass one .* as \[x\]"):
            hmm.predict(symbols[0])
    with pytest.warns(UserWarning, match="series of 1 values") as told:
        mc.HMM(2, **SHORT).fit(RNG.normal(size=(12, 1)))
    assert not any("symbol" in str(one.message) for one in told)
    poisson = mc.HMM(2, mc.Poisson(), **SHORT).fit(counts)
    assert poisson.emission_.rate.shape == (2, 1)
    assert_array_equal(poisson.predict(np.concatenate(counts)[:, None], lengths=[12, 9])[1], poisson.predict(counts)[1])
    gaussian = mc.HMM(1, **SHORT).fit([x + 0.5 for x in symbols])
    assert [path.shape for path in gaussian.predict(symbols)] == [(12,), (9,)]  # integers are numbers here


PATHS = {
    "lists": [[0, 1, 1], [0, 0]],
    "arrays": [np.array([0, 1, 1]), np.array([0, 0])],
    "names": [["rest", "move", "move"], ["rest", "rest"]],
    "stacked": [0, 1, 1, 0, 0],
}


@pytest.mark.parametrize("paths", PATHS)
@pytest.mark.parametrize(
    ("model", "X"),
    [
        (mc.HMM(2), ["abb", "aa"]),
        (mc.MarkovChain(), ["abb", "aa"]),
        (mc.Categorical(), ["abb", "aa"]),
        (mc.Mixture(mc.Categorical(), 2), ["abb", "aa"]),
        (mc.LDS(1), [[1.0, 2.0, 2.5], [1.0, 0.5]]),
        (mc.SwitchingLDS(2, 1), [[1.0, 2.0, 2.5], [1.0, 0.5]]),
        (mc.EmbeddedHMM(), ["abb", "aa"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_known_paths_are_not_ignored(model, X, paths):
    who = type(model).__name__
    with pytest.raises(ValueError, match=rf"a label for every step of the 2 samples.* {who} does not learn from them"):
        model.fit(X, PATHS[paths])


def test_stacked_sequences_with_their_paths():
    with pytest.raises(ValueError, match=r"HMM does not learn from them\. Leave y out"):
        mc.HMM(2).fit(np.arange(5.0)[:, None], [0, 1, 1, 0, 0], lengths=[3, 2])


def test_labels_of_samples_are_ignored_as_scikit_learn_expects():
    """Of classes, numbers, several targets, and strings as long as their sequences."""
    X = ["abb", "ab"] * 4
    for y in ([0, 1] * 4, np.arange(8.0), ["yes", "no"] * 4, np.eye(8)[:, :3], [None] * 8):
        mc.HMM(2).fit(X, y)
    points = np.random.default_rng(0).normal(size=(8, 2))
    mc.Mixture(mc.Gaussian(), 2).fit(points, np.arange(8))
    mc.Mixture(mc.Gaussian(), 2).fit(points, np.eye(8, 3, dtype=int))
    labels = np.arange(8) % 2
    make_pipeline(mc.Fisher(mc.HMM(2)), SVC(kernel="precomputed")).fit(X, labels)
    GridSearchCV(mc.HMM(), {"n_states": [1, 2]}, cv=2).fit(mc.objects(X), labels)
    assert np.isfinite(cross_val_score(mc.HMM(2), mc.objects(X), labels, cv=2)).all()


def test_smoothed_states_are_short_as_text():
    walk = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.1]]], [[[1.0]]], [[0.0]], [[[1.0]]])
    one, many = walk.posterior([np.zeros(300)]), walk.posterior([np.zeros(2 + i % 3) for i in range(12)])
    assert repr(one) == str(one) == "HiddenStates(1 series of 300 steps, states of 1 coordinate)"
    assert repr(many) == "HiddenStates(12 series of 2 to 4 steps, states of 1 coordinate)"
    means, covariances = one.of(0)
    page = one._repr_html_()
    assert f"<td>{means[-1, 0]:.3g} ± {np.sqrt(covariances[-1, 0, 0]):.2g}</td>" in page
    assert f"<td>{walk.log_prob([np.zeros(300)])[0, 0]:.1f}</td>" in page
    assert many._repr_html_().count("<tr>") == 11
    assert "and 2 more" in many._repr_html_()
    named = walk.posterior(mc.Sequences([np.zeros(3)], ids=["<a>"]))
    assert "&lt;a&gt;" in named._repr_html_()


@pytest.mark.parametrize(
    ("emission", "row"),
    [
        (mc.families.Gammas(concentration=[[[2.0, 3.0]]], scale=[[[0.5, 0.25]]]), "concentration 2 3, scale 0.5 0.25"),
        (mc.families.Bernoullis([[[0.25, 0.5, 0.125, 1.0, 0.5]]]), "probability 0.25 0.5 0.125 1 ..."),
        (mc.Multinomials([[[0.25, 0.75]]]), "probability 0.25 0.75, trials 1"),
        (
            mc.Mixtures([[[0.25, 0.75]]], mc.families.Exponentials(scale=[[[[2.0], [4.0]]]])),
            "0.25 of (scale 2) + 0.75 of (scale 4)",
        ),
    ],
    ids=["Gammas", "Bernoullis", "Multinomials", "Mixtures"],
)
def test_the_summary_of_families_without_a_mean_shows_their_parameters(emission, row):
    text = mc.HMMs([[1.0]], [[[1.0]]], emission).summary()
    assert text.splitlines()[-1].endswith(row)
