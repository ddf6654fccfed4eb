"""PairHMM: EM over pairs and over single strings, its starts, its objective, and what it refuses."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import mercer as mc
from mercer.models._fitting.em import em_single
from mercer.models.pairhmm import PairHMMs
from mercer.models.pairhmm_estimator import PairGoal, PairHMM, random_start

TRUE = PairHMMs(
    initial=[[0.9, 0.1]],
    transition=[[[0.7, 0.15], [0.1, 0.75]]],
    stop=[[0.15, 0.15]],
    emission=mc.Categoricals([[[0.8, 0.1, 0.1], [0.05, 0.15, 0.8]]], alphabet="abc"),
    silent=[[0.1, 0.3]],
)


def fields(model):
    parts = (model.initial, model.empty, model.transition, model.stop, model.silent, model.emission.probability)
    return [np.asarray(part) for part in parts]


def log_kernels(model, X):
    operand = model.shared_history(mc.Sequences(X, alphabet=model.alphabet))
    return operand.pair(operand)


# -- EM ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("pairs", [True, False])
def test_the_objective_never_falls(pairs, smoothing):
    X = TRUE.sample(40, random_state=0)[0]
    goal = PairGoal(X, (np.arange(20), np.arange(20, 40)) if pairs else None, smoothing)
    objective = em_single(goal.expect, goal.maximize, random_start(X, 3, 0, 0), 40, 0.0, "").history
    assert np.diff(objective).min() > -1e-9
    assert objective[-1] > objective[0] + 5


def test_pairs_teach_the_model_that_made_them():
    left, right = TRUE.sample_pairs(300, random_state=1)[0]
    goal = PairGoal(mc.Sequences.concat([left, right]), (np.arange(300), np.arange(300, 600)), 0.1)
    model = em_single(goal.expect, goal.maximize, random_start(goal.X, 2, 0, 0), 100, 0.0, "").model
    found, true = (goal.expect(m)[1].log_prob.sum() for m in (model, TRUE))
    assert true < found < true + 15  # 11 free parameters
    order = np.argsort(-model.emission.probability[0, :, 0])
    np.testing.assert_allclose(model.emission.probability[0, order], TRUE.emission.probability[0], atol=0.08)
    np.testing.assert_allclose(model.silent[0, order], TRUE.silent[0], atol=0.1)
    fresh = TRUE.sample_pairs(300, random_state=2)[0]
    new = goal._replace(X=mc.Sequences.concat(list(fresh)))
    assert new.expect(model)[1].log_prob.sum() > new.expect(TRUE)[1].log_prob.sum() - 30


def test_strings_teach_the_model_that_made_them():
    X = TRUE.sample(300, random_state=3)[0]
    fitted = PairHMM(2, fit_to="sequences", n_iter=500, tol=1e-6, smoothing=0.01).fit(X)
    assert fitted.converged_
    assert TRUE.log_prob(X).sum() < fitted.model_.log_prob(X).sum() < TRUE.log_prob(X).sum() + 15


def test_one_state_that_is_never_silent_has_a_closed_form():
    X, smoothing = ["ab", "aab", "b", "abba"], 0.5
    init = PairHMMs([[1.0]], [[[0.5]]], [[0.5]], mc.Categoricals([[[0.5, 0.5]]], alphabet="ab"), [[0.0]])
    fitted = PairHMM(1, fit_to="sequences", init=init, n_iter=3, tol=0, smoothing=smoothing).fit(X).model_
    symbols, strings, a = 10, 4, 5
    np.testing.assert_allclose(fitted.stop, [[(strings + smoothing) / (symbols + 2 * smoothing)]], rtol=1e-12)
    np.testing.assert_allclose(
        fitted.emission.probability[0, 0, 0], (a + smoothing) / (symbols + 2 * smoothing), rtol=1e-12
    )
    assert fitted.silent[0, 0] == 0
    assert fitted.empty[0] == 0


def test_ambiguity_codes_are_shared_out():
    init = PairHMMs([[1.0]], [[[0.5]]], [[0.5]], mc.Categoricals([[[0.25] * 4]], alphabet="dna"), [[0.0]])
    fitted = PairHMM(1, fit_to="sequences", init=init, n_iter=200, tol=0, smoothing=0.0).fit(["AAGC", "RRNC"]).model_
    # R is A or G as 2 to 1, N is anything: A : G : C = 2 + 4/3 : 1 + 2/3 : 2, of 7 that are known
    np.testing.assert_allclose(fitted.emission.probability[0, 0], [10 / 21, 2 / 7, 5 / 21, 0], atol=1e-10)


def test_zeros_of_the_start_stay():
    X = TRUE.sample(30, random_state=4)[0]
    init = PairHMMs([[1.0, 0.0]], [[[0.5, 0.3], [0.0, 0.6]]], [[0.2, 0.4]], TRUE.emission, [[0.2, 0.0]])
    model = PairHMM(2, init=init, n_iter=5, tol=0).fit(X).model_
    assert model.transition[0, 1, 0] == 0 == model.initial[0, 1] == model.silent[0, 1] == model.empty[0]
    assert 0 < model.silent[0, 0] < 1


# -- what is maximised -------------------------------------------------------------------------------------


def test_pairs_of_one_class():
    X, y = ["abc", "ab", "cc", "cbc", "abb"], np.array(["x", "x", "z", "z", "x"])
    logs = log_kernels(TRUE, X)
    together = [(i, j) for i, j in itertools.combinations(range(5), 2) if y[i] == y[j]]
    assert len(together) == 4
    start = PairHMM(2, init=TRUE, n_iter=1, tol=0, smoothing=0.0)
    np.testing.assert_allclose(clone(start).fit(X, y).objective_, [sum(logs[p] for p in together)], rtol=1e-12)
    everybody = [logs[p] for p in itertools.combinations(range(5), 2)]
    for target in (None, np.linspace(0, 1, 5)):  # numbers to be predicted are no classes
        np.testing.assert_allclose(clone(start).fit(X, target).objective_, [sum(everybody)], rtol=1e-12)
    some = clone(start).set_params(n_pairs=3).fit(X).objective_[0]
    assert any(np.isclose(some, sum(three)) for three in itertools.combinations(everybody, 3))
    single = clone(start).set_params(fit_to="sequences").fit(X, y)
    np.testing.assert_allclose(single.objective_, [TRUE.log_prob(X).sum()], rtol=1e-12)


def test_smoothing_is_a_prior():
    X = ["abc", "ab", "cc"]
    plain, smooth = (PairHMM(2, init=TRUE, n_iter=1, tol=0, smoothing=s).fit(X).objective_[0] for s in (0.0, 2.0))
    p = [x[(x > 0) & (x < 1)] for x in (*fields(TRUE), 1 - TRUE.silent)]
    np.testing.assert_allclose(smooth - plain, 2 * sum(np.log(x).sum() for x in p), rtol=1e-12)


def test_the_order_of_the_data_does_not_matter():
    X, rng = TRUE.sample(25, random_state=5)[0], np.random.default_rng(0)
    y = rng.integers(0, 2, 25)
    order = rng.permutation(25)
    estimator = PairHMM(2, n_pairs=30, n_iter=5, tol=0)
    one, other = clone(estimator).fit(X, y).model_, clone(estimator).fit(X[order], y[order]).model_
    assert one.digests() == other.digests()
    with mc.config(n_jobs=1):
        assert clone(estimator).fit(X, y).model_.digests() == one.digests()


def test_several_starts():
    X = TRUE.sample(20, random_state=6)[0]
    fits = [PairHMM(3, n_pairs=20, n_iter=8, tol=0, n_init=n).fit(X) for n in (1, 4)]
    assert fits[1].objective_[-1] >= fits[0].objective_[-1]
    other = PairHMM(3, n_pairs=20, n_iter=8, tol=0, random_state=1).fit(X)
    assert other.objective_[-1] != fits[0].objective_[-1]


@pytest.mark.parametrize("n", [1, 3])
def test_a_start_is_as_long_as_the_data(n):
    X = mc.Sequences(["ab" * 30, "a" * 20, "b" * 40], alphabet="ab")
    start = random_start(X, n, 0, 0)
    drawn = start.sample(4000, random_state=0)[0].lengths
    assert abs(drawn.mean() - 40) < 5 * drawn.std() / np.sqrt(4000) + 3  # silent is perturbed by state
    assert random_start(X, n, 0, 0).digests() == start.digests()
    if n > 1:
        assert random_start(X, n, 0, 1).digests() != start.digests()


# -- the estimator -----------------------------------------------------------------------------------------


def test_parameters_and_attributes():
    estimator = PairHMM(n_states=3, alphabet="abc", n_iter=4, tol=0)
    assert clone(estimator).get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        estimator.score_samples(["ab"])
    estimator.fit(["abc", "ab", ""])
    assert estimator.model_.shape == (1,)
    assert estimator.model_.n_states == 3
    assert estimator.n_iter_ == 4
    assert not estimator.converged_
    assert estimator.objective_.shape == (4,)
    assert np.all(np.diff(estimator.objective_) > 0)
    np.testing.assert_array_equal(estimator.score_samples(["ab", "c"]), estimator.model_.log_prob(["ab", "c"])[0])
    np.testing.assert_allclose(estimator.score(["ab", "c"]), estimator.model_.log_prob(["ab", "c"])[0].mean())
    assert estimator.bic(["ab"]) == estimator.model_.bic(["ab"])[0]


@pytest.mark.parametrize("fit_to", ["pairs", "sequences"])
def test_the_course_ends_where_the_fit_does(fit_to):
    X = TRUE.sample(12, random_state=9)[0]
    estimator = PairHMM(2, fit_to=fit_to, n_iter=200, tol=1e-3).fit(X)
    assert estimator.converged_
    assert 1 < estimator.n_iter_ == len(estimator.objective_) < 200
    again = clone(estimator).set_params(init=estimator.model_, n_iter=1, tol=0).fit(X)
    assert 0 <= again.objective_[0] - estimator.objective_[-1] < 1e-3 * 2 * 66 * (X.lengths.mean() + 1)


def test_without_iterations_the_start_is_the_model():
    X = TRUE.sample(12, random_state=9)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator = PairHMM(2, init=TRUE, n_iter=0).fit(X)
        drawn = PairHMM(3, n_iter=0).fit(X)
    assert estimator.model_ is TRUE
    assert drawn.model_.digests() == random_start(X, 3, 0, 0).digests()
    for fitted in (estimator, drawn):
        assert fitted.objective_.shape == (0,)
        assert fitted.n_iter_ == 0
        assert fitted.converged_


def test_warnings():
    X = TRUE.sample(12, random_state=8)[0]
    with pytest.warns(
        ConvergenceWarning, match=r"EM stopped after n_iter = 2 iterations, before the model of all data"
    ):
        PairHMM(2, n_iter=2, tol=1e-12).fit(X)
    stuck = PairHMMs([[1.0, 0.0]], [[[0.8, 0.0], [0.5, 0.0]]], [[0.2, 0.5]], TRUE.emission, [[0.2, 0.2]])
    with pytest.warns(UserWarning, match="State 1 of the model of all data is never visited"):
        fitted = PairHMM(2, init=stuck, n_iter=2, tol=0, smoothing=0.0).fit(X).model_
    np.testing.assert_array_equal(fitted.transition[0, 1], [0.5, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PairHMM(2, n_iter=400, tol=1e-2).fit(X).converged_


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_states": 0}, r"n_states must be .*; got 0"),
        ({"n_pairs": 0}, r"n_pairs must be .*; got 0"),
        ({"n_iter": -1}, r"n_iter must be .*; got -1"),
        ({"n_init": 0}, r"n_init must be .*; got 0"),
        ({"fit_to": "both"}, r"fit_to must be .*; got 'both'"),
        ({"smoothing": -1}, r"smoothing must be .*; got -1"),
        ({"tol": -1}, r"tol must be .*; got -1"),
        ({"init": TRUE, "n_states": 3}, r"init must have n_states = 3 .*; got 2. Use n_states=2"),
        ({"init": PairHMMs.concat([TRUE, TRUE])}, r"init must have shape \(1,\); got \(2,\)"),
        ({"init": TRUE, "alphabet": "ab"}, "init has the alphabet"),
    ],
)
def test_what_is_no_parameter(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        PairHMM(**parameters).fit(["ab", "b"])


def test_what_cannot_be_fitted():
    with pytest.raises(TypeError, match=r"init must be .*; got 3. Pass PairHMMs of shape \(1,\)"):
        PairHMM(init=3).fit(["ab", "b"])
    with pytest.raises(ValueError, match=r"no class has two.*fit_to='sequences'"):
        PairHMM().fit(["ab", "b"], [0, 1])
    with pytest.raises(ValueError, match=r"there is only one.*fit_to='sequences'"):
        PairHMM().fit(["ab"])
    for fit_to in ("pairs", "sequences"):
        with pytest.raises(ValueError, match=r"got shape \(3,\) for 2 sequences"):
            PairHMM(fit_to=fit_to).fit(["ab", "b"], [0, 1, 1])
    with pytest.raises(ValueError, match="nothing to fit: all samples are empty"):
        PairHMM(alphabet="ab").fit(["", ""])
    for fit_to in ("pairs", "sequences"):
        with pytest.raises(ValueError, match="nothing to learn from: all symbols are missing"):
            PairHMM(alphabet="dna", fit_to=fit_to).fit(["NN", "NNN"])
    with pytest.raises(TypeError, match="one model that all sequences share, so it cannot be fitted to each"):
        PairHMM().fit_each(["ab", "b"])
    with pytest.raises(TypeError, match="requires symbols; got 1-dimensional vectors"):
        PairHMM().fit(np.ones((3, 4)))
    with pytest.raises(ValueError, match="sequence 1 has the symbol 'c' at position 0"):
        PairHMM(alphabet="ab").fit(["ab", "c"])
    assert PairHMM(alphabet="ab", unknown="missing", n_iter=1).fit(["ab", "c"]).model_.dimension == 2


@pytest.mark.parametrize(
    ("fit_to", "name"), [("pairs", "sequence 'x', with sequence 'z'"), ("sequences", "sequence 'x'")]
)
def test_a_start_that_excludes_the_data(fit_to, name):
    once = PairHMMs([[1.0]], [[[0.0]]], [[1.0]], mc.Categoricals([[[0.5, 0.5]]], alphabet="ab"), [[0.1]])
    X = mc.Sequences(["ab", "a"], alphabet="ab", ids=["x", "z"])
    with pytest.raises(ValueError, match=f"{name} has probability zero under init") as error:
        PairHMM(1, init=once, fit_to=fit_to).fit(X)
    assert "Use a model without zeros" in str(error.value)
    with pytest.raises(ValueError, match="sequence 2 has probability zero under init"):
        PairHMM(1, init=once, fit_to="sequences").fit(["a", "b", "ab", "a"])
