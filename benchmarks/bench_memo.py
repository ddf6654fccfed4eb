"""The cost of the memo of pairs: one ``fit_transform``, then ``transform`` of single rows, with the memo and without.

    python benchmarks/bench_memo.py [--size 5000] [--calls 10] [--repeat 5] [--only RBF]
    python benchmarks/bench_memo.py --search     (the wall time of a grid search over C, and pairs per distinct pair)

Every kernel runs in a process of its own per setting, so that peaks of memory are its own: what the process holds at
its peak, minus what it held before ``fit_transform``. Spectrum and RBF do not use the memo, since a pair costs less
than storing it; the others do.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from typing import Any

import numpy as np
from _measure import once
from _numbers import add_json, write_json
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.gram.pair_memo import memo

UNITS = {"whole": "s", "peak": "MiB", "first": "s", "single": "s", "search": "s", "pairs": ""}
WHAT = {
    "whole": "fit_transform", "peak": "peak memory", "first": "first row", "single": "other rows", "search": "search",
    "pairs": "pairs evaluated",
}  # fmt: skip
SEARCHED = {
    "Spectrum(3)": 600, "RBF": 600, "Fisher(MarkovChain)": 600, "ProbabilityProduct(Gaussian)": 300,
    "Marginalization(pairs)": 120,
}  # fmt: skip
"""Samples of a grid search."""
LABELS = {
    "RBF": "RBF, 5 columns (not kept)", "Spectrum(3)": "Spectrum(3) (not kept)",
    "Fisher(MarkovChain)": "Fisher(MarkovChain) (not kept)", "Marginalization(pairs)": "Marginalization(AffinePairHMM)",
}  # fmt: skip
"""Names of cases on the page, where they differ."""
COLUMNS = {"whole": "fit_transform", "peak": "peak memory", "single": "one-row transform"}
LEARNED = {"ProbabilityProduct(Gaussian)"}
"""Kernels whose pairs depend on the training data."""


def strings(n: int, length: int, seed: int) -> list[str]:
    """Draw random DNA."""
    rng = np.random.default_rng(seed)
    return ["".join(row) for row in rng.choice(list("ACGT"), size=(n, length))]


def cases(n: int, calls: int) -> dict[str, tuple[mc.kernels.Kernel, object, object]]:
    """Return kernels with training data and new data."""
    rng = np.random.default_rng(0)
    rows, new_rows = rng.normal(size=(n, 5)), rng.normal(size=(calls + 1, 5))
    few = n // 10
    sets = [rng.normal(size=(20, 3)) for _ in range(n // 5 + calls + 1)]
    chain = mc.MarkovChain(2, alphabet="dna").fit(strings(50, 60, 2)).model_
    affine = mc.AffinePairHMM(substitution=(2, -3), gap_open=5, gap_extend=2, alphabet="dna")
    return {
        "Spectrum(3)": (mc.Spectrum(k=3, alphabet="dna"), strings(n, 60, 0), strings(calls + 1, 60, 1)),
        "RBF": (mc.RBF(gamma=0.1), rows, new_rows),
        "Fisher(MarkovChain)": (mc.Fisher(chain), strings(n // 2, 60, 0), strings(calls + 1, 60, 1)),
        "ProbabilityProduct(Gaussian)": (
            mc.ProbabilityProduct(mc.Gaussian("full", prior="pooled")),
            sets[: n // 5],
            sets[n // 5 :],
        ),
        "Marginalization(pairs)": (mc.Marginalization(affine), strings(few, 60, 0), strings(calls + 1, 60, 1)),
    }


def measure(name: str, n: int, calls: int) -> dict[str, float]:
    """Time one ``fit_transform`` and single rows, after a small run that imports."""
    kernel, train, new = cases(n, calls)[name]
    kernel.fit_transform(train[:20])
    kernel.transform(new[:1])
    memo.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whole, _ = once(lambda: kernel.fit_transform(train))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    single = [once(lambda i=i: kernel.transform(new[i : i + 1]))[0] for i in range(1, calls + 1)]
    return {"whole": whole, "peak": peak / 1024, "first": single[0], "single": statistics.median(single[1:])}


def search(name: str, n: int) -> dict[str, float]:
    """Time a grid search over C, and count the pairs that it evaluates against the distinct ones."""
    kernel, train, _ = cases(n, 1)[name]
    train = train[: SEARCHED[name]]
    y = np.arange(len(train)) % 2
    evaluated = [0]
    plain = type(kernel)._tile

    def counted(self: object, a: Any, b: Any) -> Any:
        tile = plain(self, a, b)
        evaluated[0] += tile.shape[0] * tile.shape[1]
        return tile

    model = make_pipeline(kernel, SVC(kernel="precomputed"))
    grid = GridSearchCV(model, {"svc__C": [0.1, 1.0, 10.0]}, cv=3)
    grid.fit(train[:30], y[:30])
    memo.clear()
    wall, _ = once(lambda: grid.fit(train, y))
    memo.clear()
    type(kernel)._tile = counted  # type: ignore[method-assign]
    grid.fit(train, y)
    n = len(train)
    distinct = n * (n + 1) / 2
    if name in LEARNED:  # the models of a fold are shrunk to what the fold has learned, and differ from those of others
        inside, outside = 2 * n // 3, n // 3
        distinct += 3 * (inside * (inside + 1) / 2 + inside * outside)
    return {"search": wall, "pairs": evaluated[0] / distinct}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=5000)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--search", action="store_true", help="a grid search instead of single calls")
    add_json(parser)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--off", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with mc.config(n_jobs=1, **({"memo_bytes": 0} if options.off else {})):
            found = search(options.one, options.size) if options.search else None
            print(json.dumps(found or measure(options.one, options.size, options.calls)))
        return
    found = {LABELS.get(name, name): report(name, options) for name in cases(20, 1) if options.only in name}
    write_json(options.json, {}, found)


def report(name: str, options: argparse.Namespace) -> dict[str, str | int]:
    """Print and return the minimum and the median of every number, with the memo and without, and their ratios."""
    runs: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for _ in range(options.repeat):
        for off in (False, True):  # in turn, so that both see the same noise
            command = [sys.executable, __file__, "--one", name, "--size", str(options.size)]
            command += ["--calls", str(options.calls), *["--off"] * off, *["--search"] * options.search]
            runs[off].append(json.loads(subprocess.check_output(command)))
    print(f"{name} ({options.repeat} repeats)")
    found: dict[str, str | int] = {"N": len(cases(options.size, 1)[name][1])}
    for key, unit in UNITS.items():
        if key in runs[False][0]:
            with_memo, without = ([run[key] for run in runs[off]] for off in (False, True))
            shown = []
            for name_of, summary in (("least", min), ("median", statistics.median)):
                a, b = summary(with_memo), summary(without)
                shown.append(f"{name_of} {a:9.4g} / {b:9.4g} {unit:4} {a / max(b, 1e-12):5.2f}")
            print(f"    {WHAT[key]:16} {'   '.join(shown)}")
            if key in COLUMNS:
                scale, unit = (1e3, "ms") if key == "single" else (1.0, unit)
                low, middle = (
                    " / ".join(f"{scale * summary(part):.3g}" for part in (with_memo, without))
                    for summary in (min, statistics.median)
                )
                found[COLUMNS[key]] = f"{low} {unit}" + (f" ({middle})" if key == "whole" else "")
    return found


if __name__ == "__main__":
    main()
