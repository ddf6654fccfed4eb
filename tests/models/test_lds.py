"""Linear dynamical systems against the dense joint distribution of states and observations."""

import warnings
from contextlib import nullcontext

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import mercer as mc

SIZES = st.integers(1, 4)


def covariances(rng, size, n, least=0.1):
    root = rng.normal(size=(size, n, n))
    return root @ root.swapaxes(1, 2) / n + least * np.eye(n)


def systems(seed, size=3, n=2, d=2, radius=0.9):
    rng = np.random.default_rng(seed)
    transition = rng.normal(size=(size, n, n))
    transition *= radius / np.abs(np.linalg.eigvals(transition)).max(axis=-1)[:, None, None]
    return mc.LDSs(
        transition,
        rng.normal(size=(size, d, n)),
        covariances(rng, size, n),
        covariances(rng, size, d),
        rng.normal(size=(size, n)),
        covariances(rng, size, n),
        state_offset=rng.normal(size=(size, n)),
        observation_offset=rng.normal(size=(size, d)),
    )


def joint(model, length):
    """Mean and covariance of all states, then of all observations, of a batch of one system."""
    a, c, q, r, mean, covariance, b, offset = (np.asarray(getattr(model, name))[0] for name in list(model._arrays)[:8])
    n = len(a)
    states, spread = [], np.zeros((length, n, length, n))
    for t in range(length):
        if t:
            mean, covariance = a @ mean + b, a @ covariance @ a.T + q
        states.append(mean)
        later = covariance
        for s in range(t, length):
            spread[s, :, t], spread[t, :, s] = later, later.T
            later = a @ later
    spread = spread.reshape(length * n, length * n)
    emit = np.kron(np.eye(length), c)
    state = np.concatenate(states)
    noise = np.kron(np.eye(length), r)
    return state, spread, emit, emit @ state + np.tile(offset, length), emit @ spread @ emit.T + noise


def conditioned(model, x):
    """Log density of what was observed, and mean and covariance of all states given it."""
    state, spread, emit, mean, covariance = joint(model, len(x))
    seen = np.isfinite(x.ravel())
    if not seen.any():
        return 0.0, state, spread
    inside = covariance[np.ix_(seen, seen)]
    rest = x.ravel()[seen] - mean[seen]
    gain = spread @ emit[seen].T @ np.linalg.inv(inside)
    density = multivariate_normal(mean[seen], inside, allow_singular=True).logpdf(x.ravel()[seen])
    return density, state + gain @ rest, spread - gain @ emit[seen] @ spread


def gappy(seed, lengths, d, share=0.3):
    rng = np.random.default_rng(seed)
    found = [rng.normal(size=(length, d)) for length in lengths]
    return [np.where(rng.random(x.shape) < share, np.nan, x) for x in found]


