"""Whole calls that spend their time in compiled recursions, in this checkout and in another one, on one thread.

    python benchmarks/bench_native.py [--rows gram LDS] [--rounds 6]
    python benchmarks/bench_native.py --against ../other/src

With ``--against``, each checkout has processes of its own that keep their data and their library loaded: several,
because the places of data in memory differ from process to process, and with them a time by up to a fifth. They take
turns, call by call, so that other programs disturb all alike. Times are processor times, medians over all calls, which
were warmed up before; the ratio is the time of the other checkout divided by that of this one, above 1 if this one is
faster. The last line is the geometric mean of all ratios. The results of both are compared, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Work = Callable[[], Any]
ROWS: dict[str, Callable[[bool], Work]] = {}
"""Functions that prepare a row and return its call; they take whether a small size will do."""


def row(name: str, *arguments: Any) -> Callable[..., Any]:
    """Add a row, or one for each of the ``arguments``, which are passed on and end the name."""

    def add(make: Callable[..., Work]) -> Callable[..., Work]:
        for argument in arguments:
            ROWS[f"{name} {argument}"] = lambda quick, argument=argument: make(quick, argument)
        if not arguments:
            ROWS[name] = make
        return make

    return add


# -- fitting --------------------------------------------------------------------------------------------------


def fit(estimator: Any, X: Any) -> Work:
    """Return the fit of one model per sequence; what all of them share is learned before."""
    context = estimator.context(estimator.accept(X))
    return lambda: estimator.fit_each(X, context)


def random_hmms(count: int, n: int, emission: Any) -> Any:
    import mercer as mc

    rng = np.random.default_rng(n)
    return mc.HMMs(rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n)), emission)


@row("fit HMM, symbols, states", 3, 8)
def fit_symbols(quick: bool, n: int) -> Work:
    import mercer as mc

    rng = np.random.default_rng(1)
    count, length = (4, 30) if quick else {3: (300, 100), 8: (4, 5000)}[n]
    start = random_hmms(1, n, mc.Categoricals(rng.dirichlet([1.0, 1.0], (1, n))))
    estimator = mc.HMM(n, prior=None, init=start, n_iter=2 if quick else 50, tol=0.0)
    return fit(estimator, mc.Sequences(rng.integers(0, 2, (count, length))))


@row("fit HMM, Gaussians")
def fit_gaussians(quick: bool) -> Work:
    import mercer as mc

    rng, n, d = np.random.default_rng(2), 3, 3
    count, length = (4, 30) if quick else (100, 100)
    level = np.cumsum(rng.random((count, length)) < 0.4, axis=1) % n
    x = 3.0 * level[..., None] + rng.normal(size=(count, length, d))
    start = random_hmms(1, n, mc.Gaussians(3.0 * np.arange(n)[None, :, None] + np.zeros((1, n, d)), np.ones((1, n, d))))
    emission = mc.Gaussian("diagonal", floor=0.0)
    estimator = mc.HMM(n, emission, prior=None, init=start, n_iter=2 if quick else 50, tol=0.0)
    return fit(estimator, mc.Sequences(x))


# -- inference under one model ----------------------------------------------------------------------------------


@row("inference HMM,", "log-likelihoods", "posteriors", "Fisher scores")
def inference(quick: bool, what: str) -> Work:
    import mercer as mc

    rng, n, d = np.random.default_rng(0), 10, 4
    emission = mc.Gaussians(rng.normal(size=(1, n, d)), rng.uniform(0.5, 2.0, size=(1, n, d)))
    models = random_hmms(1, n, emission)
    X = mc.Sequences(rng.normal(size=(8, 20, d) if quick else (500, 200, d)))
    calls = {
        "log-likelihoods": models.log_prob,
        "posteriors": models.posterior,
        "Fisher scores": models.sequence_scores,
    }
    return lambda: calls[what](X)


# -- linear dynamical systems -----------------------------------------------------------------------------------


def systems(count: int, seed: int = 0) -> Any:
    """Return random stable systems with a state of 4 coordinates and observations of 3."""
    import mercer as mc

    rng, n, d = np.random.default_rng(seed), 4, 3

    def covariance(k: int, scale: float) -> Any:
        root = rng.normal(size=(count, k, k))
        return scale * (root @ root.swapaxes(1, 2) / k + 0.5 * np.eye(k))

    turn = np.linalg.qr(rng.normal(size=(count, n, n)))[0] * rng.uniform(0.5, 0.95, (count, 1, 1))
    return mc.LDSs(
        turn, rng.normal(size=(count, d, n)), covariance(n, 0.3), covariance(d, 0.5), rng.normal(size=(count, n)),
        covariance(n, 1.0), observation_offset=rng.normal(size=(count, d)),
    )  # fmt: skip


@row("LDS fit,", "whole series", "ragged with gaps")
def fit_systems(quick: bool, kind: str) -> Work:
    import mercer as mc

    rng, count, length = np.random.default_rng(2), *((3, 20) if quick else (100, 100))
    series = list(systems(count).sample(length, random_state=1)[:, 0])
    if kind != "whole series":
        series = [x[: int(rng.integers(length // 2, length + 1))].copy() for x in series]
        for x in series:
            x[rng.random(x.shape) < 0.1] = np.nan
    estimator = mc.LDS(4, "full", floor=0.0, prior=None, init=systems(1, 1), n_iter=2 if quick else 20, tol=0.0)
    return fit(estimator, mc.Sequences(series))


@row("LDS,", "log-likelihoods", "Fisher scores")
def filters(quick: bool, what: str) -> Work:
    import mercer as mc

    model = systems(1)
    X = mc.Sequences(model.sample(20 if quick else 100, 8 if quick else 1000, random_state=0)[0])
    return lambda: (model.log_prob if what == "log-likelihoods" else model.sequence_scores)(X)


@row("LDS, Gram matrix")
def system_gram(quick: bool) -> Work:
    import mercer as mc

    models, kernel = systems(4 if quick else 100), mc.ProbabilityProduct(rho=1.0, length=100, normalize=False)
    return lambda: kernel.log(models)


# -- Gram matrices of HMMs --------------------------------------------------------------------------------------


@row("gram HMM, states", 3, 4, 8, 16, 30)
def hmm_gram(quick: bool, n: int) -> Work:
    import mercer as mc

    count = 40 if quick else {3: 1000, 4: 1000, 8: 500, 16: 250, 30: 120}[n]
    emission = mc.Categoricals(np.random.default_rng(1).dirichlet(np.ones(4), (count, n)))
    models, kernel = random_hmms(count, n, emission), mc.ProbabilityProduct(rho=1.0, length=10)
    return lambda: kernel(models)


# -- shared histories -------------------------------------------------------------------------------------------


@row("pair HMM,", "float64", "local", "matches", "scores", "fit")
def pair_hmm(quick: bool, kind: str) -> Work:
    import mercer as mc

    rng = np.random.default_rng(1)
    hidden = rng.random((20, 20)) ** 4 + 5 * np.eye(20)
    hidden /= hidden.sum(axis=0)
    joint = hidden @ hidden.T / 20
    model = mc.models.AffinePairHMMs([joint], [joint.sum(axis=0)], [0.03], [0.6], [0.99], alphabet="protein")
    if kind == "local":
        model = mc.models.LocalPairHMMs(
            model.joint, model.insertion, model.open, model.extend, model.continuation, [0.98], [0.98],
            alphabet="protein",
        )  # fmt: skip
    X = mc.Sequences.from_codes(rng.integers(0, 20, (10, 30) if quick else (120, 200)), "protein")
    if kind == "matches":
        return lambda: model.matches(X[0], X[1]).probability
    if kind == "scores":
        return lambda: model.sequence_scores(X)
    if kind == "fit":
        estimator = mc.AffinePairHMM(init=model, n_iter=1, tol=0.0)
        return lambda: estimator.fit(X[:8]).model_.joint
    kernel = mc.Marginalization(model, normalize=False)
    return lambda: kernel.log(X)


@row("pair HMM, states", 3, 8)
def general_pair_hmm(quick: bool, n: int) -> Work:
    import mercer as mc

    rng = np.random.default_rng(n)
    step = rng.dirichlet(np.ones(n + 1), (1, n))
    emission = mc.Categoricals(rng.dirichlet(np.ones(4), (1, n)), alphabet="dna")
    silent = 0.5 * rng.random((1, n)) + 0.05
    model = mc.models.PairHMMs(rng.dirichlet(np.ones(n), 1), step[..., :-1], step[..., -1], emission, silent)
    X = mc.Sequences.from_codes(rng.integers(0, 4, (8, 20) if quick else (240 // n + 16, 60)), "dna")
    kernel = mc.Marginalization(model, normalize=False)
    return lambda: kernel.log(X)


def profiles(count: int, nodes: int) -> Any:
    """Return random profiles of proteins with rare gaps."""
    import mercer as mc

    rng = np.random.default_rng(0)
    steps = np.tile([0.97, 0.015, 0.015, 0.6, 0.4, 0.6, 0.4], (nodes + 1, 1))
    steps[-1], steps[0, 5:] = [0.985, 0.015, 0.0, 0.6, 0.4, 1.0, 0.0], [1.0, 0.0]
    match = [rng.dirichlet(np.full(20, 0.3), nodes) + 1e-6 for _ in range(count)]
    insert = [np.full((nodes + 1, 20), 0.05)] * count
    return mc.models.ProfileHMMs([m / m.sum(axis=1, keepdims=True) for m in match], insert, [steps] * count)


@row("profile HMM,", "Fisher scores", "products")
def profile(quick: bool, what: str) -> Work:
    import mercer as mc

    if what == "products":
        models, kernel = profiles(4, 20) if quick else profiles(24, 150), mc.ProbabilityProduct(length=None)
        return lambda: kernel(models)
    model, shape = profiles(1, 20 if quick else 150), (3, 40) if quick else (30, 300)
    X = mc.Sequences.from_codes(np.random.default_rng(1).integers(0, 20, shape), "protein")
    return lambda: model.sequence_scores(X)


@row("shared history, HMM of 4 states")
def history(quick: bool) -> Work:
    import mercer as mc

    rng = np.random.default_rng(1)
    model = random_hmms(1, 4, mc.Categoricals(rng.dirichlet(np.ones(4), (1, 4)), alphabet="dna"))
    X = mc.Sequences.from_codes(rng.integers(0, 4, (10, 20) if quick else (600, 140)), "dna")
    kernel = mc.Marginalization(model)
    return lambda: kernel(X)


@row("shared history, tree")
def tree(quick: bool) -> Work:
    import mercer as mc

    rng, leaves = np.random.default_rng(0), 10 if quick else 100
    above: dict[str, int] = {}
    left = [f"leaf {k}" for k in range(leaves)]
    for v in range(leaves - 2, -1, -1):  # the root is node 0
        above |= dict.fromkeys([left.pop(int(rng.integers(len(left)))) for _ in range(2)], v)
        left.append(f"node {v}")
    model = mc.models.HiddenTrees(
        [[above.get(f"node {v}", -1) for v in range(leaves - 1)]], rng.dirichlet(np.ones(2), 1),
        rng.dirichlet(np.ones(2), (1, leaves - 1, 2)), [[above[f"leaf {k}"] for k in range(leaves)]],
        rng.dirichlet(np.ones(2), (1, leaves, 2)),
    )  # fmt: skip
    X, kernel = rng.integers(0, 2, (20 if quick else 1200, leaves)).astype(float), mc.Marginalization(model)
    return lambda: kernel(X)


# -- points, windows and documents ------------------------------------------------------------------------------


@row("points,", "KDE", "EmpiricalMeanMap")
def points(quick: bool, what: str) -> Work:
    import mercer as mc

    rng, (count, size) = np.random.default_rng(0), (3, 40) if quick else (20, 400)
    sets = [rng.normal(size=(size, 5)) for _ in range(count)]
    if what == "KDE":
        p, kernel = mc.models.KDEs(sets, 0.1), mc.MeanMap(gamma=0.5, normalize=False)
        return lambda: kernel(p)
    windows = mc.EmpiricalMeanMap(order=2, gamma=0.02)
    return lambda: windows(sets)


@row("strings,", "Spectrum", "windows")
def strings(quick: bool, what: str) -> Work:
    import mercer as mc

    rng = np.random.default_rng(0)
    if what == "Spectrum":
        X = mc.Sequences.from_codes(rng.integers(0, 4, (10 if quick else 1000, 200)), "dna")
        kernel = mc.Spectrum(6)
    else:
        X = mc.Sequences.from_codes(rng.integers(0, 20, (4 if quick else 60, 200)), "protein")
        kernel = mc.EmpiricalMeanMap(order=7)
    return lambda: kernel(X)


@row("documents,", "ProbabilityProduct", "JensenShannon")
def documents(quick: bool, what: str) -> Work:
    from scipy import sparse

    import mercer as mc

    rng, count, words = np.random.default_rng(0), *((20, 100) if quick else (1500, 10_000))
    frequency = 1 / np.arange(1, words + 1)
    lengths = rng.geometric(1 / 65, count)
    codes = rng.choice(words, lengths.sum(), p=frequency / frequency.sum())
    rows = np.repeat(np.arange(count), lengths)
    p = mc.Multinomial().fit_each(sparse.csr_array((np.ones(len(codes)), (rows, codes)), shape=(count, words)))
    kernel = getattr(mc, what)()
    return lambda: kernel(p)


# -- measuring --------------------------------------------------------------------------------------------------


def summary(found: Any) -> float:
    """Return one number that depends on all of a result, to compare the results of two checkouts."""
    if hasattr(found, "log_prob") and not callable(found.log_prob):
        found = found.log_prob
    if hasattr(found, "transition"):
        found = found.transition
    return float(np.abs(np.asarray(found, dtype=np.float64)).mean())


def serve() -> None:
    """Answer lines of JSON: prepare a row and warm it up, or run its call so many times; reply with seconds."""
    import mercer as mc

    answers, sys.stdout = sys.stdout, sys.stderr
    mc.set_config(n_jobs=1, memo_bytes=0, cache_bytes=0, progress=False)
    for line in sys.stdin:
        asked = json.loads(line)
        value = None
        if "row" in asked:
            work = ROWS[asked["row"]](asked["quick"])
            value = summary(work())
        start = time.process_time()
        for _ in range(asked.get("times", 1)):
            work()
        seconds = (time.process_time() - start) / asked.get("times", 1)
        print(json.dumps({"seconds": seconds, "value": value}), file=answers, flush=True)


class Worker:
    """A process with the library of one checkout."""

    def __init__(self, source: Path) -> None:
        if not (source / "mercer" / "__init__.py").exists():
            raise SystemExit(f"{source} has no mercer. Name the folder that contains it, such as ../other/src.")
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = os.environ | one | {"PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], env=environment, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, **asked: Any) -> dict[str, Any]:
        """Send a request and return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("A process ended with the error above.")
        return dict(json.loads(line))

    def close(self) -> None:
        """End the process."""
        self.process.communicate()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def measured(
    checkouts: list[list[Worker]], names: list[str], rounds: int, quick: bool
) -> Iterator[tuple[str, list[float]]]:
    """Yield the median seconds of each checkout for every row; results that differ are reported on the way."""
    in_turn = [(k, worker) for workers in zip(*checkouts, strict=True) for k, worker in enumerate(workers)]
    for name in names:
        ready = [worker.ask(row=name, quick=quick) for _, worker in in_turn]
        values = [answer["value"] for answer in ready]
        if not math.isclose(values[0], values[-1], rel_tol=1e-5 if "float32" in name else 1e-8):
            print(f"{name}: the results differ, {values[0]!r} here and {values[-1]!r} there")
        times = 1 if quick else max(1, math.ceil(0.02 / max(answer["seconds"] for answer in ready)))
        found: list[list[float]] = [[] for _ in checkouts]
        for turn in range(1 if quick else rounds):
            for k, worker in in_turn[:: -1 if turn % 2 else 1]:  # neither is always the first
                found[k].append(worker.ask(times=times)["seconds"])
        yield name, [statistics.median(seconds) for seconds in found]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="SRC", help="the folder src of another checkout")
    parser.add_argument("--rows", nargs="+", default=[""], help="only rows that contain one of these texts")
    parser.add_argument("--rounds", type=int, default=6, help="measured calls of every row in each process (6)")
    parser.add_argument("--processes", type=int, default=3, help="processes of each checkout (3)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one call: whether everything runs")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve()
        return
    names = [name for name in ROWS if any(text in name for text in options.rows)]
    if not names:
        parser.error(f"no row contains {' or '.join(options.rows)}; rows are: {'; '.join(ROWS)}")
    here = Path(__file__).resolve().parents[1] / "src"
    count = 1 if options.quick else options.processes
    sources = [source for source in (here, options.against) if source is not None]
    with contextlib.ExitStack() as stack:
        report([[stack.enter_context(Worker(source)) for _ in range(count)] for source in sources], names, options)


def report(checkouts: list[list[Worker]], names: list[str], options: argparse.Namespace) -> None:
    """Print a line for every row, and the mean of the ratios."""
    ratios = []
    print(f"{'':34}{'here, ms':>10}{'there, ms':>11}{'ratio':>8}" if options.against else f"{'':34}{'ms':>10}")
    for name, seconds in measured(checkouts, names, options.rounds, options.quick):
        line = f"{name:34}{1e3 * seconds[0]:10.2f}"
        if options.against:
            ratios.append(seconds[1] / seconds[0])
            line += f"{1e3 * seconds[1]:11.2f}{ratios[-1]:8.2f}"
        print(line, flush=True)
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: {math.exp(statistics.fmean(map(math.log, ratios))):.3f}")


if __name__ == "__main__":
    main()
