"""mercer next to the libraries that people come from: hmmlearn, glhmm, tslearn, aeon, strkernels.

    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/elsewhere.py               # those that are installed
    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/elsewhere.py hmmlearn

Each row is the same task in both libraries, with the time and the result of each: a log-likelihood per observation, or
an accuracy. Compiled code is warm in both; times are the smallest of three calls, and of one call where that is long.
``optima`` counts how often one start of hmmlearn and of mercer ends in the best optimum.
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
from _numbers import add_json, write_json
from sklearn.cluster import KMeans
from sklearn.decomposition import KernelPCA
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
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
    for seed in range(5):
        X = sequences(3, 4, 50, 100, seed)
        found = timed(lambda X=X, seed=seed: fit_hmmlearn(X, seed))
        for n_init, starts in ((1, "one start"), (3, "three starts")):
            ours = timed(lambda X=X, seed=seed, n_init=n_init: fit_mercer(X, seed, n_init))
            row = FOUND.setdefault(str(seed), {"hmmlearn, s": found[0], "hmmlearn": found[1]})
            row |= {f"mercer, {starts}, s": ours[0], f"mercer, {starts}": ours[1]}
            show(f"hmmlearn, 50 x 100 x 4, 3 full states, seed {seed}; n_init={n_init}", found, ours)


def optima() -> None:
    """Count how often one start ends in the best optimum: the five sets of ``hmmlearn``, ten seeds each."""
    fits = {"hmmlearn": fit_hmmlearn, "mercer": lambda X, seed: fit_mercer(X, seed, 1)}
    fits["mercer, n_init=3"] = lambda X, seed: fit_mercer(X, seed, 3)
    hits = dict.fromkeys(fits, 0)
    for number in range(5):
        X = sequences(3, 4, 50, 100, number)
        found = {name: np.array([fit(X, seed) for seed in range(10)]) for name, fit in fits.items()}
        best = max(values.max() for values in found.values())
        for name, values in found.items():
            hits[name] += int((values > best - 0.01).sum())
            print(f"set {number}, {name:16s} {np.array2string(values, precision=4, max_line_width=120)}", flush=True)
    print("best optimum within 0.01 per observation: " + ", ".join(f"{name} {n} of 50" for name, n in hits.items()))


def fit_hmmlearn(X: list[np.ndarray], seed: int) -> float:
    """Return the log-likelihood per observation of a fit by hmmlearn."""
    from hmmlearn.hmm import GaussianHMM

    stacked, lengths = np.concatenate(X), [len(x) for x in X]
    model = GaussianHMM(3, "full", n_iter=100, tol=1e-4 * len(stacked), random_state=seed)
    return float(model.fit(stacked, lengths).score(stacked, lengths)) / len(stacked)


def fit_mercer(X: list[np.ndarray], seed: int, n_init: int) -> float:
    """Return the log-likelihood per observation of a fit without a floor of the variances, as hmmlearn has it."""
    emission = mc.Gaussian("full", floor=0.0)
    model = mc.HMM(3, emission, prior=None, n_init=n_init, n_iter=100, tol=1e-4, random_state=seed).fit(X)
    return float(model.score_samples(X).sum()) / sum(map(len, X))


def glhmm() -> None:
    """Fit one model to all recordings, build a Fisher kernel, and predict a trait."""
    from glhmm import glhmm as module
    from glhmm.prediction import hmm_kernel, predict_phenotype

    def their_fit(X: Any, n_states: int) -> tuple[Any, np.ndarray, np.ndarray]:
        stacked, ends = np.concatenate(list(X)), np.cumsum([len(x) for x in X])
        indices = np.stack([ends - [len(x) for x in X], ends], axis=1)
        model = module.glhmm(K=n_states, covtype="full", model_mean="state", model_beta="no")
        np.random.seed(0)  # noqa: NPY002 - the library draws from the global generator
        model.train(X=None, Y=stacked, indices=indices, options={"verbose": False, "initrep": 1, "cyc": 50})
        return model, stacked, indices

    def our_fit():
        return mc.HMM(4, mc.Gaussian("full"), n_init=1, n_iter=50, random_state=0).fit(X)

    X = sequences(4, 6, 40, 200, 0)
    (theirs, (model, stacked, indices)), (ours, our_model) = timed(lambda: their_fit(X, 4)), timed(our_fit)
    covariance = np.stack([model.get_covariance_matrix(k) for k in range(4)])
    copy = mc.HMMs([model.Pi], [model.P], mc.Gaussians([model.get_means().T], [covariance]))
    likelihood = float(copy.log_prob(X).sum()) / len(stacked)
    show(
        "fit of 40 recordings of 200 steps and 6 channels, 4 full covariances, 50 iterations",
        (theirs, likelihood),
        (ours, our_model.score(X) / 200),
    )
    kernel = timed(lambda: hmm_kernel(model, stacked, indices, type="Fisher", incl_Mu=True))
    show(
        "Fisher kernel of the 40 recordings from the fitted model",
        kernel,
        timed(lambda: mc.Fisher(our_model.model_).fit_transform(X)),
    )

    traits = datasets.make_traits(40, random_state=0)
    folds = KFold(5)  # as in glhmm: relatives are neighbors, and stay together but for those at the ends of folds

    def their_trait() -> float:
        model, stacked, indices = their_fit(traits.data, 2)
        options = {"nfolds": 5, "shape": "linear", "incl_Mu": True, "incl_Sigma": True, "incl_Pi": True, "incl_P": True}
        np.random.seed(0)  # noqa: NPY002
        found = predict_phenotype(model, stacked, traits.target, indices, options=options)
        return float(np.corrcoef(found["behav_pred"], traits.target)[0, 1])

    def our_trait() -> float:
        kernel = mc.Fisher(mc.HMM(2, mc.Gaussian("full"), n_init=1))
        pipeline = make_pipeline(kernel, mc.KernelRidge())
        return float(
            np.corrcoef(cross_val_predict(pipeline, traits.data, traits.target, cv=folds), traits.target)[0, 1]
        )

    show("a trait of 120 people, five folds, with all fits", timed(their_trait, 1), timed(our_trait))


def tslearn() -> None:
    """Work on Gun-Point: matrices of all series, classification of the test part, clusters of the training part."""
    from tslearn.clustering import KernelKMeans, TimeSeriesKMeans
    from tslearn.metrics import cdist_dtw, cdist_gak
    from tslearn.neighbors import KNeighborsTimeSeriesClassifier
    from tslearn.svm import TimeSeriesSVC

    X, y, cube, known = gun_point()
    warm(lambda: mc.FisherEnsemble().fit_transform(X), lambda: cdist_gak(cube[:4]), lambda: cdist_dtw(cube[:4]))
    matrix = timed(lambda: mc.FisherEnsemble().fit_transform(X))
    show("matrix of all pairs of the 200 series, cdist_gak", timed(lambda: cdist_gak(cube, sigma=2.0), 1), matrix)
    show("matrix of all pairs of the 200 series, cdist_dtw", timed(lambda: cdist_dtw(cube), 1), matrix)

    def accuracy(model: Any, data: Any) -> float:
        return float(model.fit(data[known], y[known]).score(data[~known], y[~known]))

    neighbor = KNeighborsTimeSeriesClassifier(1, metric="dtw")
    nearest = KNeighborsClassifier(1, metric="precomputed")
    ours = make_pipeline(mc.FisherEnsemble(), FunctionTransformer(distances), nearest)
    show(
        "nearest neighbor of tslearn, by DTW",
        timed(lambda: accuracy(neighbor, cube), 1),
        timed(lambda: accuracy(ours, X)),
    )
    estimator, ours = TimeSeriesSVC(C=10), make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10))
    show(
        "support vector machine, TimeSeriesSVC(C=10)",
        timed(lambda: accuracy(estimator, cube), 1),
        timed(lambda: accuracy(ours, X)),
    )

    def rand(model: Any, data: Any) -> float:
        return float(adjusted_rand_score(y[known], model.fit_predict(data[known])))

    components = KernelPCA(10, kernel="precomputed")
    model = make_pipeline(mc.FisherEnsemble(), components, KMeans(2, n_init=10, random_state=0))
    ours = timed(lambda: rand(model, X))
    for model in (KernelKMeans(2, kernel="gak", random_state=0), TimeSeriesKMeans(2, metric="dtw", random_state=0)):
        show(f"clusters of the 50 series, {type(model).__name__}", timed(lambda m=model: rand(m, cube), 1), ours)


def aeon() -> None:
    """Classify the test part of Gun-Point: nearest neighbors by DTW, MiniRocket, and FisherEnsemble."""
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

    X, y, cube, known = gun_point()
    cube = np.swapaxes(cube, 1, 2)

    def accuracy(model: Any, data: Any) -> float:
        return float(model.fit(data[known], y[known]).score(data[~known], y[~known]))

    estimator = make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10))
    neighbor = KNeighborsTimeSeriesClassifier(n_neighbors=1, distance="dtw")
    rocket = MiniRocketClassifier(random_state=0)
    warm(lambda: accuracy(estimator, X), lambda: accuracy(rocket, cube))
    warm(lambda: neighbor.fit(cube[:4], y[:4]).predict(cube[:2]))
    ours = timed(lambda: accuracy(estimator, X))
    show("nearest neighbor of aeon, by DTW", timed(lambda: accuracy(neighbor, cube), 1), ours)
    show("MiniRocket of aeon", timed(lambda: accuracy(rocket, cube)), ours)


def gun_point() -> tuple[mc.Sequences, np.ndarray, np.ndarray, np.ndarray]:
    """Return series, labels, the series as an array (N, T, 1), and which series are in the training part."""
    bunch = datasets.fetch_ucr("GunPoint")
    X = mc.Sequences(bunch.data)
    return X, np.asarray(bunch.target), np.stack([np.asarray(x) for x in X]), np.asarray(bunch.split) == "train"


def distances(K: np.ndarray) -> np.ndarray:
    """Return the distances in feature space of a normalized kernel."""
    return np.sqrt(np.maximum(2 - 2 * K, 0))


def strkernels() -> None:
    """Gram matrices of 100 DNA strings of length 200 by their words of one to four letters; promoters by five folds."""
    from strkernels import SpectrumStringKernel

    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ACGT"), 200)) for _ in range(100)]
    words = mc.kernels.Normalized(
        mc.kernels.Sum([mc.Spectrum(k, alphabet="dna", normalize=False) for k in (1, 2, 3, 4)])
    )
    theirs = timed(lambda: SpectrumStringKernel(order=4)(np.array(X), np.array(X)), 1)
    ours = timed(lambda: words.fit_transform(X))
    show("Gram matrix of 100 DNA strings of length 200", theirs, ours)
    print(f"  largest difference of the matrices: {np.abs(np.asarray(theirs[1]) - ours[1]).max():.2g}")

    bunch = datasets.fetch_promoters()
    strings, y = np.array([str(x).upper() for x in bunch.data]), np.asarray(bunch.target)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)

    def accuracy(model: Any) -> float:
        return float(cross_val_score(model, strings, y, cv=folds).mean())

    ours = timed(lambda: accuracy(make_pipeline(words, SVC(kernel="precomputed"))))
    theirs = timed(lambda: accuracy(SVC(kernel=SpectrumStringKernel(order=4))), 1)
    show("promoters (106 strings of length 57), support vector machine, five folds", theirs, ours)


def warm(*calls: Callable[[], Any]) -> None:
    """Call functions once, so that what they compile is compiled."""
    for call in calls:
        timed(call, 1)


FOUND: dict[str, dict[str, Any]] = {}
"""What ``show`` has shown."""


def show(name: str, theirs: tuple[float, Any], ours: tuple[float, Any]) -> None:
    """Print a row and keep it: times, results that are numbers, and the ratio of the times."""
    ratio = theirs[0] / ours[0]
    FOUND[name] = {
        "theirs": theirs[0],
        "mercer": ours[0],
        "ratio": f"{ratio:.0f} times" if ratio > 1 else f"{ratio:.1f} times",
    }
    for side, found in (("theirs", theirs), ("mercer", ours)):
        if isinstance(found[1], float):
            FOUND[name][f"score of {side}"] = found[1]
    left, right = (f"{found[1]:9.4f}" if isinstance(found[1], float) else " " * 9 for found in (theirs, ours))
    print(
        f"{name:60s} {theirs[0]:9.4f} s {left}   mercer {ours[0]:9.4f} s {right}   {ratio:8.1f} times",
        flush=True,
    )


def main() -> None:
    known = {
        "hmmlearn": hmmlearn,
        "optima": optima,
        "glhmm": glhmm,
        "tslearn": tslearn,
        "aeon": aeon,
        "strkernels": strkernels,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *known], help="libraries; all that are installed by default")
    warnings.simplefilter("ignore")
    add_json(parser)
    given = parser.parse_args()
    for name in given.names or known:
        if find_spec("hmmlearn" if name == "optima" else name):
            known[name]()
        else:
            print(f"{name} is not installed.")
    write_json(given.json, {}, FOUND)


if __name__ == "__main__":
    main()
