"""Nine first uses of the library, each from the user's file to a prediction in a new process, with their times.

Run: ``python benchmarks/first_uses.py`` (a few minutes; the first run compiles).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mercer.datasets import make_dna, make_families, make_hmm_sequences

COMMAND = [sys.executable, "-m", "mercer"]


def mercer(*arguments: str | Path) -> str:
    """Run the command in a new process; return its output."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mercer {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def fit_and_predict(source: Path, *options: str, kernel: str) -> str:
    """Fit, save, and predict in another process; return what the fit said of the score."""
    model = source.with_name(f"{source.name}.mercer")
    said = mercer("fit", source, *options, "--kernel", kernel, "-o", model)
    rows = mercer("predict", model, source).splitlines()
    score = next(line for line in said.splitlines() if " by cross-validation" in line)
    return f"{score.partition(' by cross-validation')[0]}; {len(rows) - 1} predictions"


def long_table(folder: Path) -> str:
    """Read a table with one row per time step."""
    X, y = make_hmm_sequences(60, n_features=2, n_classes=3, random_state=0)
    path = folder / "walks.csv"
    rows = [f"w{i},{t / 10},{a:.4f},{b:.4f},{'abc'[c]}" for i, (x, c) in enumerate(zip(X, y, strict=True))
            for t, (a, b) in enumerate(np.asarray(x))]  # fmt: skip
    path.write_text("\n".join(["walk,t,left,right,gait", *rows]))
    return fit_and_predict(path, "--id", "walk", "--time", "t", "--label", "gait", kernel="fisher-hmm")


def wide_table(folder: Path) -> str:
    """Read a table with one row per series."""
    X, y = make_hmm_sequences(60, length=40, n_features=1, random_state=0)
    path = folder / "wide.csv"
    rows = [",".join([*(f"{v:.4f}" for v in np.ravel(x)), str(c)]) for x, c in zip(X, y, strict=True)]
    path.write_text("\n".join([",".join([*(f"t{i}" for i in range(40)), "label"]), *rows]))
    return fit_and_predict(path, kernel="fisher-hmm")


def recordings(folder: Path) -> str:
    """Read a folder with one file per recording, and a sub-folder per class."""
    X, y = make_hmm_sequences(40, n_features=2, random_state=0)
    root = folder / "recordings"
    for i, (x, c) in enumerate(zip(X, y, strict=True)):
        (root / f"class{c}").mkdir(parents=True, exist_ok=True)
        lines = [f"{a:.4f},{b:.4f}" for a, b in np.asarray(x)]
        (root / f"class{c}" / f"r{i}.csv").write_text("\n".join(["left,right", *lines]))
    return fit_and_predict(root, kernel="fisher-hmm")


def parquet(folder: Path) -> str:
    """Read a Parquet file in long form."""
    import pandas

    frame = pandas.read_csv(folder / "walks.csv")
    frame.to_parquet(folder / "walks.parquet")
    return fit_and_predict(folder / "walks.parquet", "--id", "walk", "--label", "gait", kernel="fisher-hmm")


def regression(folder: Path) -> str:
    """Predict numbers: how fast an autoregression forgets."""
    rng = np.random.default_rng(0)
    rows = ["id,time,x,target"]
    for i in range(80):
        memory, value = rng.uniform(0.1, 0.95), 0.0
        for t in range(80):
            value = memory * value + np.sqrt(1 - memory**2) * rng.normal()
            rows.append(f"s{i},{t},{value:.4f},{memory:.4f}")
    path = folder / "memory.csv"
    path.write_text("\n".join(rows))
    return fit_and_predict(path, kernel="meanmap-hmm")


def genes(folder: Path) -> str:
    """Read a FASTA file, compared with baselines."""
    X, y = make_dna(60, n_classes=2, concentration=5.0, random_state=0)
    path = folder / "genes.fasta"
    path.write_text("".join(f">g{i}|class={'ab'[c]}\n{x}\n" for i, (x, c) in enumerate(zip(X, y, strict=True))))
    return mercer("compare", path, "--label", "class=(.)", "--folds", "3", "--quiet").strip().splitlines()[-1]


def proteins(folder: Path) -> str:
    """Classify proteins by alignment."""
    X, y = make_families(45, length=60, random_state=0)
    path = folder / "proteins.fasta"
    path.write_text("".join(f">p{i}|{c}\n{x}\n" for i, (x, c) in enumerate(zip(X, y, strict=True))))
    return fit_and_predict(path, "--label", "1", "--alphabet", "protein", kernel="marginalization-pair-hmm")


def brains(folder: Path) -> str:
    """Read recordings of people with families and a confound: a trait by kernel ridge regression, in Python."""
    code = (
        "import mercer as mc; from mercer.datasets import make_traits; "
        "from sklearn.model_selection import GroupKFold, cross_val_score; from sklearn.pipeline import make_pipeline; "
        "people = make_traits(60, random_state=0); "
        "X = mc.Confounded(people.data, people.confounds); "
        "model = make_pipeline(mc.Residualized(mc.Fisher(mc.HMM(3, random_state=0))), mc.KernelRidge()); "
        "print('R2 %.3f' % cross_val_score(model, X, people.target, cv=GroupKFold(5), groups=people.groups).mean())"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def research(folder: Path) -> str:
    """Compute a Gram matrix of a kernel that is written as code, and its diagnosis."""
    kernel = "ProbabilityProduct(MarkovChain(1), length=10)"
    said = mercer("gram", folder / "genes.fasta", "--kernel", kernel, "-o", folder / "gram.npz")
    return said.splitlines()[1].rpartition(" written")[0]


USES: dict[str, Callable[[Path], str]] = {
    "long CSV": long_table,
    "wide CSV": wide_table,
    "folder of recordings": recordings,
    "Parquet": parquet,
    "regression": regression,
    "FASTA, compared": genes,
    "proteins": proteins,
    "traits, confounds, families": brains,
    "Gram matrix": research,
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = name
        for use, run in USES.items():
            start = time.perf_counter()
            outcome = run(Path(name))
            print(f"{use:28s} {time.perf_counter() - start:6.1f} s  {outcome}", flush=True)
