"""The task in a file of sequences: how it is read, and who races on symbols and on vectors."""

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
from mercer.data._text import Records
from mercer.data.fasta import read_fasta
from mercer.data.sequences import Sequences
from mercer.data.timeseries import read_ts, read_ucr
from mercer.data.transformers import Derivatives, PerStep
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.fisher import Fisher
from mercer.kernels.meanmap import MeanMap
from mercer.kernels.probabilityproduct import ProbabilityProduct
from mercer.kernels.spectrum import Spectrum
from mercer.models.hmm_estimator import HMM
from mercer.models.markov_estimator import MarkovChain

FASTA = (".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn", ".fas")
TABLES = (".tsv", ".csv", ".txt")
CELLS = 5e9
"""Pairs of symbols up to which alignments race: some ten seconds on a core for each of their two settings."""


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
    """Read labelled sequences, and say who races on them.

    Parameters
    ----------
    path : Path
        A FASTA file, a ``.ts`` file or a UCR table; its name says which.
    labels, groups : str, optional
        How label and group are found in the header lines of a FASTA file: a field number, or a regular expression.
    alphabet : str, optional
        Of a FASTA file; found in it by default.
    limit : int
        Take at most so many sequences, at random.
    folds : int
        Outer folds, for which every class must have members enough.
    seed : int
        Of that choice.
    """
    records, grouping, reading = _read(path, labels, groups, alphabet)
    if records.y is None or records.y.dtype.kind == "f":
        raise ValueError(f"{path} has no classes, which a race needs: write @classLabel true and the classes")
    X, y, group = _some(records.X, records.y, grouping, limit, seed)
    _check_classes(y, group, folds, records.y)
    whole = f"{len(X)} of {len(records.X)}" if len(X) < len(records.X) else str(len(X))
    kind = f"strings of {X.alphabet.describe()}" if X.alphabet is not None else f"series of dimension {X.dimension}"
    few, many = X.lengths.min(), X.lengths.max()
    about = f"{whole} {kind}, length {few if few == many else f'{few} to {many}'}, {len(np.unique(y))} classes"
    if group is not None:
        about += f", {len(np.unique(group))} groups that stay in one fold"
    if X.is_symbols and not _can_be_aligned(X):
        about += "; too long for kernels that align every pair: lower --limit, or use mc.AffinePairHMM in code"
    return Task(about, X, y, contenders(X, seed), group, reading)


def contenders(X: Sequences, seed: int = 0) -> list[Contender]:
    """Return who races on these sequences: what knows little, plain features, kernels."""
    blind = [majority()] + ([only_length("length alone")] if len(set(X.lengths)) > 1 else [])
    return blind + (_on_symbols(X, seed) if X.is_symbols else _on_vectors(X, seed))


def _can_be_aligned(X: Sequences) -> bool:
    return float(X.lengths.sum()) ** 2 / 2 <= CELLS


def _on_symbols(X: Sequences, seed: int) -> list[Contender]:
    assert X.alphabet is not None
    hmm = _hmm(seed)
    of_pairs = [aligned(X.alphabet)] if _can_be_aligned(X) else []
    if len(set(X.lengths)) == 1:
        of_pairs.append(same_path(hmm))
    return [
        logistic("logistic regression on shares", shares(), StandardScaler()),
        with_svm("Spectrum", Spectrum(3, on_zero="zero"), k=(2, 3, 4, 5)),
        with_svm("Fisher, Markov chain", Fisher(MarkovChain(2), on_zero="zero"), model__order=(1, 2)),
        with_svm("Fisher, HMM", Fisher(hmm)),
        with_svm("ProbabilityProduct, Markov chain", ProbabilityProduct(MarkovChain(1), length=10), length=(5, 20)),
        with_svm("ProbabilityProduct, HMM", ProbabilityProduct(hmm, length=10), length=(5, 20)),
        *of_pairs,
    ]


