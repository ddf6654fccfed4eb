"""Baum-Welch, one model per sequence, against hmmlearn: seconds on one thread, and the ratio.

Plain maximum likelihood, the same start and number of iterations in both libraries; the log
probabilities of the fitted models must agree to 1e-8. hmmlearn runs ``implementation="scaling"`` on some of the
sequences, and its time is scaled up. Needs hmmlearn.

Run: python benchmarks/bench_hmm_fit.py
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from _measure import best, once
from _numbers import add_json, write_json

import mercer as mc

try:
    from hmmlearn import hmm
except ImportError:
    hmm = None

ITERATIONS = 50
AGREE = 1e-8


def start(n: int, emission: Any, seed: int = 0) -> mc.HMMs:
    rng = np.random.default_rng(seed)
    return mc.HMMs(rng.dirichlet(np.ones(n), 1), rng.dirichlet(np.ones(n), (1, n)), emission)


def symbols(count: int, length: int, n: int) -> tuple[Any, mc.HMMs]:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (count, length))
    return mc.Sequences(codes), start(n, mc.Categoricals(rng.dirichlet([1.0, 1.0], (1, n))))


def vectors(count: int, length: int, n: int, d: int) -> tuple[Any, mc.HMMs]:
    rng = np.random.default_rng(2)
    level = np.cumsum(rng.random((count, length)) < 0.4, axis=1) % n  # often enough that no variance vanishes
    x = 3.0 * level[..., None] + rng.normal(size=(count, length, d))
    mean = 3.0 * np.arange(n)[:, None] + rng.normal(size=(n, d))
    return mc.Sequences(x), start(n, mc.Gaussians(mean[None], np.ones((1, n, d))))


def peer(model: mc.HMMs, x: Any) -> Any:
    """Fit hmmlearn's model to one sequence, from the same start."""
    n, emission = model.initial.shape[1], model.emission
    same = {"n_iter": ITERATIONS, "tol": -np.inf, "init_params": "", "implementation": "scaling"}
    if isinstance(emission, mc.Categoricals):
        other = hmm.CategoricalHMM(n, n_features=emission.dimension, **same)
        other.emissionprob_ = np.array(emission.probability[0])
    else:
        other = hmm.GaussianHMM(n, "diag", covars_prior=0.0, covars_weight=0.0, min_covar=0.0, **same)
        other.means_, other.covars_ = np.array(emission.mean[0]), np.array(emission.covariance[0])
    other.startprob_, other.transmat_ = np.array(model.initial[0]), np.array(model.transition[0])
    return other.fit(x)


def compare(label: str, X: Any, init: mc.HMMs, sample: int) -> dict[str, float]:
    emission = mc.Gaussian("diagonal", floor=0.0) if X.alphabet is None else None
    estimator = mc.HMM(init.initial.shape[1], emission, prior=None, init=init, n_iter=ITERATIONS, tol=0.0)
    context = estimator.context(estimator.accept(X))
    with mc.config(n_jobs=1, cache_bytes=0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = best(lambda: estimator.fit_each(X, context), repeat=3)
        found = estimator.fit_each(X[:sample], context)
    line = f"{label}: {len(X)} models in {seconds:6.3f} s"
    if hmm is None:
        print(line)
        return {"models": len(X), "mercer": seconds}
    rows = [X.values[X.offsets[i] : X.offsets[i + 1]].reshape(X.lengths[i], -1) for i in range(sample)]
    spent, theirs = once(lambda: [peer(init, x) for x in rows])
    other = spent * len(X) / sample
    ours = np.diag(found.log_prob(X[:sample]))
    apart = max(abs(model.score(x) - value) for model, x, value in zip(theirs, rows, ours, strict=True))
    assert apart < AGREE, f"the log probabilities of {label} differ by {apart:.1e}"
    print(f"{line}, hmmlearn {other:7.2f} s: {other / seconds:5.1f} times; log probabilities differ by {apart:.1e}")
    return {"models": len(X), "mercer": seconds, "hmmlearn": other, "ratio": other / seconds}


def main() -> dict[str, dict[str, float]]:
    if hmm is None:
        print("hmmlearn is not installed: only our times")
    rows = {
        "2 symbols, T = 100, 3 states": (*symbols(1000, 100, 3), 50),
        "2 symbols, T = 5000, 8 states": (*symbols(16, 5000, 8), 4),
        "Gaussian, d = 3, T = 100, 3 states": (*vectors(1000, 100, 3, 3), 50),
    }
    return {label: compare(label, *row) for label, row in rows.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_json(parser)
    given = parser.parse_args()
    write_json(given.json, {}, main())