@given(SIZES, SIZES, st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 100))
def test_probabilities_and_posteriors_are_those_of_the_joint_distribution(n, d, share, seed):
    X = gappy(seed, [4, 1, 6, 3], d, share)
    models = systems(seed, len(X), n, d)
    table, states, filtered = models.log_prob(X), models.posterior(X), models.filter(X)
    for i, x in enumerate(X):
        density, mean, covariance = conditioned(models[i : i + 1], x)
        np.testing.assert_allclose(table[i, i], density, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose([states.log_prob[i], filtered.log_prob[i]], density, rtol=1e-9, atol=1e-9)
        found_mean, found_covariance = states.of(i)
        np.testing.assert_allclose(found_mean.ravel(), mean, atol=1e-8)
        blocks = covariance.reshape(len(x), n, len(x), n)
        first = states.X.offsets[i]
        for t in range(len(x)):
            np.testing.assert_allclose(found_covariance[t], blocks[t, :, t], atol=1e-8)
            if t + 1 < len(x):
                np.testing.assert_allclose(states.lags[first + t], blocks[t + 1, :, t], atol=1e-8)
            _, so_far, _ = conditioned(models[i : i + 1], x[: t + 1])
            np.testing.assert_allclose(filtered.of(i)[0][t], so_far[-n:], atol=1e-8)


@given(SIZES, SIZES, st.integers(1, 5), st.sampled_from([0.1, 0.5, 1.0, 2.0]), st.integers(0, 100))
def test_kernels_are_those_of_the_joint_gaussians(n, d, length, rho, seed):
    models = systems(seed, 3, n, d)
    joints = [joint(models[i : i + 1], length)[3:] for i in range(3)]
    gaussians = mc.Gaussians(np.stack([m for m, _ in joints]), np.stack([s for _, s in joints]))
    for normalize in (True, False):
        found = mc.ProbabilityProduct(rho=rho, length=length, normalize=normalize)(models)
        expected = mc.ProbabilityProduct(rho=rho, normalize=normalize)(gaussians)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    found = mc.MeanMap(gamma=rho, length=length)(models)
    np.testing.assert_allclose(found, mc.MeanMap(gamma=rho)(gaussians), rtol=1e-8)


def test_a_kernel_at_one_half_has_unit_self_kernels_for_long_series():
    models = systems(0, 4, 3, 2)
    found = mc.ProbabilityProduct(rho=0.5, length=3000, normalize=False)(models)
    np.testing.assert_allclose(np.diag(found), 1.0, atol=1e-9)


def test_without_transition_the_kernel_is_a_product_over_time():
    models = systems(0, 3, 2, 2)
    still = mc.LDSs(
        np.zeros((3, 2, 2)), models.emission, models.process_covariance, models.observation_covariance,
        models.initial_mean, models.initial_covariance,
    )  # fmt: skip
    c, r = np.asarray(still.emission), np.asarray(still.observation_covariance)

    def emitted(mean, covariance):
        return mc.Gaussians((c @ mean[..., None])[..., 0], c @ covariance @ c.swapaxes(1, 2) + r)

    kernel = mc.ProbabilityProduct(rho=0.7, normalize=False)
    first = kernel(emitted(np.asarray(still.initial_mean), np.asarray(still.initial_covariance)))
    later = kernel(emitted(np.zeros((3, 2)), np.asarray(still.process_covariance)))
    found = mc.ProbabilityProduct(rho=0.7, length=4, normalize=False)(still)
    np.testing.assert_allclose(found, first * later**3, rtol=1e-10)


@given(st.integers(0, 100))
def test_a_change_of_basis_of_the_state_changes_nothing(seed):
    models = systems(seed, 3, 3, 2)
    basis = np.random.default_rng(seed).normal(size=(3, 3)) + 3 * np.eye(3)
    inverse = np.linalg.inv(basis)
    turned = mc.LDSs(
        basis @ models.transition @ inverse,
        models.emission @ inverse,
        basis @ models.process_covariance @ basis.T,
        models.observation_covariance,
        models.initial_mean @ basis.T,
        basis @ models.initial_covariance @ basis.T,
        models.state_offset @ basis.T,
        models.observation_offset,
    )
    X = gappy(seed, [5, 8], 2)
    np.testing.assert_allclose(turned.log_prob(X), models.log_prob(X), rtol=1e-8)
    for kernel in (mc.ProbabilityProduct(length=7), mc.MeanMap(gamma=0.3, length=7)):
        np.testing.assert_allclose(kernel(turned), kernel(models), rtol=1e-7)


def test_systems_of_different_state_sizes_meet_in_one_batch():
    small, large = systems(0, 2, 1, 2), systems(1, 2, 3, 2)
    both = mc.LDSs.concat([small, large])
    assert both.state_dims.tolist() == [1, 1, 3, 3]
    X = gappy(0, [5, 3], 2)
    np.testing.assert_allclose(both.log_prob(X), np.concatenate([small.log_prob(X), large.log_prob(X)]), rtol=1e-12)
    kernel = mc.ProbabilityProduct(length=6, normalize=False)
    np.testing.assert_allclose(kernel(both)[:2, :2], kernel(small), rtol=1e-10)
    np.testing.assert_allclose(kernel(both)[2:, 2:], kernel(large), rtol=1e-10)
    np.testing.assert_allclose(kernel(both)[:2, 2:], kernel(small, large), rtol=1e-10)
    assert np.linalg.eigvalsh(kernel(both)).min() > 0


def test_a_path_over_lengths_and_a_discounted_sum():
    models = systems(0, 3, 2, 2)
    kernel = mc.ProbabilityProduct(rho=1.0, normalize=False)
    by_length = [mc.ProbabilityProduct(rho=1.0, length=n, normalize=False)(models) for n in range(1, 80)]
    path = kernel.path(models, lengths=[1, 4, 9])
    for found, n in zip(path, (1, 4, 9), strict=True):
        np.testing.assert_allclose(found, by_length[n - 1], rtol=1e-12)
    expected = sum(0.4 * 0.6**n * value for n, value in enumerate(by_length))
    found = mc.ProbabilityProduct(rho=1.0, length=mc.Discounted(0.6), normalize=False)(models)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_discounted_sum_that_diverges_names_the_model_and_the_cure():
    models = systems(0, 3, 2, 2)
    sharp = mc.LDSs(*(np.asarray(getattr(models, name)) * (1e-4 if "covariance" in name else 1.0)
                      for name in list(models._arrays)[:6]))  # fmt: skip
    with pytest.raises(ValueError, match=r"d below 0\.0034"):
        mc.ProbabilityProduct(rho=1.0, length=mc.Discounted(0.9))(sharp)


@pytest.mark.slow
@given(st.integers(0, 50))
def test_scores_are_derivatives_of_the_log_probability(seed):
    models, X = systems(seed, 1, 2, 2), gappy(seed, [5, 2], 2, 0.2)
    scores = dict(zip(models.score_names(), models.sequence_scores(X)[0].T, strict=True))
    fields = {name: np.array(getattr(models, name)) for name in list(models._arrays)[:8]}
    step = 1e-5
    for name, value in fields.items():
        for place in np.ndindex(value.shape[1:]):
            if "covariance" in name and place[0] > place[1]:
                continue
            sides = []
            for sign in (1, -1):
                moved = value.copy()
                moved[(0, *place)] += sign * step
                if "covariance" in name and place[0] != place[1]:
                    moved[(0, *place[::-1])] += sign * step
                sides.append(mc.LDSs(**{**fields, name: moved}).log_prob(X)[0])
            slope = (sides[0] - sides[1]) / (2 * step)
            if "covariance" in name and place[0] != place[1]:
                slope = slope / np.sqrt(2)  # both entries moved; the column is sqrt 2 times the gradient in one
            label = f"{name}[{', '.join(map(str, place))}]"
            np.testing.assert_allclose(scores[label], slope, rtol=1e-5, atol=1e-6, err_msg=label)


def test_scores_have_mean_zero_under_the_model():
    model = systems(3, 1, 2, 1)
    scores = model.sequence_scores(model.sample(6, 4000, random_state=0)[0])[0]
    error = scores.std(axis=0) / np.sqrt(len(scores))
    assert (np.abs(scores.mean(axis=0)) < 4.5 * error).all()


def test_samples_have_the_moments_of_the_joint_distribution():
    model = systems(5, 1, 2, 2)
    *_, mean, covariance = joint(model, 4)
    drawn = model.sample(4, 20000, random_state=0)[0].reshape(20000, -1)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(covariance) / 20000)).all()
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.05 * np.abs(covariance).max())