def _on_vectors(X: Sequences, seed: int) -> list[Contender]:
    hmm = _hmm(seed)
    steps = Derivatives(), PerStep(StandardScaler())
    with_or_without: dict[str, Any] = {"derivatives": (Derivatives(), "passthrough")}
    near = 0.1 / (X.dimension or 1)  # of standardised values: two of them are 2 d apart, squared
    gammas = (near, 10 * near)
    return [
        rbf_svm("RBF SVM on means and spreads", means(spread=True)),
        with_svm(
            "ProbabilityProduct, HMM", *steps, ProbabilityProduct(hmm, length=10), length=(5, 20), **with_or_without
        ),
        with_svm("MeanMap, HMM", *steps, MeanMap(hmm, gamma=near, length=10), gamma=gammas, **with_or_without),
        with_svm("Fisher, HMM", *steps, Fisher(hmm), **with_or_without),
        with_svm("EmpiricalMeanMap", *steps, EmpiricalMeanMap(gamma=near), gamma=gammas, **with_or_without),
    ]


def _hmm(seed: int) -> HMM:
    """Return a small model that is quick to fit: a race is a first look."""
    return HMM(n_states=3, n_iter=30, n_init=1, random_state=seed)


def _read(path: Path, labels: str | None, groups: str | None, alphabet: str | None) -> tuple[Records, Any, str]:
    """Read a file by its name; returns the records, a group for each or None, and the code that reads them."""
    suffix = next((s.lower() for s in reversed(path.suffixes) if s.lower() != ".gz"), "")
    if suffix in FASTA:
        return _read_fasta(path, labels, groups, alphabet)
    known = ", ".join((*FASTA, ".ts", *TABLES))
    if suffix != ".ts" and _begins_like_fasta(path):
        raise ValueError(f"{path} looks like FASTA, which its name does not say: rename it to end in .fasta")
    if suffix not in (".ts", *TABLES):
        raise ValueError(f"{path} has the ending {suffix!r}, which does not say what it is: give it one of {known}")
    wrong = [name for name, value in (("--labels", labels), ("--groups", groups), ("--alphabet", alphabet)) if value]
    if wrong:
        raise ValueError(f"{wrong[0]} is for FASTA files, whose names end in {', '.join(FASTA)}: leave it out")
    if suffix == ".ts":
        return read_ts(path), None, f"X, y = mc.read_ts({str(path)!r})\n"
    return read_ucr(path), None, f"X, y = mc.read_ucr({str(path)!r})\n"


def _begins_like_fasta(path: Path) -> bool:
    """Whether the first character of a file, plain or gzipped, is that of a header line."""
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
            f"{path} needs --labels to find the class in every header line: a field number, counted from 0 where "
            "| and blanks separate fields, or a regular expression with one group"
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


def _some(X: Sequences, y: Any, groups: Any, limit: int, seed: int) -> tuple[Sequences, Any, Any]:
    if len(X) <= limit:
        return X, y, groups
    some = np.sort(np.random.default_rng(seed).permutation(len(X))[:limit])
    return X[some], y[some], None if groups is None else groups[some]


def _too_few(members: int, folds: int) -> bool:
    return members < folds or members - -(-members // folds) < INNER_FOLDS


def _check_classes(y: Any, groups: Any, folds: int, whole: Any) -> None:
    """Raise where the classes chosen from the ``whole`` file cannot be cut into folds."""
    if len(np.unique(whole)) == len(whole) > 2:
        raise ValueError(
            f"there are {len(whole)} classes for {len(whole)} sequences, all different: is --labels the right field?"
        )
    names, counts = np.unique(y, return_counts=True)
    if len(names) < 2:
        cure = "raise --limit" if len(np.unique(whole)) > 1 else "so look at --labels"
        raise ValueError(f"there is one class, {str(names[0])!r}: a race needs two, {cure}")
    i = int(np.argmin(counts))
    if _too_few(int(counts[i]), folds):
        enough = not _too_few(int(np.sum(whole == names[i])), folds)
        raise ValueError(
            f"class {str(names[i])!r} has {counts[i]} members, too few for {folds} folds with {INNER_FOLDS} inside: "
            + ("raise --limit" if enough else "leave it out, give more data, or lower --folds")
        )
    if groups is not None and len(np.unique(groups)) < max(folds, INNER_FOLDS + 1):
        raise ValueError(f"there are {len(np.unique(groups))} groups, too few for {folds} folds: look at --groups")
