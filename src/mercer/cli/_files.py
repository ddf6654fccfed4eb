"""Tasks on a file of sequences, and the contenders for symbols and for vectors."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from mercer.cli._contenders import (
    aligned,
    logistic,
    majority,
    means,
    only_length,
    rbf_svm,
    same_path,
    shares,
    with_svm,
)
from mercer.cli._race import INNER_FOLDS, Contender, Task
from mercer.data import Records
from mercer.data.fasta import read_fasta
from mercer.data.resample import Resample
from mercer.data.sequences import Sequences
from mercer.data.standardize import Clock, Standardize
from mercer.data.timeseries import read_ts, read_ucr
from mercer.data.transformers import Derivatives
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.fisher import Fisher
from mercer.kernels.fisherensemble import FisherEnsemble
from mercer.kernels.meanmap import MeanMap
from mercer.kernels.probabilityproduct import ProbabilityProduct
from mercer.kernels.spectrum import Spectrum
from mercer.models.hmm_estimator import HMM
from mercer.models.markov_estimator import MarkovChain

FASTA = (".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn", ".fas")
TABLES = (".tsv", ".csv", ".txt")
CELLS = 5e9
"""Maximum number of symbol pairs for alignment kernels: about ten seconds on a core for each of two settings."""


def file_task(
    path: Path,
    *,
    labels: str | None = None,
    groups: str | None = None,
    alphabet: str | None = None,
    limit: int = 300,
    folds: int = 5,
    seed: int = 0,
) -> Task:
    """Read labeled sequences and choose the contenders.

    Parameters
    ----------
    path : Path
        A FASTA file, a ``.ts`` file or a UCR table, recognized by its extension.
    labels, groups : str, optional
        How to extract labels and groups from the header lines of a FASTA file: a field number or a regular expression.
    alphabet : str, optional
        Alphabet of a FASTA file; by default inferred from it.
    limit : int
        Maximum number of sequences, drawn at random.
    folds : int
        Number of outer folds; every class must have enough members.
    seed : int
        Seed of the random draw.
    """
    records, grouping, reading = _read(path, labels, groups, alphabet)
    if records.y is None or records.y.dtype.kind == "f":
        raise ValueError(
            f"{path} has no classes, which the comparison requires; write @classLabel true and the classes."
        )
    X, y, group = _subset(records.X, records.y, grouping, limit, seed)
    _check_classes(y, group, folds, records.y)
    size = f"{len(X)} of {len(records.X)}" if len(X) < len(records.X) else str(len(X))
    kind = f"strings of {X.alphabet.describe()}" if X.alphabet is not None else f"series of dimension {X.dimension}"
    few, many = X.lengths.min(), X.lengths.max()
    about = f"{size} {kind}, length {few if few == many else f'{few} to {many}'}, {len(np.unique(y))} classes"
    if group is not None:
        about += f", {len(np.unique(group))} groups that stay in one fold"
    if X.is_symbols and not _can_be_aligned(X):
        about += "; too long for alignment kernels (decrease --limit, or use mc.AffinePairHMM in code)"
    return Task(about, X, y, contenders(X, seed), group, reading)


def contenders(X: Sequences, seed: int = 0) -> list[Contender]:
    """Return the contenders for these sequences: trivial baselines, plain features and kernels."""
    trivial = [majority()] + ([only_length("length only")] if len(set(X.lengths)) > 1 else [])
    return trivial + (_on_symbols(X, seed) if X.is_symbols else _on_vectors(X, seed))


def _can_be_aligned(X: Sequences) -> bool:
    return float(X.lengths.sum()) ** 2 / 2 <= CELLS


def _on_symbols(X: Sequences, seed: int) -> list[Contender]:
    assert X.alphabet is not None
    hmm = _hmm(seed)
    alignments = [aligned(X.alphabet)] if _can_be_aligned(X) else []
    if len(set(X.lengths)) == 1:
        alignments.append(same_path(hmm))
    return [
        logistic("logistic regression on frequencies", shares(), StandardScaler()),
        with_svm("Spectrum", Spectrum(3, on_zero="zero"), k=(2, 3, 4, 5)),
        with_svm("Fisher, Markov chain", Fisher(MarkovChain(2), on_zero="zero"), model__order=(1, 2)),
        with_svm("Fisher, HMM", Fisher(hmm)),
        with_svm("ProbabilityProduct, Markov chain", ProbabilityProduct(MarkovChain(1), length=10), length=(5, 20)),
        with_svm("ProbabilityProduct, HMM", ProbabilityProduct(hmm, length=10), length=(5, 20)),
        *alignments,
    ]


def _on_vectors(X: Sequences, seed: int) -> list[Contender]:
    hmm = _hmm(seed)
    steps = Derivatives(), Standardize()
    with_or_without: dict[str, Any] = {"derivatives": (Derivatives(), "passthrough")}
    near = 0.1 / (X.dimension or 1)  # the mean squared distance of standardized vectors is 2 d
    gammas = (near, 10 * near)
    return [
        rbf_svm("RBF SVM on means and spreads", means(spread=True)),
        with_svm("FisherEnsemble", FisherEnsemble(random_state=seed)),
        with_svm(
            "EmpiricalMeanMap, clock",
            *(*steps, Resample(100), Clock(10.0), EmpiricalMeanMap(gamma=40 * near)),
            svc__C=(10.0, 100.0, 1000.0),
            gamma=(10 * near, 40 * near),
        ),
        with_svm(
            "ProbabilityProduct, HMM", *steps, ProbabilityProduct(hmm, length=10), length=(5, 20), **with_or_without
        ),
        with_svm("MeanMap, HMM", *steps, MeanMap(hmm, gamma=near, length=10), gamma=gammas, **with_or_without),
        with_svm("Fisher, HMM", *steps, Fisher(hmm), **with_or_without),
        with_svm("EmpiricalMeanMap", *steps, EmpiricalMeanMap(gamma=near), gamma=gammas, **with_or_without),
    ]


def _hmm(seed: int) -> HMM:
    """Return a small model that is fast to fit, for a first look."""
    return HMM(n_states=3, n_iter=30, n_init=1, random_state=seed)


def _read(path: Path, labels: str | None, groups: str | None, alphabet: str | None) -> tuple[Records, Any, str]:
    """Read a file by its extension; return the records, their groups or None, and the code that reads them."""
    suffix = next((s.lower() for s in reversed(path.suffixes) if s.lower() != ".gz"), "")
    if suffix in FASTA:
        return _read_fasta(path, labels, groups, alphabet)
    known = ", ".join((*FASTA, ".ts", *TABLES))
    if suffix != ".ts" and _begins_like_fasta(path):
        raise ValueError(f"{path} looks like FASTA, but has another extension; rename it to end in .fasta.")
    if suffix not in (".ts", *TABLES):
        raise ValueError(f"The extension of {path} must be one of {known}; got {suffix!r}. Rename the file.")
    invalid = [name for name, value in (("--labels", labels), ("--groups", groups), ("--alphabet", alphabet)) if value]
    if invalid:
        raise ValueError(f"{invalid[0]} applies to FASTA files only ({', '.join(FASTA)}); omit it.")
    if suffix == ".ts":
        return read_ts(path), None, f"X, y = mc.read_ts({str(path)!r})\n"
    return read_ucr(path), None, f"X, y = mc.read_ucr({str(path)!r})\n"


def _begins_like_fasta(path: Path) -> bool:
    """Whether a file, plain or gzipped, begins with a FASTA header."""
    try:
        with path.open("rb") as plain:
            start = plain.read(200)
        if start.startswith(b"\x1f\x8b"):
            with gzip.open(path) as packed:
                start = packed.read(200)
    except (OSError, EOFError, zlib.error):
        return False
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b">")


def _read_fasta(path: Path, labels: str | None, groups: str | None, alphabet: str | None) -> tuple[Records, Any, str]:
    if labels is None:
        raise ValueError(
            f"{path} requires --labels to find the class in the header lines; pass a field number, counted from 0, "
            "where | and white space separate fields, or a regular expression with one group."
        )
    options: dict[str, Any] = {"labels": _rule(labels)}
    options |= ({} if groups is None else {"groups": _rule(groups)}) | ({"alphabet": alphabet} if alphabet else {})
    records = read_fasta(path, duplicates="number", **options)
    if len({text.split()[0] for text in records.descriptions}) < len(records.X):
        options["duplicates"] = "number"
    shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
    reading = f"mc.read_fasta({str(path)!r}, {shown})\n"
    if groups is None:
        return records, None, f"X, y = {reading}"
    return records, records.groups, f"read = {reading}X, y, groups = read.X, read.y, read.groups  # for GroupKFold\n"


def _rule(text: str) -> str | int:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _subset(X: Sequences, y: Any, groups: Any, limit: int, seed: int) -> tuple[Sequences, Any, Any]:
    if len(X) <= limit:
        return X, y, groups
    chosen = np.sort(np.random.default_rng(seed).permutation(len(X))[:limit])
    return X[chosen], y[chosen], None if groups is None else groups[chosen]


def _too_few(members: int, folds: int) -> bool:
    return members < folds or members - -(-members // folds) < INNER_FOLDS


def _check_classes(y: Any, groups: Any, folds: int, whole: Any) -> None:
    """Raise if the classes of the subset of the ``whole`` file are too few or too small for the folds."""
    if len(np.unique(whole)) == len(whole) > 2:
        raise ValueError(
            f"Each of the {len(whole)} sequences has a different class; check that --labels selects the right field."
        )
    names, counts = np.unique(y, return_counts=True)
    if len(names) < 2:
        cure = "Increase --limit." if len(np.unique(whole)) > 1 else "Check --labels."
        raise ValueError(f"At least two classes are required; got only {str(names[0])!r}. {cure}")
    i = int(np.argmin(counts))
    if _too_few(int(counts[i]), folds):
        enough = not _too_few(int(np.sum(whole == names[i])), folds)
        raise ValueError(
            f"Class {str(names[i])!r} has {counts[i]} members, too few for {folds} outer, {INNER_FOLDS} inner folds; "
            + ("increase --limit." if enough else "drop the class, add data, or decrease --folds.")
        )
    if groups is not None and len(np.unique(groups)) < max(folds, INNER_FOLDS + 1):
        raise ValueError(
            f"{len(np.unique(groups))} groups are too few for {folds} folds; check --groups, or decrease --folds."
        )