def test_forecasts_are_conditional_distributions():
    model, x = systems(2, 1, 2, 2), gappy(1, [5], 2)[0]
    means, spreads = model.forecast([x], steps=3)
    _, _, _, mean, covariance = joint(model, 8)
    seen = np.concatenate([np.isfinite(x.ravel()), np.zeros(6, dtype=bool)])
    later = np.arange(16) >= 10
    gain = covariance[np.ix_(later, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    np.testing.assert_allclose(means[0].ravel(), mean[later] + gain @ (x.ravel()[seen[:10]] - mean[seen]), rtol=1e-8)
    rest = (covariance[np.ix_(later, later)] - gain @ covariance[np.ix_(seen, later)]).reshape(3, 2, 3, 2)
    np.testing.assert_allclose(spreads[0], [rest[t, :, t] for t in range(3)], rtol=1e-8)


def test_imputed_values_are_conditional_expectations():
    model, x = systems(4, 1, 2, 3), gappy(2, [6], 3, 0.4)[0]
    _, _, _, mean, covariance = joint(model, 6)
    seen = np.isfinite(x.ravel())
    gain = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    found = model.impute([x])[0].ravel()
    np.testing.assert_allclose(found[~seen], mean[~seen] + gain @ (x.ravel()[seen] - mean[seen]), rtol=1e-8)
    np.testing.assert_array_equal(found[seen], x.ravel()[seen])


def test_long_series_and_extreme_starts_stay_finite():
    rng = np.random.default_rng(0)
    for start, length in ((1.0, 100_000), (1e10, 1000)):
        model = mc.LDSs(
            [[[1.0, 1.0], [0.0, 1.0]]], [[[1.0, 0.0]]], [[[1e-6, 0.0], [0.0, 1e-8]]], [[[1e-4]]], [[1e6, 0.0]],
            [start * np.eye(2)],
        )  # fmt: skip
        x = 1e6 + np.cumsum(rng.normal(size=length) * 1e-3)
        with nullcontext() if start < 1e6 else pytest.warns(UserWarning, match="Fewer than eight digits"):
            states = model.posterior([x])  # the covariance of the first state is a difference of large numbers
        assert np.isfinite(states.log_prob).all()
        np.testing.assert_allclose(states.means[:, 0], x, atol=0.1)
        assert (np.linalg.eigvalsh(states.covariances[::1000][1:]) > 0).all()


def exact_filter(model, x, dps=80):
    """Log probability, means and covariances of the states of one series given the past, in many digits."""
    with mp.workdps(dps):
        names = list(model._arrays)[:6]
        a, c, q, r, m, p = (mp.matrix(np.asarray(getattr(model, name))[0].tolist()) for name in names)
        log, means, spreads = mp.mpf(0), [], []
        for t, value in enumerate(x):
            if t:
                m, p = a * m, a * p * a.T + q
            spread, away = c * p * c.T + r, mp.matrix(value.tolist()) - c * m
            inverse = spread**-1
            log -= ((away.T * inverse * away)[0] + mp.log(mp.det(spread)) + len(value) * mp.log(2 * mp.pi)) / 2
            gain = p * c.T * inverse
            m, p = m + gain * away, p - gain * c * p
            means.append([float(v) for v in m])
            spreads.append([[float(v) for v in row] for row in p.tolist()])
        return float(log), np.array(means), np.array(spreads)


@pytest.mark.parametrize("far", [0.0, 1e12])
@pytest.mark.parametrize("start", [1e4, 1e8, 1e10, 1e12, 1e14])
def test_diffuse_starts_are_exact_or_warn_that_digits_may_be_lost(start, far):
    for seed, (n, d) in enumerate([(1, 1), (2, 2), (3, 1), (4, 2)]):
        rng, model = np.random.default_rng(seed), systems(seed, 1, n, d)
        zero = np.zeros((1, n)), np.zeros((1, d))
        first = {"initial_covariance": start * np.eye(n)[None], "initial_mean": np.full((1, n), far)}
        model = model._replaced(**first, state_offset=zero[0], observation_offset=zero[1])
        x = rng.normal(size=(10, d))
        log, means, spreads = exact_filter(model, x)
        scale = np.sqrt(np.diagonal(spreads, axis1=1, axis2=2))
        for call in (model.log_prob, model.filter):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found = call([x])
            error = abs(float(np.ravel(getattr(found, "log_prob", found))[0]) - log) / max(abs(log), 1.0)
            if call == model.filter:
                away = np.abs(found.means - means) / np.maximum(scale, np.abs(means))
                spread = np.abs(found.covariances - spreads) / (scale[:, :, None] * scale[:, None, :])
                error = max(error, away.max(), spread.max())
            assert told or error <= 1e-8, (n, d, error)
            assert start > 1e4 or not told


def test_a_state_that_is_known_from_a_diffuse_start():
    known = mc.LDSs(
        [np.eye(2)], [[[1.0, 1.0]]], [np.diag([0.1, 0.0])], [[[1.0]]], [[0.0, 2.0]], [np.diag([1e8, 0.0])]
    )  # fmt: skip
    x = np.random.default_rng(0).normal(size=(20, 1))
    with pytest.warns(UserWarning, match="Fewer than eight digits"):
        found = known.filter([x])
    _, means, spreads = exact_filter(known, x)
    np.testing.assert_allclose(found.means, means, rtol=1e-8)
    np.testing.assert_allclose(found.covariances, spreads, rtol=1e-7, atol=1e-10)


def test_a_start_without_digits_is_named():
    for n, make in (
        (3, lambda part: part),
        (3, lambda part: mc.models.SwitchingLDSs([[1.0]], [[[1.0]]], part.reshape(1, 1))),
    ):
        part = systems(2, 1, n, 1)._replaced(initial_covariance=1e24 * np.eye(n)[None])
        for mean in (0.0, 1e12):
            model = make(part._replaced(initial_mean=np.full((1, n), mean)))
            with pytest.raises(
                ValueError, match=r"initial_covariance is [0-9]e\+[0-9]+ times .* or a smaller initial_covariance"
            ):
                model.log_prob([np.zeros((9, 1))])
            names = ["sequence_scores", "posterior", "viterbi", "regime_probabilities"]
            for call in [getattr(model, name) for name in names if hasattr(model, name)]:
                with pytest.raises(ValueError, match=r"initial_covariance is [0-9]e\+[0-9]+ times"):
                    call([np.zeros((9, 1))])
    still = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.0]]], [[[0.0]]], [[0.0]], [[[1e24]]])
    with pytest.raises(ValueError, match=r"singular, or overflows because the transition is unstable\. Add"):
        still.log_prob([[1.0, 2.0]])


