"""Latency of one-row ``transform``: four kernels fitted to 2,000 strings of 200 letters.

    python benchmarks/bench_latency.py [--size 2000] [--length 200] [--calls 20]
    python benchmarks/bench_latency.py --compact [--many 10000]
    python benchmarks/bench_latency.py --load [--repeat 9]

Every call gets a new string, so that nothing about it is cached. The median is printed, and the slowest call after
the first one, which prepares the training strings.

``--compact`` compares pipelines of a kernel and an SVC with their compact forms, ``mc.compact(pipeline)``: the latency
of one prediction (the median of calls in a row), the throughput of many, and the size of the pickled pipeline.

``--load`` measures fresh processes: the CPU time (user and system) that ``mc.load`` of a saved pipeline and its first
prediction take above ``import sklearn.svm, sklearn.pipeline``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
from _measure import once
from _numbers import add_json, write_json
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc


def strings(n: int, length: int, seed: int) -> list[str]:
    """Draw random DNA, every string with its own letter frequencies."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("ACGT"))
    return ["".join(rng.choice(letters, size=length, p=rng.dirichlet(np.full(4, 5.0)))) for _ in range(n)]


def kernels(train: list[str]) -> dict[str, mc.kernels.Kernel]:
    """Return the kernels, with a few iterations of EM, since fitting is not measured."""
    hmm = mc.HMM(n_states=3, emission=mc.Categorical(alphabet="dna"), n_iter=5, n_init=1)
    shared = hmm.fit(train[:50]).model_
    affine = mc.AffinePairHMM(substitution=(2, -3), gap_open=5, gap_extend=2, alphabet="dna")
    return {
        "ProbabilityProduct(HMM(3))": mc.ProbabilityProduct(hmm),
        "Fisher(HMMs)": mc.Fisher(shared),
        "Marginalization(AffinePairHMM)": mc.Marginalization(affine),
        "Spectrum(k=6)": mc.Spectrum(k=6, alphabet="dna"),
    }


def two_classes(n: int, length: int, seed: int) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Draw random DNA of two classes, Markov chains in which a letter is followed by itself rarely or often."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    stays = rng.random((n, length)) < np.where(y, 0.42, 0.18)[:, None]
    steps = np.where(stays, 0, rng.integers(1, 4, size=(n, length)))
    codes = np.cumsum(np.column_stack([rng.integers(4, size=n), steps]), axis=1) % 4
    letters = np.array(list("ACGT"))
    return ["".join(row) for row in letters[codes[:, :length]]], y


def pipelines(train: list[str]) -> dict[str, tuple[mc.kernels.Kernel, int]]:
    """Return the kernels of the compact pipelines, and the fraction of the many strings that they predict: 1 / part."""
    some = kernels(train)
    chain = mc.MarkovChain(alphabet="dna", prior="pooled")
    return {
        "Spectrum(k=6)": (some["Spectrum(k=6)"], 1),
        "Centered(Spectrum(k=6))": (mc.Centered(some["Spectrum(k=6)"]), 1),
        "ProbabilityProduct(MarkovChain)": (mc.ProbabilityProduct(chain), 1),
        "Fisher(HMM) of 3 states": (some["Fisher(HMMs)"], 1),
        "Tempered(Marginalization(AffinePairHMM))": (mc.Tempered(some["Marginalization(AffinePairHMM)"]), 100),
    }


def seconds(pipeline: Any, strings: list[str]) -> float:
    """Return the time of one call of ``predict``."""
    return once(lambda: pipeline.predict(strings))[0]


