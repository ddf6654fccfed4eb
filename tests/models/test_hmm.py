"""Given hidden Markov models against enumeration of every hidden path and every string."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import mercer as mc
from mercer.models.posterior import Posterior
from mercer.testing.models import ModelContract


def random_hmms(count, n, k=3, seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(n), (count, n))
    if sparse:
        transition = np.where(rng.random(transition.shape) < 0.4, 0.0, transition) + 1e-3 * np.eye(n)
        transition /= transition.sum(axis=-1, keepdims=True)
    return mc.HMMs(
        rng.dirichlet(np.ones(n), count),
        transition,
        mc.Categoricals(rng.dirichlet(np.ones(k), (count, n)), alphabet="abcdefgh"[:k]),
    )


class TestHMMs(ModelContract):
    lengths, alphabet = (3,), "abc"

    def members(self, seed=0, shape=(3,)):
        return random_hmms(*shape, 2, seed=seed)

    def joint(self, p):
        pi, A, B = p.initial[0], p.transition[0], p.emission.probability[0]
        words = list(product(range(3), repeat=3))
        return np.array(
            [
                [pi[h] * B[h, x] * A[h, i] * B[i, y] * A[i, j] * B[j, z] for x, y, z in words]
                for h, i, j in product(range(2), repeat=3)
            ]
        )

    def estimator(self):
        return mc.HMM(2, mc.Categorical("abc"), n_init=1, n_iter=30, tol=1e-3)


def test_ambiguity_codes_and_missing_symbols_are_marginalised():
    rng = np.random.default_rng(1)
    models = mc.HMMs(
        rng.dirichlet(np.ones(2), 2),
        rng.dirichlet(np.ones(2), (2, 2)),
        mc.Categoricals(rng.dirichlet(np.ones(4), (2, 2)), alphabet="dna"),
    )
    with_r = np.exp(models.log_prob(["CRT"]))
    np.testing.assert_allclose(with_r, np.exp(models.log_prob(["CAT"])) + np.exp(models.log_prob(["CGT"])), rtol=1e-12)
    with_n = np.exp(models.log_prob(["CNT"]))
    np.testing.assert_allclose(with_n, sum(np.exp(models.log_prob([f"C{s}T"])) for s in "ACGT"), rtol=1e-12)


@pytest.mark.slow
def test_gaussian_emissions_marginalise_nan():
    models = mc.HMMs(
        [[0.3, 0.7]], [[[0.9, 0.1], [0.2, 0.8]]], mc.Gaussians([[[0.0, 0.0], [2.0, 1.0]]], [[np.eye(2), 2 * np.eye(2)]])
    )
    whole = np.array([[0.1, 0.2], [1.0, np.nan], [2.0, 0.5]])
    grid = np.linspace(-15, 15, 4001)
    values = [np.exp(models.log_prob([np.where(np.isnan(whole), y, whole)]))[0, 0] for y in grid]
    np.testing.assert_allclose(np.exp(models.log_prob([whole]))[0, 0], np.trapezoid(values, grid), rtol=1e-8)


def test_deterministic_models_have_the_base_kernel_of_their_strings():
    def deterministic(string):
        n = len(string)
        emission = np.eye(3)[["abc".index(c) for c in string]]
        return mc.HMMs(
            [np.eye(n)[0]], [np.eye(n)[np.minimum(np.arange(n) + 1, n - 1)]], mc.Categoricals([emission], "abc")
        )

    kernel = mc.MeanMap(gamma=0.4, length=4, normalize=False)
    value = kernel(deterministic("abca"), deterministic("abbb"))[0, 0]
    np.testing.assert_allclose(value, np.exp(-2 * 0.4 * 2), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": [[0.5, 0.6]]}, "sums to 1.1, not to one"),
        ({"transition": [[[0.5, 0.5]]]}, "transition must have shape .* got"),
        ({"transition": [[[1.0, 0.0], [-0.1, 1.1]]]}, "must be nonnegative"),
        ({"emission": [[0.5, 0.5]]}, "must be a batch of a family.* got a list"),
        ({"emission": mc.Categoricals([[[0.5, 0.5]]])}, "one distribution per state"),
        ({"n_states": [3]}, "numbers from 1 to 2"),
    ],
)
def test_bad_models_get_one_clear_sentence(change, message):
    good = {
        "initial": [[0.5, 0.5]],
        "transition": [[[0.5, 0.5], [0.5, 0.5]]],
        "emission": mc.Categoricals([[[0.5, 0.5], [0.5, 0.5]]]),
    }
    with pytest.raises((ValueError, TypeError), match=message):
        mc.HMMs(**(good | change))


def test_unlike_models_cannot_be_compared():
    kernel = mc.ProbabilityProduct(length=3)
    with pytest.raises(ValueError, match="alphabet"):
        kernel(random_hmms(2, 2, k=3), random_hmms(2, 2, k=4))
    gaussian = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0]]], [[1.0]]))
    with pytest.raises(TypeError, match="same family"):
        kernel(random_hmms(2, 1), gaussian)
    with pytest.raises(ValueError, match="length"):
        mc.ProbabilityProduct(length=None)(gaussian)
    with pytest.raises(ValueError, match="length must be a whole number of observations, 1 or more; got"):
        gaussian.sample(0)


@pytest.mark.parametrize("gamma", [300.0, 370.0, 900.0])
def test_mean_map_of_a_large_gamma(gamma):
    flip, stay = [[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]
    letters = mc.Categoricals(np.broadcast_to(np.eye(2), (2, 2, 2)), "ab")
    p = mc.HMMs([[1.0, 0.0], [0.0, 1.0]], [flip, stay], letters)  # abab.. and bbbb..
    operand = p.couple(mc.families.Smoothed(gamma), (1, 4))
    mismatches = np.array([[[0, 1], [1, 0]], [[0, 2], [2, 0]]])
    np.testing.assert_allclose(operand.pair(operand), -2 * gamma * mismatches, atol=1e-12)
    np.testing.assert_allclose(operand.alone(), 0.0, atol=1e-12)


# -- inference -----------------------------------------------------------------------------------------------


def enumerated(model, codes):
    """Probabilities of all hidden paths together with a string, from the definition."""
    pi, A, B = (np.asarray(x) for x in (model.initial, model.transition, model.emission.probability))
    for path in product(range(len(pi)), repeat=len(codes)):
        p = pi[path[0]] * B[path[0], codes[0]]
        for t in range(1, len(codes)):
            p *= A[path[t - 1], path[t]] * B[path[t], codes[t]]
        yield path, p


@pytest.mark.parametrize("sparse", [False, True])
def test_posteriors_and_best_paths_equal_enumeration(sparse):
    models = random_hmms(3, 3, seed=20, sparse=sparse)
    strings = ["abca", "b", "ccab"]
    found = models.posterior(strings)
    paths, value = models.viterbi(strings)
    assert (len(found), found.n_states, found.transitions.shape) == (3, 3, (3, 3, 3))
    for i, (model, string) in enumerate(zip(models, strings, strict=True)):
        codes = ["abc".index(letter) for letter in string]
        states, steps, total, best = np.zeros((len(codes), 3)), np.zeros((3, 3)), 0.0, (None, -1.0)
        for path, p in enumerated(model, codes):
            total += p
            best = max(best, (path, p), key=lambda pair: pair[1])
            states[np.arange(len(codes)), path] += p
            np.add.at(steps, (path[:-1], path[1:]), p)
        np.testing.assert_allclose(found[i], states / total, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(found.transitions[i], steps / total, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(found.log_prob[i], np.log(total), rtol=1e-12)
        np.testing.assert_allclose(value[i], np.log(best[1]), rtol=1e-12)
        assert paths[i].tolist() == list(best[0])


def test_one_model_reads_every_sequence_and_several_read_their_own():
    models = random_hmms(3, 2, seed=21)
    strings = ["ab", "cabb", "a", "bb"]
    shared = models[1:2].posterior(strings)
    assert len(shared) == 4
    np.testing.assert_allclose(shared.log_prob, models.log_prob(strings)[1], rtol=1e-12)
    np.testing.assert_allclose(
        models.posterior(strings[:3]).log_prob, models.log_prob(strings[:3]).diagonal(), rtol=1e-12
    )
    for ask in (models.posterior, models.viterbi):
        with pytest.raises(ValueError, match=r"3 models and 4 sequences. Pass one model"):
            ask(strings)


def test_padding_changes_no_posterior():
    small, large = random_hmms(1, 2, seed=22), random_hmms(1, 4, seed=23)
    both = mc.HMMs.concat([small, large])
    found = both.posterior(["abcc", "ab"])
    np.testing.assert_allclose(found[0][:, :2], small.posterior(["abcc"])[0], rtol=1e-12)
    assert np.all(found[0][:, 2:] == 0)
    assert both.viterbi(["abcc", "ab"])[0][0].tolist() == small.viterbi(["abcc"])[0][0].tolist()
    assert both.n_parameters.tolist() == [1 + 2 + 2 * 2, 3 + 12 + 4 * 2]
    assert both._trimmed(4) is both
    with pytest.raises(ValueError, match="with 4 states cannot be trimmed to 3"):
        both._trimmed(3)


@pytest.mark.parametrize("emission", ["diagonal", "isotropic", "mixture", "poisson", "bernoulli"])
def test_log_prob_marginalises_what_was_not_observed(emission):
    """NaN equals the integral, or the sum, over what might have been there."""
    rng = np.random.default_rng(24)
    mean, variance = rng.normal(size=(1, 2, 2)), rng.uniform(0.5, 2, (1, 2, 2))
    batch, grid = {
        "diagonal": (mc.Gaussians(mean, variance), np.linspace(-15, 15, 601)),
        "isotropic": (mc.Gaussians(mean, variance[..., 0]), np.linspace(-15, 15, 601)),
        "mixture": (
            mc.Mixtures([[[0.3, 0.7], [1.0, 0.0]]], mc.Gaussians(rng.normal(size=(1, 2, 2, 2)), np.ones((1, 2, 2, 2)))),
            np.linspace(-15, 15, 601),
        ),
        "poisson": (mc.Poissons(np.exp(mean)), np.arange(60.0)),
        "bernoulli": (mc.families.Bernoullis(1 / (1 + np.exp(-mean))), np.arange(2.0)),
    }[emission]
    model = mc.HMMs([[0.3, 0.7]], [[[0.9, 0.1], [0.2, 0.8]]], batch)
    x = np.array([[1.0, 0.0], [np.nan, 1.0], [0.0, 1.0]])
    completed = np.repeat(x[None], len(grid), axis=0)
    completed[:, 1, 0] = grid
    truth = np.exp(model.log_prob(completed)[0]).sum() * (grid[1] - grid[0])
    np.testing.assert_allclose(np.exp(model.log_prob([x]))[0, 0], truth, rtol=1e-9)
    np.testing.assert_allclose(np.exp(model.posterior([x]).log_prob[0]), truth, rtol=1e-9)


def test_missing_coordinates_of_full_covariances_have_posteriors():
    rng = np.random.default_rng(25)
    root = rng.normal(size=(2, 2, 2, 2))
    models = mc.HMMs(
        [[0.5, 0.5]] * 2,
        [[[0.8, 0.2], [0.2, 0.8]]] * 2,
        mc.Gaussians(rng.normal(size=(2, 2, 2)), root @ root.mT + np.eye(2)),
    )
    x = [np.array([[0.0, np.nan], [1.0, 2.0], [np.nan, np.nan]]), np.array([[np.nan, 1.0], [0.0, 0.0]])]
    found = models.posterior(x)
    np.testing.assert_allclose(found.log_prob, models.log_prob(x).diagonal(), rtol=1e-12)
    only = mc.HMMs(models.initial, models.transition, models.emission.marginal([0]))
    np.testing.assert_allclose(
        models.log_prob([np.array([[0.3, np.nan], [1.0, np.nan]])]),
        only.log_prob([np.array([[0.3], [1.0]])]),
        rtol=1e-12,
    )


def test_the_long_run():
    models = random_hmms(5, 4, seed=26)
    pi = models.stationary()
    np.testing.assert_allclose(np.einsum("ni,nij->nj", pi, models.transition), pi, rtol=1e-12)
    np.testing.assert_allclose(pi.sum(axis=1), 1.0)
    # Sticky: entries to full precision, where an eigensolver has lost half of the digits.
    a, b = 1e-9, 3e-9
    emission = mc.Categoricals(np.full((1, 2, 2), 0.5))
    sticky = mc.HMMs([[1.0, 0.0]], [[[1 - a, a], [b, 1 - b]]], emission)
    np.testing.assert_allclose(sticky.stationary(), [[0.75, 0.25]], rtol=1e-14)
    # Periodic, and reducible: the average over time, by the definition.
    transition = np.array(
        [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0.2, 0, 0.5, 0.3, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0.5, 0.5]]
    )
    initial = np.array([0.1, 0.0, 0.7, 0.2, 0.0])
    model = mc.HMMs(initial[None], transition[None], mc.Categoricals(np.full((1, 5, 2), 0.5)))
    average, p = np.zeros(5), initial
    for _ in range(20_000):
        average, p = average + p / 20_000, p @ transition
    np.testing.assert_allclose(model.stationary()[0], average, atol=1e-4)


def test_bic_and_free_parameters():
    covariances = np.eye(3) * np.array([1.0, 2.0])[:, None, None]  # equal ones would count as one
    emission = mc.Gaussians(np.zeros((1, 2, 3)), covariances[None])
    model = mc.HMMs([[1.0, 0.0]], [[[0.5, 0.5], [0.0, 1.0]]], emission)
    assert model.n_parameters.tolist() == [0 + 1 + 2 * (3 + 6)]
    x = [np.random.default_rng(0).normal(size=(n, 3)) for n in (4, 6)]
    truth = -2 * model.log_prob(x).sum() + 19 * np.log(10)
    np.testing.assert_allclose(model.bic(x), [truth])
    mixed = mc.HMMs(
        [[1.0]], [[[1.0]]], mc.Mixtures([[[0.5, 0.5]]], mc.Gaussians(np.zeros((1, 1, 2, 3)), np.ones((1, 1, 2))))
    )
    assert mixed.n_parameters.tolist() == [1 + 2 * 4]
    assert mc.HMMs([[1.0]], [[[1.0]]], mc.Poissons(np.ones((1, 1, 4)))).n_parameters.tolist() == [4]
    models = random_hmms(2, 2, seed=27)
    values = models.log_prob(["abc", "ab", "c"]).sum(axis=1)  # every model is judged by all sequences
    np.testing.assert_allclose(models.bic(["abc", "ab", "c"]), -2 * values + (1 + 2 + 2 * 2) * np.log(6))


def test_models_know_what_their_data_look_like():
    estimator = random_hmms(2, 3, seed=28).estimator()
    assert estimator.n_states == 3
    assert estimator.accept(["abc"]).alphabet == random_hmms(1, 2).emission.alphabet
    numbers = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0]]], [[1.0]]))
    assert numbers.estimator().accept([[0.0, 1.0]]).dimension == 1


def test_impossible_and_wrong_sequences_get_one_clear_sentence():
    model = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[1.0, 0.0]]], "ab"))
    assert model.log_prob(["ab"])[0, 0] == -np.inf
    for ask in (model.posterior, model.viterbi):
        with pytest.raises(ValueError, match="sequence 1 has probability zero under its model"):
            ask(["a", "ab"])
    numbers = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0]]], [[1.0]]))
    with pytest.raises(TypeError, match="The model requires vectors; got symbols"):
        numbers.log_prob(["ab"])
    with pytest.raises(ValueError, match="must have 1 coordinates, as the model has; got 2"):
        numbers.posterior([np.zeros((3, 2))])


# -- posteriors of elsewhere -----------------------------------------------------------------------------------


def test_a_posterior_is_an_immutable_container():
    import copy
    import pickle

    X = mc.Sequences(["abca", "", "b", "cc"], ids=["w", "x", "y", "z"])
    found = random_hmms(1, 2, seed=29).posterior(X)
    assert [p.shape for p in found] == [(4, 2), (0, 2), (1, 2), (2, 2)]
    assert found.lengths.tolist() == [4, 0, 1, 2]
    some = found[[3, 0]]
    assert some.ids == ("z", "w")
    np.testing.assert_array_equal(some[1], found[0])
    np.testing.assert_array_equal(some.transitions, found.transitions[[3, 0]])
    np.testing.assert_array_equal(found[1:].log_prob, found.log_prob[1:])
    assert found[np.array([False, False, True, False])].lengths.tolist() == [1]
    assert copy.deepcopy(found) is found
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).states, found.states)
    with pytest.raises(AttributeError, match="immutable; create a new one to set states"):
        found.states = None
    with pytest.raises(ValueError, match="read-only"):
        found.states[0] = 0.0
    with pytest.raises(IndexError, match="Index 4 is out of range for 4 sequences"):
        found[4]


def test_posteriors_of_elsewhere_equal_ours():
    X = mc.Sequences(["abca", "b", "cc"])
    found = random_hmms(1, 2, seed=30).posterior(X)
    again = Posterior(X, found.states, found.transitions)
    np.testing.assert_array_equal(again.transitions, found.transitions)
    pieces = Posterior(list(X), [found[i] for i in range(3)])
    np.testing.assert_array_equal(pieces.states, found.states)
    assert pieces.transitions is None
    rows = Posterior(X, found.states.tolist())  # nested lists are rows, not sequences
    np.testing.assert_array_equal(rows.states, found.states)
    # Posteriors of single steps, as other libraries give them, are added up.
    steps = np.array([np.outer(found.states[t], found.states[t + 1]) for t in (0, 1, 2, 5)])
    summed = Posterior(X, found.states, steps).transitions
    np.testing.assert_allclose(summed[0], steps[:3].sum(axis=0))
    np.testing.assert_array_equal(summed[1], 0.0)
    np.testing.assert_allclose(summed[2], steps[3])
    # As many steps as sequences: what the numbers sum to decides.
    Y, half = mc.Sequences(["abc", "a"]), np.full((2, 2, 2), 0.25)
    states = np.full((4, 2), 0.5)
    np.testing.assert_allclose(Posterior(Y, states, half).transitions, [half.sum(axis=0), 0 * half[0]])
    np.testing.assert_allclose(Posterior(Y, states, [2 * half[0], 0 * half[0]]).transitions[0], 2 * half[0])


@pytest.mark.parametrize(
    ("states", "transitions", "message"),
    [
        (np.full((2, 2), 0.5), None, r"states must have one row per observation, shape \(3, n\); got shape \(2, 2\)"),
        ([np.full((1, 2), 0.5)] * 2, None, r"shape \(2, n\) for sequence 0; got shape \(1, 2\)"),
        ([np.full((2, 2), 0.5)], None, "one array per sequence; got 1 for 2 sequences"),
        (np.full((3, 2), 0.4), None, "must be probabilities that sum to one; got .* for sequence 0 at observation 0"),
        (np.array([[0.5, 0.5], [0.5, 0.5], [1.5, -0.5]]), None, "got .* for sequence 1 at observation 0"),
        (np.full((3, 2), 0.5), np.zeros((5, 2, 2)), r"one matrix per sequence, .* got shape \(5, 2, 2\)"),
        (np.full((3, 2), 0.5), np.full((2, 2, 2), 0.1), "transitions of sequence 0 must sum to its 1 steps; got 0.4"),
        (np.full((3, 2), 0.5), np.full((1, 2, 2), 0.1), "posterior of step 0 sums to 0.4, not to one"),
        ([[0.5, 0.5], [0.5, 0.5]], None, r"states must have one row per observation, .* got shape \(2, 2\)"),
        (
            [[0.5, 0.5], [1.0], [0.5, 0.5]],
            None,
            r"different lengths.*entry 1 has shape \(1,\)",
        ),
        (
            [np.full((2, 2), 0.5), np.full((1, 3), 1 / 3)],
            None,
            r"same columns .* for sequence 1; got shape \(1, 3\)",
        ),
        ([np.full((2, 2), 0.5), np.ones(1)], None, r"for sequence 1; got shape \(1,\)"),
        (
            np.full((3, 2), 0.5),
            [[[0.6, 0.2], [0.1, 0.1]], np.zeros((2, 2))],
            "transitions of sequence 0 leave state 0 0.8 times, its states imply 0.5",
        ),
        (
            np.array([[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]),
            [[[0.6, 0.2], [0.1, 0.1]], np.zeros((2, 2))],
            "transitions of sequence 0 enter state 0 0.7 times, its states imply 0.5",
        ),
    ],
)
def test_bad_posteriors_get_one_clear_sentence(states, transitions, message):
    with pytest.raises(ValueError, match=message):
        Posterior(["ab", "b"], states, transitions)


def test_log_probabilities_of_elsewhere_are_numbers():
    states = np.full((3, 2), 0.5)
    assert Posterior(["ab", "b"], states, log_prob=[-1.0, -np.inf]).log_prob.tolist() == [-1.0, -np.inf]
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=f"log_prob must be .* got {bad} for sequence 1"):
            Posterior(["ab", "b"], states, log_prob=[-1.0, bad])


def test_nothing_is_an_index_and_a_batch():
    models = random_hmms(2, 2)
    assert models[[]].shape == (0,)
    assert models[:0].sample(3).shape == (0, 1, 3)
    nobody = mc.Sequences([], alphabet="abc")
    states, log_prob = models[:1].viterbi(nobody)
    assert states == []
    assert log_prob.shape == (0,)
    posterior = models.posterior(["ab", "c"])[[]]
    assert len(posterior) == 0
    assert posterior.states.shape == (0, 2)


@pytest.mark.parametrize(("length", "size"), [(2.5, 1), (0, 1), (True, 1), (3, -1), (3, 1.5)])
def test_samples_have_whole_sizes(length, size):
    with pytest.raises(ValueError, match=r"(length|size) must be a whole number .* got"):
        random_hmms(1, 2).sample(length, size)


def test_states_that_are_left_for_good_need_no_subtraction():
    """A state that is left with a probability far below rounding is left all the same."""
    emission = mc.Categoricals(np.full((1, 2, 2), 0.5))
    model = mc.HMMs([[1.0, 0.0]], [[[1.0, 1e-20], [0.0, 1.0]]], emission)
    np.testing.assert_array_equal(model.stationary(), [[0.0, 1.0]])
    # Two ways out of two states that feed each other, in the proportion 3 : 1 from each.
    a = 1e-17
    transition = np.array([[0.5, 0.5, 3 * a, a], [1 - 4 * a, 0.0, 3 * a, a], [0, 0, 1, 0], [0, 0, 0, 1]])
    model = mc.HMMs([[0.2, 0.6, 0.0, 0.2]], transition[None], mc.Categoricals(np.full((1, 4, 2), 0.5)))
    np.testing.assert_allclose(model.stationary(), [[0.0, 0.0, 0.6, 0.4]], rtol=1e-14)


def test_every_batch_knows_its_free_parameters():
    gaussians = [mc.Gaussians(np.zeros((1, 3)), c) for c in (np.eye(3)[None], np.ones((1, 3)), np.ones(1))]
    assert [p.n_parameters for p in gaussians] == [9, 6, 4]
    assert mc.Categoricals([[0.2, 0.8]]).n_parameters == 1
    assert mc.Multinomials([[0.2, 0.3, 0.5]], trials=7).n_parameters == 2
    assert mc.families.Bernoullis([[0.2, 0.3, 0.5]]).n_parameters == 3
    assert mc.Poissons([[1.0, 2.0]]).n_parameters == 2
    assert mc.Mixtures([[0.5, 0.5]], mc.Poissons([[[1.0, 2.0], [0.0, 1.0]]])).n_parameters == 1 + 2 * 2


def test_models_know_their_alphabet_and_say_how_to_read_other_symbols():
    model = random_hmms(1, 2)
    assert model.alphabet == mc.data.Alphabet("abc")
    assert mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0]]], [[1.0]])).alphabet is None
    with pytest.raises(ValueError, match=r"mc\.Sequences\(X, alphabet=\.\.\., unknown='missing'\)"):
        model.log_prob(["ab-"])
    X = mc.Sequences(["ab-"], alphabet=model.alphabet, unknown="missing")
    assert np.isfinite(model.log_prob(X)).all()
