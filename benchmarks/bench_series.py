"""CPU time of SeriesClassifier, beside an earlier version of the package and aeon's MiniRocket.

    python benchmarks/bench_series.py
    python benchmarks/bench_series.py --aeon OTHER/bin/python                  # aeon in an environment of its own
    python benchmarks/bench_series.py --features                               # of 5,000 series of 500 steps: memory
    python benchmarks/bench_series.py --before "OTHER/bin/python CHECKOUT/src"   # a version without SeriesClassifier

One thread. Every contender runs in a process of its own, fits a few series first (compilation), and then, in order:
fits 100 series of 300 steps, predicts ten series one by one, and fits 390 series and predicts 390 others, which are
CricketZ if MERCER_DATA is set, else random walks. The earlier ensemble is followed by an SVM, MiniRocket by its ridge.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def data() -> list[Any]:
    """Return 100 and 10 series of 300 steps with labels, then 390 and 390."""
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.normal(size=(110, 300)), axis=1)
    folder = Path(os.environ.get("MERCER_DATA", ""), "ucr_large")
    if folder.is_dir():
        parts = [np.genfromtxt(folder / f"CricketZ_{part}.tsv.gz") for part in ("TRAIN", "TEST")]
        large = [(part[:, 1:], part[:, 0]) for part in parts]
    else:
        more = np.cumsum(rng.normal(size=(780, 300)), axis=1)
        large = [(more[:390], np.arange(390) % 12), (more[390:], np.arange(390) % 12)]
    return [(walks[:100], np.arange(100) % 2), (walks[100:], np.arange(10) % 2), *large]


def make(name: str) -> Any:
    """Return a contender, which takes arrays of shape (N, T)."""
    if name == "MiniRocket of aeon":
        from aeon.classification.convolution_based import MiniRocketClassifier

        return MiniRocketClassifier(random_state=0, n_jobs=1)
    import mercer as mc

    mc.set_config(n_jobs=1, cache_bytes=0, memo_bytes=0)
    if name != "before":
        return mc.SeriesClassifier(name)
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    return make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10))


def measure(name: str) -> list[float]:
    """Return seconds of the fit of 100, of one prediction, of 390 + 390, and the accuracy there."""
    small, new, train, test = data()
    make(name).fit(small[0][:8], small[1][:8]).predict(new[0][:2])
    clock = [time.process_time()]
    model = make(name).fit(*small)
    clock.append(time.process_time())
    for x in new[0]:
        model.predict(x[None])
    clock.append(time.process_time())
    score = make(name).fit(*train).score(*test)
    clock.append(time.process_time())
    fit, one, large = np.diff(clock)
    return [fit, one / len(new[0]), large, score]


def features() -> None:
    """Print the size of the features of 5,000 series of 500 steps, and the most memory that the process had."""
    import mercer as mc

    mc.set_config(n_jobs=1, cache_bytes=0, memo_bytes=0)
    X = np.cumsum(np.random.default_rng(0).normal(size=(5000, 500)), axis=1)
    begin = time.process_time()
    found = mc.FisherEnsemble().fit(X).features(X)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{found.nbytes / 1e9:.2f} GB of features, {most:.2f} GB at most, {time.process_time() - begin:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aeon", default="", metavar="PYTHON", help="an interpreter that has aeon")
    parser.add_argument("--before", default="", metavar="PYTHON SRC", help="an interpreter, and an older package")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--features", action="store_true", help="measure the memory of features only")
    given = parser.parse_args()
    if given.features:
        features()
        raise SystemExit
    if given.only:
        print(json.dumps(measure(given.only)))
        raise SystemExit
    here = [sys.executable, os.environ.get("PYTHONPATH", "")]
    runs = {"best": here, "fast": here, "before": given.before.split(), "MiniRocket of aeon": given.aeon.split()}
    print("| | fit 100 series of 300 steps | predict one | fit 390, predict 390 | accuracy |\n|---|--:|--:|--:|--:|")
    for name, (python, *source) in ((name, run) for name, run in runs.items() if run):
        threads = dict.fromkeys(THREADS, "1")
        environment = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(source)}
        found = subprocess.run(
            [python, __file__, "--only", name], env=environment, stdout=subprocess.PIPE, check=True, text=True
        )
        fit, one, large, score = json.loads(found.stdout.splitlines()[-1])
        print(f"| {name} | {fit:.2f} s | {1000 * one:.1f} ms | {large:.2f} s | {score:.3f} |", flush=True)
