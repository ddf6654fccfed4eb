"""Linear dynamical systems on one core: fits, log-likelihoods and Gram matrices, compared with public libraries.

State of 4 coordinates, observations of 3, float64. EM: 500 series of 100 steps, one system each, 50 iterations from one
start, without a prior, against dynamax under ``vmap`` and ``jit`` (compilation not counted; it needs equal lengths and
no gaps), then with ragged lengths and gaps. Log-likelihoods: 1,000 series under one system, against dynamax and
simdkalman. Gram matrix: the probability product of 500 systems, against the dense joint Gaussians (each covariance
formed once, one Cholesky factor per pair, timed on some pairs), and as a fraction of the matrix product, counting
2 N^3 + 4 d N^2 operations a step, with N coordinates in both states together. Libraries that are not installed are
skipped.

Run: taskset -c 0 python benchmarks/bench_lds.py [fit] [filter] [gram [lengths]]
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from _measure import best, matmul_rate
from scipy.linalg import cho_factor, solve_triangular
from threadpoolctl import threadpool_limits

import mercer as mc

N, D = 4, 3


def systems(count: int, seed: int = 0) -> mc.LDSs:
    """Return random stable systems."""
    rng = np.random.default_rng(seed)

    def covariance(k: int, scale: float) -> Any:
        root = rng.normal(size=(count, k, k))
        return scale * (root @ root.swapaxes(1, 2) / k + 0.5 * np.eye(k))

    turn = np.linalg.qr(rng.normal(size=(count, N, N)))[0] * rng.uniform(0.5, 0.95, (count, 1, 1))
    return mc.LDSs(
        turn, rng.normal(size=(count, D, N)), covariance(N, 0.3), covariance(D, 0.5), rng.normal(size=(count, N)),
        covariance(N, 1.0), observation_offset=rng.normal(size=(count, D)),
    )  # fmt: skip


# -- EM ------------------------------------------------------------------------------------------------------


def fits(count: int = 500, length: int = 100, iterations: int = 50) -> None:
    models = systems(count)
    x = np.stack([models[i : i + 1].sample(length, random_state=i)[0, 0] for i in range(count)])
    init = systems(1, 1)
    estimator = mc.LDS(N, "full", floor=0.0, prior=None, init=init, n_iter=iterations, tol=0.0)

    rng = np.random.default_rng(2)
    lengths = rng.integers(length // 2, length * 3 // 2, count)
    lengths[-1] += count * length - lengths.sum()  # the same number of steps
    longer = models.sample(int(lengths.max()), random_state=3)[:, 0]
    ragged = [series[:steps].copy() for series, steps in zip(longer, lengths, strict=True)]
    for series in ragged:
        series[rng.random(series.shape) < 0.1] = np.nan
    inputs = [mc.Sequences(x), mc.Sequences(ragged)]
    contexts = [estimator.context(estimator.accept(X)) for X in inputs]
    times = [[best(lambda i=i: estimator.fit_each(inputs[i], contexts[i]), repeat=1) for i in (0, 1)] for _ in range(5)]
    seconds, other = np.min(times, axis=0)  # in turn, so that other programs slow both alike
    ours = estimator.fit_each(inputs[0], contexts[0]).posterior(inputs[0]).log_prob
    print(f"EM: {count} systems in {seconds:.3f} s, {1e9 * seconds / (x.size / D * iterations):.0f} ns per step")
    print(
        f"EM: ragged, as many steps, 10 % of the entries missing: {other:.3f} s, {other / seconds:.2f} times as long "
        f"({', '.join(f'{b / a:.2f}' for a, b in times)} in single rounds)"
    )
    theirs, values = dynamax_fits(init, x, iterations)
    if values is not None:
        apart = np.abs(values - ours).max()
        assert apart < 1e-3 * np.abs(ours).mean(), f"log probabilities differ by {apart:.1e}"
        print(f"EM: dynamax {theirs:.2f} s, {theirs / seconds:.1f} times ours; log probabilities differ by {apart:.1e}")


def _parameters(models: mc.LDSs, jnp: Any) -> Any:
    """Convert one system to parameters of dynamax."""
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM
    from jax.random import PRNGKey

    one = {name: jnp.asarray(np.asarray(getattr(models, name)[0])) for name in models._arrays}
    peer = LinearGaussianSSM(N, D, has_dynamics_bias=False, has_emissions_bias=True)
    return peer, *peer.initialize(
        PRNGKey(0), initial_mean=one["initial_mean"], initial_covariance=one["initial_covariance"],
        dynamics_weights=one["transition"], dynamics_covariance=one["process_covariance"],
        emission_weights=one["emission"], emission_bias=one["observation_offset"],
        emission_covariance=one["observation_covariance"],
    )  # fmt: skip


def dynamax_fits(init: mc.LDSs, x: Any, iterations: int) -> tuple[float, Any]:
    try:
        import jax
        import jax.numpy as jnp
        from dynamax.linear_gaussian_ssm import LinearGaussianSSM  # noqa: F401
    except ImportError:
        print("dynamax is not installed: nothing to compare with")
        return 0.0, None
    jax.config.update("jax_enable_x64", True)
    peer, params, props = _parameters(init, jnp)

    def fit(series: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            params, memory = state
            statistics, value = peer.e_step(params, series)
            batch = jax.tree_util.tree_map(lambda part: jnp.asarray(part)[None], statistics)
            return peer.m_step(params, props, batch, memory), value

        (params_, _), _ = jax.lax.scan(step, (params, peer.initialize_m_step_state(params, props)), None, iterations)
        return peer.marginal_log_prob(params_, series)

    run, data = jax.jit(jax.vmap(fit)), jnp.asarray(x)
    return best(lambda: run(data).block_until_ready(), repeat=2), np.asarray(run(data))


# -- log-likelihoods -----------------------------------------------------------------------------------------


def filters(count: int = 1000, length: int = 100) -> None:
    model = systems(1)
    x = model.sample(length, count, random_state=0)[0]
    X = mc.Sequences(x)
    seconds = best(lambda: model.log_prob(X), repeat=30)
    values = model.log_prob(X)[0]
    print(
        f"log-likelihoods: {count} series in {1e3 * seconds:.2f} ms, {1e9 * seconds / (count * length):.1f} ns per step"
    )
    rng = np.random.default_rng(1)
    ragged = mc.Sequences([series[: rng.integers(length // 2, length + 1)] for series in x])
    other = best(lambda: model.log_prob(ragged), repeat=30) * x.size / ragged.values.size
    gaps = mc.Sequences(np.where(rng.random(x.shape) < 0.1, np.nan, x))
    third = best(lambda: model.log_prob(gaps), repeat=30)
    print(f"log-likelihoods: ragged {other / seconds:.2f}, gaps {third / seconds:.2f} times as long per step")
    try:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        peer, params, _ = _parameters(model, jnp)
        run, data = jax.jit(jax.vmap(lambda one: peer.marginal_log_prob(params, one))), jnp.asarray(x)
        np.testing.assert_allclose(run(data), values, rtol=1e-6)
        theirs = best(lambda: run(data).block_until_ready(), repeat=30)
        print(f"log-likelihoods: dynamax {1e3 * theirs:.2f} ms, {theirs / seconds:.1f} times ours")
    except ImportError:
        print("dynamax is not installed: nothing to compare with")
    try:
        import simdkalman

        part = {name: np.asarray(getattr(model, name)[0]) for name in model._arrays}
        peer = simdkalman.KalmanFilter(
            part["transition"], part["process_covariance"], part["emission"], part["observation_covariance"]
        )
        centered, start = x - part["observation_offset"], (part["initial_mean"], part["initial_covariance"])
        theirs = best(lambda: _simdkalman(peer, centered, start), repeat=3)
        np.testing.assert_allclose(_simdkalman(peer, centered, start), values, rtol=1e-8)
        print(f"log-likelihoods: simdkalman {1e3 * theirs:.1f} ms, {theirs / seconds:.0f} times ours")
    except ImportError:
        print("simdkalman is not installed: nothing to compare with")


def _simdkalman(peer: Any, x: Any, start: Any) -> Any:
    """Filter with simdkalman, whose log-likelihood lacks a constant."""
    found = peer.compute(
        x, 0, initial_value=start[0], initial_covariance=start[1], smoothed=False, filtered=True, log_likelihood=True
    )
    return found.log_likelihood - 0.5 * x[0].size * np.log(2 * np.pi)


# -- Gram matrices -------------------------------------------------------------------------------------------


def joint(model: mc.LDSs, length: int) -> tuple[Any, Any]:
    """Return mean and covariance of the joint distribution of all observations."""
    a, c, q, r = (
        np.asarray(getattr(model, name)[0])
        for name in ("transition", "emission", "process_covariance", "observation_covariance")
    )
    mean, spread = np.asarray(model.initial_mean[0]), np.asarray(model.initial_covariance[0])
    means, covariance = [], np.zeros((length, D, length, D))
    for t in range(length):
        means.append(c @ mean + np.asarray(model.observation_offset[0]))
        lag = spread
        for s in range(t, length):
            block = c @ lag @ c.T
            covariance[s, :, t], covariance[t, :, s] = block, block.T
            lag = a @ lag
        covariance[t, :, t] += r
        mean, spread = a @ mean, a @ spread @ a.T + q
    return np.concatenate(means), covariance.reshape(length * D, length * D)


def dense(one: tuple[Any, Any], two: tuple[Any, Any]) -> float:
    """Return the log product of two joint Gaussians (rho = 1): one Cholesky factor."""
    factor, _ = cho_factor(one[1] + two[1], lower=True, overwrite_a=True, check_finite=False)
    away = solve_triangular(factor, one[0] - two[0], lower=True, check_finite=False)
    return float(-np.log(np.diag(factor)).sum() - 0.5 * (away @ away + len(away) * np.log(2 * np.pi)))


def grams(count: int = 500, lengths: tuple[int, ...] = (100,), pairs: int = 8) -> None:
    models, rate = systems(count), matmul_rate()
    total = count * (count + 1) / 2
    for length in lengths:
        kernel = mc.ProbabilityProduct(rho=1.0, length=length, normalize=False)
        seconds = best(lambda k=kernel: k.log(models), repeat=2)
        work = total * length * (2 * (2 * N) ** 3 + 4 * D * (2 * N) ** 2)
        line = f"Gram: {count} systems, T = {length}: {seconds:.2f} s, {1e6 * seconds / total:.1f} us per pair, "
        line += f"{100 * work / seconds / rate:.0f} % of the matrix product"
        if length in (100, 400):
            some = [joint(models[i : i + 1], length) for i in range(pairs + 1)]
            with threadpool_limits(1, user_api="blas"):
                work_ = lambda s=some: [dense(s[0], other) for other in s[1:]]  # noqa: E731
                other = best(work_, repeat=2) / pairs
                apart = np.abs(np.array(work_()) / kernel.log(models[: pairs + 1])[0, 1:] - 1).max()
            assert apart < 1e-10, f"logarithms differ by {apart:.1e}"
            line += f"; dense {other * total / seconds:.0f} times as long; logarithms differ by {apart:.0e}"
        print(line)


def main() -> None:
    lengths = tuple(int(word) for word in sys.argv[1:] if word.isdigit()) or (50, 100, 200, 400, 800)
    wanted = [word for word in sys.argv[1:] if not word.isdigit()] or ["fit", "filter", "gram"]
    with mc.config(n_jobs=1, cache_bytes=0):
        for name, work in (("fit", fits), ("filter", filters), ("gram", lambda: grams(lengths=lengths))):
            if name in wanted:
                work()


if __name__ == "__main__":
    main()