def test_a_singular_process_noise_is_a_straight_line():
    """Without process noise the level is one regression coefficient."""
    model = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.0]]], [[[1.0]]], [[0.0]], [[[1e8]]])
    x = np.random.default_rng(0).normal(3.0, 1.0, 50)
    states = model.posterior([x])
    np.testing.assert_allclose(states.means[:, 0], x.mean(), rtol=1e-6)
    np.testing.assert_allclose(states.covariances[:, 0, 0], 1 / 50, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"emission": np.zeros((2, 2))}, r"transition must have shape \(2, 2\)"),
        ({"process_covariance": [[[1.0, 2.0], [2.0, 1.0]]] * 3}, "positive semi-definite"),
        ({"process_covariance": [[[1.0, 0.5], [0.0, 1.0]]] * 3}, "symmetric"),
        ({"transition": np.full((3, 2, 2), np.nan)}, "transition must be finite"),
        ({"initial_mean": "abc"}, "initial_mean must be an array of numbers"),
        ({"initial_mean": np.zeros((3, 3))}, r"initial_mean must have shape \(3, 2\)"),
        ({"state_dims": [1, 1, 1]}, "state_dims must count"),
        ({"state_dims": [3, 1, 1]}, "state_dims must be whole numbers from 1 to 2"),
    ],
)
def test_bad_parameters_are_named(change, message):
    models = systems(0, 3, 2, 2)
    fields = {name: getattr(models, name) for name in list(models._arrays)[:8]}
    with pytest.raises(ValueError, match=message):
        mc.LDSs(**{**fields, **change})


