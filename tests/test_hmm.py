"""Given hidden Markov models against enumeration of every hidden path and every string."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mercer as mc


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


def joint_power(model, string, rho):
    """Sum over all hidden paths of the joint probability to the power rho, from the definition (PPK-4.0)."""
    pi, A, B = (np.asarray(x) ** rho for x in (model.initial, model.transition, model.emission.probability))
    codes = ["abcdefgh".index(letter) for letter in string]
    total = 0.0
    for path in product(range(len(pi)), repeat=len(codes)):
        p = pi[path[0]] * B[path[0], codes[0]]
        for t in range(1, len(codes)):
            p *= A[path[t - 1], path[t]] * B[path[t], codes[t]]
        total += p
    return total


def string_probability(model, string):
    return joint_power(model, string, 1.0)


def test_log_prob_equals_the_sum_over_hidden_paths():
    models = random_hmms(3, 2)
    strings = ["a", "abc", "cab", "bbbb"]
    truth = [[np.log(string_probability(model, s)) for s in strings] for model in models]
    np.testing.assert_allclose(models.log_prob(strings), truth, rtol=1e-12)


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


def test_gaussian_emissions_marginalise_nan():
    models = mc.HMMs(
        [[0.3, 0.7]], [[[0.9, 0.1], [0.2, 0.8]]], mc.Gaussians([[[0.0, 0.0], [2.0, 1.0]]], [[np.eye(2), 2 * np.eye(2)]])
    )
    whole = np.array([[0.1, 0.2], [1.0, np.nan], [2.0, 0.5]])
    grid = np.linspace(-15, 15, 4001)
    values = [np.exp(models.log_prob([np.where(np.isnan(whole), y, whole)]))[0, 0] for y in grid]
    np.testing.assert_allclose(np.exp(models.log_prob([whole]))[0, 0], np.trapezoid(values, grid), rtol=1e-8)


@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_probability_product_equals_enumeration(rho, length):
    models = random_hmms(3, 2, seed=2)
    other = random_hmms(2, 3, seed=3)
    strings = ["".join(s) for s in product("abc", repeat=length)]
    features = np.array([[joint_power(m, s, rho) for s in strings] for m in models])
    others = np.array([[joint_power(m, s, rho) for s in strings] for m in other])
    kernel = mc.ProbabilityProduct(rho=rho, length=length, normalize=False)
    np.testing.assert_allclose(kernel(models, other), features @ others.T, rtol=1e-12)
    np.testing.assert_allclose(kernel(models), features @ features.T, rtol=1e-12)


@pytest.mark.parametrize("length", [1, 3])
def test_mean_map_equals_all_pairs_of_strings(length):
    models, gamma = random_hmms(3, 2, seed=4), 0.7
    strings = ["".join(s) for s in product("abc", repeat=length)]
    p = np.array([[string_probability(m, s) for s in strings] for m in models])
    base = np.array(
        [[np.exp(-2 * gamma * sum(x != y for x, y in zip(s, t, strict=True))) for t in strings] for s in strings]
    )
    kernel = mc.MeanMap(gamma=gamma, length=length, normalize=False)
    np.testing.assert_allclose(kernel(models), p @ base @ p.T, rtol=1e-12)


def test_one_state_is_the_emission_kernel_to_the_length_and_length_one_the_mixture():
    one = random_hmms(4, 1, seed=5)
    emission = one.emission.reshape(4)
    kernel = mc.ProbabilityProduct(rho=0.5, length=7, normalize=False)
    np.testing.assert_allclose(kernel.log(one), 7 * emission.log_product(emission, rho=0.5), rtol=1e-12, atol=1e-14)
    models = random_hmms(4, 3, seed=6)
    mixtures = mc.Mixtures(models.initial, models.emission)
    for rho in (0.5, 1.0):
        first = mc.ProbabilityProduct(rho=rho, length=1, normalize=False)
        np.testing.assert_allclose(first(models), mc.ProbabilityProduct(rho=rho, normalize=False)(mixtures), rtol=1e-12)


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


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_permuting_hidden_states_changes_nothing(n, seed):
    models = random_hmms(2, n, seed=seed)
    order = np.random.default_rng(seed).permutation(n)
    moved = mc.HMMs(models.initial[:, order], models.transition[:, order][:, :, order], models.emission[:, order])
    kernel = mc.ProbabilityProduct(rho=0.5, length=6)
    np.testing.assert_allclose(kernel.log(models, moved), kernel.log(models), rtol=1e-10, atol=1e-12)


def test_concat_of_different_sizes_changes_no_result():
    small, large = random_hmms(3, 2, seed=7), random_hmms(2, 5, seed=8)
    both = mc.HMMs.concat([small, large])
    assert both.n_states.tolist() == [2, 2, 2, 5, 5]
    for kernel in (mc.ProbabilityProduct(rho=0.5, length=5), mc.MeanMap(gamma=1.0, length=5)):
        K = kernel(both)
        np.testing.assert_allclose(K[:3, 3:], kernel(small, large), rtol=1e-12)
        np.testing.assert_allclose(K[:3, :3], kernel(small), rtol=1e-12)
    np.testing.assert_allclose(both.log_prob(["abc"])[:3], small.log_prob(["abc"]), rtol=1e-12)
    shuffled = both[np.array([4, 0, 3, 1, 2])]
    order = np.array([4, 0, 3, 1, 2])
    kernel = mc.ProbabilityProduct(rho=1.0, length=5)
    np.testing.assert_allclose(kernel(shuffled), kernel(both)[np.ix_(order, order)], rtol=1e-12)


def test_gaussian_and_mixture_emissions():
    rng = np.random.default_rng(9)
    initial, transition = rng.dirichlet(np.ones(2), 3), rng.dirichlet(np.ones(2), (3, 2))
    gaussians = mc.Gaussians(rng.normal(size=(3, 2, 2)), rng.uniform(0.5, 2, (3, 2, 2)))
    models = mc.HMMs(initial, transition, gaussians)
    mixed = mc.HMMs(initial, transition, mc.Mixtures(np.ones((3, 2, 1)), gaussians.reshape(3, 2, 1)))
    for kernel in (mc.ProbabilityProduct(rho=0.5, length=4), mc.MeanMap(gamma=0.5, length=4)):
        np.testing.assert_allclose(kernel(mixed), kernel(models), rtol=1e-10)
    # Length 2 by hand: the sum over both models' paths of length 2.
    psi = np.exp(np.asarray(gaussians.reshape(6).log_product(gaussians.reshape(6), rho=1.0))).reshape(3, 2, 3, 2)
    truth = np.einsum("ia,jb,iajb,iac,jbd,icjd->ij", initial, initial, psi, transition, transition, psi, optimize=True)
    kernel = mc.ProbabilityProduct(rho=1.0, length=2, normalize=False)
    np.testing.assert_allclose(kernel(models), truth, rtol=1e-12)


def test_long_sequences_and_tiny_probabilities_stay_finite():
    models = random_hmms(3, 3, seed=10)
    log = mc.ProbabilityProduct(rho=1.0, length=100_000, normalize=False).log(models)
    assert np.isfinite(log).all()
    assert log.max() < -1000
    tiny = mc.HMMs(
        [[1.0, 0.0]], [[[1 - 1e-15, 1e-300], [0.0, 1.0]]], mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]], alphabet="ab")
    )
    # Another model that must leave state a at once: only the path through the 1e-300 transition remains.
    forced = mc.HMMs(
        [[1.0, 0.0]], [[[0.0, 1.0], [0.0, 1.0]]], mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]], alphabet="ab")
    )
    value = mc.ProbabilityProduct(rho=2.0, length=2, normalize=False).log(tiny, forced)[0, 0]
    np.testing.assert_allclose(value, 2 * np.log(1e-300), rtol=1e-12)


def test_sticky_chains_are_positive_semi_definite():
    rng = np.random.default_rng(11)
    transition = np.stack([np.full((2, 2), e) + (1 - 2 * e) * np.eye(2) for e in 10.0 ** -rng.uniform(1, 8, 25)])
    emission = mc.Categoricals(rng.dirichlet([0.1, 0.1], (25, 2)))
    models = mc.HMMs(np.full((25, 2), 0.5), transition, emission)
    for rho in (0.5, 1.0):
        assert mc.psd.check(mc.ProbabilityProduct(rho=rho, length=30)(models))


def test_samples_have_the_models_frequencies():
    models = random_hmms(2, 2, seed=12)
    drawn = models.sample(length=3, size=20_000, random_state=0)
    assert drawn.shape == (2, 20_000, 3)
    strings = ["".join(s) for s in product("abc", repeat=3)]
    for model, sequences in zip(models, drawn, strict=True):
        codes = sequences @ np.array([9, 3, 1])
        seen = np.bincount(codes, minlength=27) / len(codes)
        truth = np.array([string_probability(model, s) for s in strings])
        assert np.all(np.abs(seen - truth) < 5 * np.sqrt(truth * (1 - truth) / len(codes)) + 1e-12)


def test_given_models_work_behind_a_pipeline():
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    rng = np.random.default_rng(13)
    stay = np.concatenate([rng.uniform(0.9, 0.99, 20), rng.uniform(0.4, 0.6, 20)])[:, None, None]
    transition = stay * np.eye(2) + (1 - stay) * (1 - np.eye(2))
    emission = mc.Categoricals(np.tile([[[0.9, 0.1], [0.1, 0.9]]], (40, 1, 1)))
    models = mc.HMMs(np.full((40, 2), 0.5), transition, emission)
    labels = np.repeat([0, 1], 20)
    pipeline = make_pipeline(mc.ProbabilityProduct(rho=1.0, length=8), SVC(kernel="precomputed"))
    assert cross_val_score(pipeline, models, labels, cv=4).mean() == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": [[0.5, 0.6]]}, "sums to 1.1, not to one"),
        ({"transition": [[[0.5, 0.5]]]}, "transition has shape"),
        ({"transition": [[[1.0, 0.0], [-0.1, 1.1]]]}, "must be nonnegative"),
        ({"emission": [[0.5, 0.5]]}, "give a batch of a family"),
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
        mc.ProbabilityProduct()(gaussian)
    with pytest.raises(ValueError, match="at least one observation"):
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
