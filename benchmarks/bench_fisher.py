"""Exact Fisher scores of hidden Markov models: ours, `jax.grad` through dynamax's filter, and glhmm's features.

500 sequences of 200 vectors in 4 dimensions, 10 states, diagonal Gaussians, float64, one core; all sequences have the
same length, as dynamax requires, and its compilation is not counted. The gradients are compared first. glhmm's features
are different (full covariances; transitions are normalized instead of counted), so that only time is compared, on a few
sequences. Libraries that are not installed are skipped.

Run: python benchmarks/bench_fisher.py
"""

from __future__ import annotations

import os

import numpy as np
from _measure import best

import mercer as mc
from mercer.models._forward.evidence import evidence_of
from mercer.models._forward.interface import Runs, expectations
from mercer.models._scores.scores import hmm_scores
from mercer.models._scores.weighted import weighted_scores

N, LENGTH, STATES, DIMENSION = 500, 200, 10, 4


def make(covariance: str = "diagonal") -> tuple[mc.HMMs, mc.Sequences]:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(1, STATES, DIMENSION))
    spread = rng.uniform(0.5, 2.0, size=(1, STATES, DIMENSION))
    if covariance == "full":
        spread = spread[..., None] * np.eye(DIMENSION)
    emission = mc.Gaussians(2 * mean, spread)
    models = mc.HMMs(rng.dirichlet(np.ones(STATES), 1), rng.dirichlet(np.ones(STATES), (1, STATES)), emission)
    return models, mc.Sequences(models.sample(LENGTH, N, random_state=1)[0])


def ours() -> tuple[mc.HMMs, mc.Sequences, dict[str, float]]:
    times = {}
    for covariance in ("full", "diagonal"):
        models, X = make(covariance)
        seconds = times[covariance] = best(lambda m=models, x=X: hmm_scores(m, x))
        evidence = evidence_of(models.emission, X.values, np.zeros(len(X.values), dtype=int))
        initial, transition = np.asarray(models.initial), np.asarray(models.transition)
        runs = Runs.shared(X.offsets)
        both = best(lambda a=initial, b=transition, e=evidence, r=runs: expectations(a, b, e, r, states=True))
        states = expectations(initial, transition, evidence, runs, states=True).states
        emitted = best(lambda m=models, x=X, s=states: weighted_scores(m.emission[0], x.values, x.offsets, s))
        table = best(lambda m=models, x=X: evidence_of(m.emission, x.values, np.zeros(len(x.values), dtype=int)))
        print(
            f"ours, {covariance:8s}: {1e3 * seconds:7.1f} ms (densities {1e3 * table:.1f}, forward-backward "
            f"{1e3 * both:.1f}, sums of scores {1e3 * emitted:.1f})"
        )
    return models, X, times


def dynamax(models: mc.HMMs, X: mc.Sequences, mine: float) -> None:
    try:
        import jax
        import jax.numpy as jnp
        from dynamax.hidden_markov_model import hmm_filter
    except ImportError:
        print("dynamax is not installed")
        return
    jax.config.update("jax_enable_x64", True)

    def log_prob(parameters, x):
        first, steps, mean, log_sd = parameters
        z = (x[:, None, :] - mean) * jnp.exp(-log_sd)
        table = -0.5 * jnp.sum(z * z + jnp.log(2 * jnp.pi), axis=-1) - jnp.sum(log_sd, axis=-1)
        filtered = hmm_filter(jax.nn.softmax(first), jax.nn.softmax(steps, axis=-1), table)
        return filtered.marginal_loglik

    gradient = jax.jit(jax.vmap(jax.grad(log_prob), in_axes=(None, 0)))
    emission = models.emission
    parameters = (
        jnp.log(np.asarray(models.initial[0])),
        jnp.log(np.asarray(models.transition[0])),
        jnp.asarray(np.asarray(emission.mean[0])),
        0.5 * jnp.log(np.asarray(emission.covariance[0])),
    )
    x = jnp.asarray(X.values.reshape(N, LENGTH, DIMENSION))
    first, steps, mean, log_sd = (np.asarray(g) for g in gradient(parameters, x))
    emitted = np.concatenate([mean, log_sd], axis=-1).reshape(N, -1)
    theirs = np.concatenate([first, steps.reshape(N, -1), emitted], axis=1)
    scores = hmm_scores(models, X)[0]
    error = np.abs(scores - theirs).max() / np.abs(theirs).max()
    seconds = best(lambda: jax.block_until_ready(gradient(parameters, x)))
    print(
        f"jax.grad through dynamax: {1e3 * seconds:.1f} ms, {seconds / mine:.1f} times ours; gradients differ by "
        f"{error:.1e}"
    )


def glhmm(X: mc.Sequences, mine: float, some: int = 20) -> None:
    try:
        from glhmm.glhmm import glhmm as model
        from glhmm.prediction import hmm_kernel
    except ImportError:
        print("glhmm is not installed")
        return
    y = X.values[: some * LENGTH]
    ends = np.stack([np.arange(some) * LENGTH, np.arange(1, some + 1) * LENGTH], axis=1)
    hmm = model(K=STATES, covtype="full", model_mean="state", model_beta="no")
    options = {"cyc": 2, "initrep": 1, "initcyc": 1, "verbose": False}
    hmm.train(X=None, Y=y, indices=ends, options=options)
    seconds = best(lambda: hmm_kernel(hmm, y, ends, incl_Mu=True, incl_Sigma=True, return_feat=True), repeat=2)
    print(f"glhmm's features: {1e3 * seconds / some:.1f} ms per sequence, {seconds / some / (mine / N):.0f} times ours")


def main() -> None:
    os.sched_setaffinity(0, {next(iter(os.sched_getaffinity(0)))})  # one core for all libraries
    with mc.config(n_jobs=1):
        models, X, times = ours()
        dynamax(models, X, times["diagonal"])
        glhmm(X, times["full"])  # which has full covariances


if __name__ == "__main__":
    main()