def test_bad_calls_are_named():
    models = systems(0, 2, 2, 2)
    with pytest.raises(ValueError, match=r"2 coordinates.*got 3"):
        models.log_prob([np.zeros((4, 3))])
    with pytest.raises(ValueError, match="2 models and 3 sequences"):
        models.posterior(gappy(0, [3, 3, 3], 2))
    with pytest.raises(ValueError, match="steps"):
        models[:1].forecast(gappy(0, [3], 2), steps=0)
    with pytest.raises(ValueError, match="length"):
        models.sample(0)
    with pytest.raises(ValueError, match="observed coordinates"):
        mc.ProbabilityProduct()(models, systems(0, 2, 2, 3))
    with pytest.raises(ValueError, match="length=10"):
        mc.ProbabilityProduct(length=None)(models)
    silent = mc.LDSs([[[0.5]]], [[[0.0]]], [[[1.0]]], [[[0.0]]], [[0.0]], [[[1.0]]])
    with pytest.raises(ValueError, match="observation_covariance"):
        silent.log_prob([[1.0, 2.0]])
    wild = mc.LDSs([[[1e30]]], [[[1.0]]], [[[1.0]]], [[[1.0]]], [[1.0]], [[[1.0]]])
    np.testing.assert_allclose(mc.ProbabilityProduct(length=500)(wild), 1.0)
    with pytest.raises(ValueError, match="unstable"):
        mc.ProbabilityProduct(length=500)(wild, wild._replaced(initial_mean=np.zeros((1, 1))))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_the_number_of_parameters_is_the_rank_of_the_joint_distribution(n, d):
    """How many directions of the parameters change the mean or the covariance of long series."""
    model = systems(0, 1, n, d)
    fields = {name: np.array(getattr(model, name)) for name in list(model._arrays)[:8]}

    def moments(changed):
        *_, mean, covariance = joint(mc.LDSs(**changed), 4 * n)
        return np.concatenate([mean, covariance.ravel()])

    rows, step = [], 1e-5
    for name, value in fields.items():
        for place in np.ndindex(value.shape[1:]):
            sides = []
            for sign in (1, -1):
                moved = value.copy()
                moved[(0, *place)] += sign * step
                if "covariance" in name and place[0] != place[1]:
                    moved[(0, *place[::-1])] += sign * step
                sides.append(moments({**fields, name: moved}))
            rows.append((sides[0] - sides[1]) / (2 * step))
    assert np.linalg.matrix_rank(np.array(rows), tol=1e-6) == model.n_parameters[0]