def compare(size: int, length: int, calls: int, many: int) -> dict[str, dict[str, float | str]]:
    """Print the latency, the throughput and the size of pipelines, before and after ``mc.compact``."""
    train, y = two_classes(size, length, 0)
    rows: dict[str, dict[str, float | str]] = {}
    for name, (kernel, part) in pipelines(train).items():
        whole = make_pipeline(kernel, SVC(kernel="precomputed", C=10)).fit(train, y)
        small = mc.compact(whole)
        new = two_classes(max(calls, 49) + 1, length, 1)[0]
        # In a row, as a server answers; the first call prepares the training strings.
        latency = [
            1e3 * statistics.median([seconds(pipeline, [string]) for string in new[: calls + 1]][1:])
            for pipeline in (whole, small)
        ]
        blocks = [two_classes(many // part, length, seed)[0] for seed in (2, 3, 4)]  # new, so that no pair is known
        rate = [many // part / min(seconds(pipeline, block) for block in blocks) for pipeline in (whole, small)]
        kib = [len(pickle.dumps(pipeline)) / 1024 for pipeline in (whole, small)]
        wrong = np.abs(small.decision_function(new[:50]) - whole.decision_function(new[:50])).max()
        print(
            f"{name:36} support {small.kept_[0].kept:5}, one {latency[0]:7.2f} -> {latency[1]:7.2f} ms, "
            f"many {rate[0]:8.0f} -> {rate[1]:8.0f} /s, pickled {kib[0]:8.0f} -> {kib[1]:7.0f} KiB, "
            f"largest difference {wrong:.0e}",
            flush=True,
        )
        shown = (
            f"{latency[0]:.2f} → {latency[1]:.2f}",
            f"{rate[0]:,.0f} → {rate[1]:,.0f}",
            f"{kib[0]:,.0f} → {kib[1]:,.0f}",
        )
        rows[name] = {"support objects": small.kept_[0].kept}
        rows[name] |= dict(zip(("one string, ms", "strings/s", "pickled, KiB"), shown, strict=True))
    return rows


START = "import sklearn.svm, sklearn.pipeline"
LOAD = f"""{START}
import sys, numpy, mercer
mercer.load(sys.argv[1]).predict([numpy.sin(numpy.arange(120.0)).reshape(60, 2)])"""


def cpu(bytecode: str, *program: str) -> float:
    """Return the CPU seconds of a fresh interpreter, with the bytecode that an installed package has."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *program], check=True, env=environment | {"PYTHONPYCACHEPREFIX": bytecode})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def load(repeat: int) -> None:
    """Print what loading a pipeline and its first prediction cost a new process."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    X = [(1 + c) * rng.normal(size=(60, 2)).cumsum(axis=0) for c in y]
    fisher = make_pipeline(mc.Fisher(mc.HMM(3)), SVC(kernel="precomputed", C=10)).fit(X, y)
    saved = {
        "Fisher(HMM) + SVC": fisher,
        "the same, compact": mc.compact(fisher),
        "SeriesClassifier": mc.SeriesClassifier().fit(X, y),
    }
    with tempfile.TemporaryDirectory() as folder:
        programs = {START: (START,)}
        for number, (name, pipeline) in enumerate(saved.items()):
            mc.save(pipeline, f"{folder}/{number}.mercer")
            programs[name] = LOAD, f"{folder}/{number}.mercer"
        # In turn, so that all of them see the same machine; the first round compiles.
        rounds = [[cpu(f"{folder}/bytecode", *program) for program in programs.values()] for _ in range(repeat + 1)][1:]
    for name, *found in zip(programs, *rounds, strict=True):
        above = sorted(mine - row[0] for mine, row in zip(found, rounds, strict=True))
        print(
            f"{name:40} CPU {statistics.median(found):.2f} s, above {statistics.median(above):.2f} s "
            f"({above[0]:.2f} to {above[-1]:.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--compact", action="store_true")
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--repeat", type=int, default=9)
    add_json(parser)
    options = parser.parse_args()
    if options.load:
        load(options.repeat)
        return
    if options.compact:
        write_json(options.json, {}, compare(options.size, options.length, options.calls, options.many))
        return
    train = strings(options.size, options.length, 0)
    new = strings(options.calls + 1, options.length, 1)
    times: dict[str, dict[str, float]] = {}
    for name, kernel in kernels(train).items():
        fitted, _ = once(lambda kernel=kernel: kernel.fit(train))
        first, *found = (once(lambda kernel=kernel, s=string: kernel.transform([s]))[0] for string in new)
        print(
            f"{name:34} fit {fitted:6.2f} s, first call {1e3 * first:8.1f} ms, "
            f"then median {1e3 * statistics.median(found):8.2f} ms, slowest {1e3 * max(found):8.2f} ms",
            flush=True,
        )
        times[name] = {"unprepared, ms": 1e3 * first, "prepared once, ms": 1e3 * statistics.median(found)}
    write_json(options.json, {}, times)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # EM is stopped early on purpose
    main()
