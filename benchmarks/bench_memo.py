"""The cost of the memo of pairs: one ``fit_transform``, then ``transform`` of single rows, with the memo and without.

    python benchmarks/bench_memo.py [--size 5000] [--calls 10] [--only RBF]

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
import time

import numpy as np

import mercer as mc
from mercer.gram.pair_memo import memo


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
    """Time one ``fit_transform`` and single rows, after a small run that compiles and imports."""
    kernel, train, new = cases(n, calls)[name]
    kernel.fit_transform(train[:20])
    kernel.transform(new[:1])
    memo.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    kernel.fit_transform(train)
    whole = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    single = []
    for i in range(1, calls + 1):
        start = time.perf_counter()
        kernel.transform(new[i : i + 1])
        single.append(time.perf_counter() - start)
    return {"whole": whole, "peak": peak / 1024, "first": single[0], "single": statistics.median(single[1:])}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=5000)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--off", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with mc.config(n_jobs=1, **({"memo_bytes": 0} if options.off else {})):
            print(json.dumps(measure(options.one, options.size, options.calls)))
        return
    print(f"{'':32} fit_transform   peak     first row  others    (with the memo, without, ratio)")
    for name in cases(20, 1):
        if options.only not in name:
            continue
        found = []
        for off in (False, True):
            command = [sys.executable, __file__, "--one", name, "--size", str(options.size)]
            command += ["--calls", str(options.calls), *(["--off"] if off else [])]
            runs = [json.loads(subprocess.check_output(command)) for _ in range(options.repeat)]
            found.append({key: min(run[key] for run in runs) for key in runs[0]})
        for label, one in zip(("memo", "off"), found, strict=True):
            numbers = f"{one['whole']:9.2f} s {one['peak']:9.0f} MiB {1e3 * one['first']:8.1f} ms"
            print(f"{name:28} {label:4} {numbers} {1e3 * one['single']:8.1f} ms", flush=True)
        ratios = [found[0][key] / max(found[1][key], 1e-9) for key in ("whole", "peak", "first", "single")]
        print(f"{name:28} {'':4} {ratios[0]:9.2f}   {ratios[1]:9.2f}     {ratios[2]:8.2f}    {ratios[3]:8.2f}")


if __name__ == "__main__":
    main()