@pytest.mark.parametrize("switching", [False, True])
def test_samples_and_forecasts_that_overflow_are_told_before_they_are_infinite(switching):
    wild = mc.LDSs([[[10.0]]], [[[1.0]]], [[[0.1]]], [[[0.1]]], [[1.0]], [[[1.0]]])
    model = mc.models.SwitchingLDSs([[1.0]], [[[1.0]]], wild.reshape(1, 1)) if switching else wild
    with pytest.raises(ValueError, match=r"samples exceed the floating range after 3\d\d steps.*length=400"):
        model.sample(length=400, random_state=0)
    with pytest.raises(ValueError, match=r"exceed the floating range after 1\d\d steps.*steps=400. Use at most 1\d\d"):
        model.forecast([[1.0, 2.0]], steps=400)
    assert np.isfinite(model.sample(length=100, random_state=0)).all()


def test_one_observation_at_a_time_is_the_filter():
    model = systems(3, 1, 2, 2)
    x = np.random.default_rng(0).normal(size=(6, 2))
    x[2, 0], x[4] = np.nan, np.nan
    found, belief = model.filter([x]), None
    for t, observation in enumerate(x):
        belief = model.update(None if np.isnan(observation).all() else observation, belief)
        np.testing.assert_allclose(belief[0], found.means[t], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(belief[1], found.covariances[t], rtol=1e-10, atol=1e-12)


def test_a_belief_is_checked():
    model = systems(3, 1, 2, 2)
    with pytest.raises(TypeError, match="a mean and a covariance"):
        model.update([0.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"shapes \(1,\) and \(1, 1\)"):
        model.update([0.0, 0.0], ([1.0], [[1.0]]))
    with pytest.raises(ValueError, match=r"2 coordinates.*got 3"):
        model.update([0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"shape \(1,\); got \(2,\)"):
        systems(3, 2, 2, 2).update([0.0, 0.0])


def test_one_step_ahead_is_the_default():
    model = systems(3, 1, 2, 2)
    assert model.forecast([np.zeros((3, 2))])[0].shape == (1, 1, 2)
