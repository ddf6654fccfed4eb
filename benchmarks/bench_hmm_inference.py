"""Log-likelihoods, posteriors and Fisher scores of hidden Markov models against dynamax and glhmm, on one core.

500 sequences of 200 vectors in 4 dimensions, 10 states, diagonal Gaussians, one shared model, float64. All times are of
whole calls, densities included; all sequences have the same length, as dynamax requires, and its compilation is not
counted. The results are compared first; scores are compared with `jax.grad` through dynamax's filter. glhmm has full
covariances only, so ours use these in that comparison; its features for prediction are not the exact gradient, so only
the time is compared. Libraries that are not installed are skipped.

Run: taskset -c 0 python benchmarks/bench_hmm_inference.py
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterable

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from _measure import best
from _numbers import add_json, write_json

import mercer as mc
from mercer.models._forward.interface import Runs, Symbols, expectations
from mercer.models._scores.scores import hmm_scores

N, LENGTH, STATES, DIMENSION = 500, 200, 10, 4
TIMES: defaultdict[str, dict[str, float]] = defaultdict(dict)
"""Seconds by what is computed and which library."""


def make(structure: str = "diagonal") -> tuple[mc.HMMs, mc.Sequences]:
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(1, STATES, DIMENSION)), rng.uniform(0.5, 2.0, size=(1, STATES, DIMENSION))
    covariance = variance[..., None] * np.eye(DIMENSION) if structure == "full" else variance
    models = mc.HMMs(
        rng.dirichlet(np.ones(STATES), 1), rng.dirichlet(np.ones(STATES), (1, STATES)), mc.Gaussians(mean, covariance)
    )
    return models, mc.Sequences(models.sample(LENGTH, N, random_state=1)[0])


def ours(structure: str) -> tuple[float, float, float]:
    models, X = make(structure)
    values = best(lambda: models.log_prob(X), repeat=20)
    posteriors = best(lambda: models.posterior(X), repeat=20)
    scores = best(lambda: hmm_scores(models, X))
    print(
        f"ours, {structure:8s}: log-likelihoods {1e3 * values:6.2f} ms, posteriors {1e3 * posteriors:6.2f} ms, "
        f"Fisher scores {1e3 * scores:6.1f} ms"
    )
    found = values, posteriors, scores
    _keep(structure, "mercer", zip(("log-likelihoods", "posteriors", "Fisher scores"), found, strict=True))
    return found


def _keep(structure: str, library: str, seconds: Iterable[tuple[str, float]]) -> None:
    for what, value in seconds:
        row = TIMES[f"{what}, {structure}"]
        row[library] = value
        if library != "mercer":
            row["ratio"] = value / row["mercer"]


def dynamax(values: float, posteriors: float, scores: float) -> None:
    try:
        import jax
        import jax.numpy as jnp
        from dynamax.hidden_markov_model import hmm_filter, hmm_smoother
    except ImportError:
        print("dynamax is not installed: nothing to compare with")
        return
    jax.config.update("jax_enable_x64", True)
    models, X = make()
    initial, transition = jnp.asarray(np.asarray(models.initial[0])), jnp.asarray(np.asarray(models.transition[0]))
    mean, variance = (jnp.asarray(np.asarray(p[0])) for p in (models.emission.mean, models.emission.covariance))

    def densities(x, mean=mean, variance=variance):
        difference = x[:, None, :] - mean
        return -0.5 * jnp.sum(difference**2 / variance + jnp.log(2 * jnp.pi * variance), axis=-1)

    def of_parameters(parameters, x):
        first, steps, mean, log_sd = parameters
        table = densities(x, mean, jnp.exp(2 * log_sd))
        return hmm_filter(jax.nn.softmax(first), jax.nn.softmax(steps, axis=-1), table).marginal_loglik

    def smoothed(x):
        found = hmm_smoother(initial, transition, densities(x))
        return found.marginal_loglik, found.smoothed_probs, found.trans_probs

    x = jnp.asarray(X.values.reshape(N, LENGTH, DIMENSION))
    log_prob = jax.jit(jax.vmap(lambda one: hmm_filter(initial, transition, densities(one)).marginal_loglik))
    posterior = jax.jit(jax.vmap(smoothed))
    np.testing.assert_allclose(log_prob(x), models.log_prob(X)[0], rtol=1e-10)
    found = models.posterior(X)
    _, states, transitions = posterior(x)
    np.testing.assert_allclose(states.reshape(-1, STATES), np.concatenate(list(found)), atol=1e-9)
    np.testing.assert_allclose(transitions, found.transitions, atol=1e-8)
    theirs = best(lambda: log_prob(x).block_until_ready(), repeat=20)
    both = best(lambda: jax.block_until_ready(posterior(x)), repeat=20)
    print(
        f"dynamax       : log-likelihoods {1e3 * theirs:6.2f} ms ({theirs / values:.1f}x ours), posteriors "
        f"{1e3 * both:6.2f} ms ({both / posteriors:.1f}x ours)"
    )
    _keep("diagonal", "dynamax", [("log-likelihoods", theirs), ("posteriors", both)])
    gradient = jax.jit(jax.vmap(jax.grad(of_parameters), in_axes=(None, 0)))
    parameters = jnp.log(initial), jnp.log(transition), mean, 0.5 * jnp.log(variance)
    first, steps, *emitted = (np.asarray(g) for g in gradient(parameters, x))
    theirs = np.concatenate([first, steps.reshape(N, -1), np.concatenate(emitted, axis=-1).reshape(N, -1)], axis=1)
    error = np.abs(hmm_scores(models, X)[0] - theirs).max() / np.abs(theirs).max()
    seconds = best(lambda: jax.block_until_ready(gradient(parameters, x)))
    _keep("diagonal", "dynamax", [("Fisher scores", seconds)])
    print(f"jax.grad      : {1e3 * seconds:.1f} ms ({seconds / scores:.1f}x ours); gradients differ by {error:.1e}")


def glhmm(posteriors: float, scores: float) -> None:
    try:
        from glhmm.glhmm import glhmm as peer
        from glhmm.prediction import hmm_kernel
    except ImportError:
        print("glhmm is not installed: nothing to compare with")
        return
    X = make("full")[1]
    few = 20  # it processes sequences one by one, slowly
    model = peer(K=STATES, covtype="full", model_mean="state", model_beta="no")
    flat, ends = np.asarray(X.values[: few * LENGTH]), np.arange(0, few * LENGTH, LENGTH)
    indices = np.stack([ends, ends + LENGTH], axis=1)
    options = {"cyc": 1, "initrep": 0, "verbose": False}
    try:
        model.train(X=None, Y=flat, indices=indices, options=options)
        seconds = best(lambda: model.decode(X=None, Y=flat, indices=indices), repeat=3) * N / few
        options = {"incl_Mu": True, "incl_Sigma": True, "return_feat": True}
        features = best(lambda: hmm_kernel(model, flat, indices, **options), repeat=2) * N / few
    except Exception as error:  # another version has another interface
        print(f"glhmm could not be run here: {error}")
        return
    _keep("full", "glhmm", [("posteriors", seconds), ("Fisher scores", features)])
    print(f"glhmm, full   : posteriors {1e3 * seconds:8.1f} ms ({seconds / posteriors:.0f}x ours), features", end=" ")
    print(f"{1e3 * features:8.1f} ms ({features / scores:.0f}x our scores)")


def expectation_steps() -> None:
    """Time the expectation steps of EM with one model per sequence."""
    rng = np.random.default_rng(0)
    for count, length, n, symbols in ((1000, 100, 3, 2), (1, 5000, 8, 4), (16, 5000, 8, 4)):
        initial, transition = rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n))
        evidence = Symbols(rng.integers(0, symbols, count * length), rng.dirichlet(np.ones(symbols), (count, n)))
        runs = Runs.own(np.arange(0, count * length + 1, length))
        seconds = best(lambda a=initial, b=transition, e=evidence, r=runs: expectations(a, b, e, r), repeat=20)
        print(
            f"expectations  : {count:4d} sequences of {length:4d} symbols, own models of {n} states: "
            f"{1e3 * seconds:5.2f} ms, {1e9 * seconds / (count * length):4.1f} ns per symbol"
        )


def main() -> None:
    with mc.config(n_jobs=1):
        dynamax(*ours("diagonal"))
        glhmm(*ours("full")[1:])
        expectation_steps()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_json(parser)
    given = parser.parse_args()
    main()
    write_json(given.json, {}, TIMES)
