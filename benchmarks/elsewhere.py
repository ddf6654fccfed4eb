"""mercer next to the libraries that people come from: hmmlearn, glhmm, tslearn, strkernels.

    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/elsewhere.py               # those that are installed
    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/elsewhere.py hmmlearn

Each row is the same task in both libraries, with the time and the result of each: a log-likelihood per observation, or
an accuracy. Compiled code is warm in both; the time is the smallest of three calls.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer import datasets


def timed(call: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the smallest time of a few calls, in seconds, and the result of the last."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        with redirect_stdout(io.StringIO()):
            result = call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def sequences(n_states: int, d: int, n: int, length: int, seed: int) -> list[np.ndarray]:
    """Draw sequences from an HMM whose states have full covariances."""
    rng = np.random.default_rng(seed)
    transition = 0.9 * np.eye(n_states) + 0.1 / n_states
    means, roots = rng.normal(size=(n_states, d)) * 1.5, rng.normal(size=(n_states, d, d)) / np.sqrt(d)
    drawn = []
    for _ in range(n):
        state, rows = int(rng.integers(n_states)), []
        for _ in range(length):
            rows.append(means[state] + roots[state] @ rng.normal(size=d) + 0.3 * rng.normal(size=d))
            state = int(rng.choice(n_states, p=transition[state]))
        drawn.append(np.array(rows))
    return drawn


def hmmlearn() -> None:
    """Fit 50 sequences, 3 states with full covariances, for five seeds; mercer from one start and from three."""
    from hmmlearn.hmm import GaussianHMM

    for seed in range(5):
        X = sequences(3, 4, 50, 100, seed)
        stacked, lengths = np.concatenate(X), [len(x) for x in X]

        def theirs(seed=seed, stacked=stacked, lengths=lengths):
            model = GaussianHMM(3, "full", n_iter=100, tol=1e-4 * len(stacked), random_state=seed)
            return model.fit(stacked, lengths).score(stacked, lengths) / len(stacked)

        found = timed(theirs)
        for n_init in (1, 3):

            def ours(seed=seed, X=X, n_init=n_init):
                model = mc.HMM(3, mc.Gaussian("full"), n_init=n_init, n_iter=100, tol=1e-4, random_state=seed).fit(X)
                return float(model.score_samples(X).sum()) / sum(map(len, X))

            show(f"hmmlearn, 50 x 100 x 4, 3 full states, seed {seed}; n_init={n_init}", found, timed(ours))


def glhmm() -> None:
    """Fit one model to all recordings and build a Fisher kernel."""
    from glhmm import glhmm as module
    from glhmm.prediction import hmm_kernel

    X = sequences(4, 6, 40, 200, 0)
    stacked, ends = np.concatenate(X), np.cumsum([len(x) for x in X])
    indices = np.stack([ends - [len(x) for x in X], ends], axis=1)

    def their_fit():
        model = module.glhmm(K=4, covtype="full", model_mean="state", model_beta="no")
        np.random.seed(0)  # noqa: NPY002 - the library draws from the global generator
        model.train(X=None, Y=stacked, indices=indices, options={"verbose": False, "initrep": 1, "cyc": 50})
        return model

    def our_fit():
        return mc.HMM(4, mc.Gaussian("full"), n_init=1, n_iter=50, random_state=0).fit(X)

    (theirs, their_model), (ours, our_model) = timed(their_fit, 1), timed(our_fit)
    show("glhmm, fit of 40 x 200 x 6, 4 full states", (theirs, np.nan), (ours, our_model.score(X) / 200))

    def their_kernel():
        return hmm_kernel(their_model, stacked, indices, type="Fisher", incl_Mu=True)

    def our_kernel():
        return mc.Fisher(our_model.model_).fit_transform(X)

    show("glhmm, Fisher kernel of 40 recordings", (timed(their_kernel, 1)[0], np.nan), (timed(our_kernel)[0], np.nan))


def tslearn() -> None:
    """Classify Gun-Point by five folds: global alignment kernel and nearest neighbors by DTW, and FisherEnsemble."""
    from tslearn.neighbors import KNeighborsTimeSeriesClassifier
    from tslearn.svm import TimeSeriesSVC

    bunch = datasets.fetch_ucr("GunPoint")
    X, y = mc.Sequences(bunch.data), np.asarray(bunch.target)
    cube = np.stack([np.asarray(x) for x in X])
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(cube, y))

    def accuracy(make: Callable[[], Any], data: Any) -> float:
        return float(np.mean([make().fit(data[a], y[a]).score(data[b], y[b]) for a, b in folds]))

    ours = timed(lambda: accuracy(lambda: make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10)), X), 1)
    ours = timed(lambda: accuracy(lambda: make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10)), X), 1)
    show("tslearn, TimeSeriesSVC(gak), five folds", timed(lambda: accuracy(lambda: TimeSeriesSVC(C=10), cube), 1), ours)
    neighbor = timed(lambda: accuracy(lambda: KNeighborsTimeSeriesClassifier(1, metric="dtw"), cube), 1)
    show("tslearn, 1-NN DTW, five folds", neighbor, ours)


def strkernels() -> None:
    """Gram matrices of 100 DNA strings of length 200 by their 4-mers."""
    from strkernels import SpectrumStringKernel

    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGT"), 200)) for _ in range(100)]
    raw = np.array(X)
    theirs = timed(lambda: SpectrumStringKernel(order=4)(raw, raw), 1)
    ours = timed(lambda: mc.Spectrum(4).fit_transform(X))
    equal = float(np.abs(np.asarray(theirs[1]) - ours[1]).max())
    show("strkernels, spectrum of 4, 100 strings", (theirs[0], np.nan), (ours[0], np.nan))
    print(f"  largest difference of the matrices: {equal:.2g}")


def show(name: str, theirs: tuple[float, Any], ours: tuple[float, Any]) -> None:
    """Print a row."""
    print(
        f"{name:60s} {theirs[0]:9.4f} s {theirs[1]:9.4f}   mercer {ours[0]:9.4f} s {ours[1]:9.4f}   "
        f"{theirs[0] / ours[0]:8.1f} times",
        flush=True,
    )


def main() -> None:
    known = {"hmmlearn": hmmlearn, "glhmm": glhmm, "tslearn": tslearn, "strkernels": strkernels}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *known], help="libraries; all that are installed by default")
    warnings.simplefilter("ignore")
    for name in parser.parse_args().names or known:
        if find_spec(name):
            known[name]()
        else:
            print(f"{name} is not installed.")


if __name__ == "__main__":
    main()
