"""The user's data as a task: checked, described, with the contenders for it, and what new data must have."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from mercer._comparison.checks import check_targets
from mercer._comparison.evaluation import INNER_FOLDS, Score, Task, too_few
from mercer._comparison.recipes import ContenderFactory, can_be_aligned, contenders
from mercer.cli._confounds import categories_of
from mercer.cli._data_options import Reading
from mercer.cli._readers import LEAK, Read, describe, read
from mercer.data.sequences import Sequences
from mercer.data.text import Records


@dataclass(frozen=True)
class Known:
    """Properties of the training data, so that new data are read in the same way."""

    reader: str = ""
    """"fasta", "table", "ts", "ucr" or "svmlight"."""
    is_folder: bool = False
    """Whether there was one file per recording."""
    columns: dict[str, list[str]] = field(default_factory=dict)
    """Columns of a table by their role."""
    words: list[str] | None = None
    """Words that are counted in documents, or the number of features of svmlight's format."""
    alphabet: dict[str, Any] | None = None
    """Alphabet of strings, as `Alphabet.to_header` writes it: that of the new strings may look different."""
    step: float | None = None
    """Time between two steps, if it is regular."""
    length: int | None = None
    """Length of all series, if it is the same."""
    categories: dict[str, list[str]] = field(default_factory=dict)
    """Categories of the columns of confounds that are text."""

    @classmethod
    def of(cls, path: Path, reader: str, records: Records) -> Known:
        """Return the properties of these records."""
        X, is_folder, categories = records.X, not path.is_file(), categories_of(records)
        if not isinstance(X, Sequences):
            words = list(records.channels) or [str(X.shape[1])]
            return cls(reader, is_folder, records.columns, words, categories=categories)
        alphabet = None if X.alphabet is None else X.alphabet.to_header()
        lengths = np.unique(X.lengths)
        length = int(lengths[0]) if len(lengths) == 1 and alphabet is None else None
        return cls(reader, is_folder, records.columns, None, alphabet, records.step, length, categories)

    @classmethod
    def from_file(cls, saved: Any) -> Known:
        """Return the properties of the training data of a saved model."""
        given = saved if isinstance(saved, dict) else {}
        return cls(**{one.name: given[one.name] for one in fields(cls) if one.name in given})


def task_of(path: Path, reading: Reading, *, limit: int, folds: int, seed: int) -> Task:
    """Read samples with their labels or targets and choose the contenders.

    Parameters
    ----------
    path : Path
        A file, recognized by its extension, or a folder.
    reading : Reading
        How to read it.
    limit : int
        Maximum number of samples, drawn at random.
    folds : int
        Number of outer folds; every class must have enough members.
    seed : int
        Seed of the random draw.
    """
    found = read(path, reading)
    records = found.records
    if records.y is None:
        raise ValueError(f"{path} has neither classes nor targets; pass --label or --target to say where they are.")
    chosen = _subset(len(records.y), limit, seed)
    X, y = records.X[chosen], records.y[chosen]
    groups = None if records.groups is None else records.groups[chosen]
    weights = records.covariates[reading.weight][chosen] if reading.weight else None
    if weights is not None and ((weights < 0).any() or not weights.any()):
        raise ValueError(
            f"Weights must not be negative nor all zero; the least one of {reading.weight!r} is {weights.min():g}."
        )
    regression = y.dtype.kind == "f"
    if regression:
        check_targets(y, folds)
    else:
        _check_classes(y, folds, records.y)
    _check_groups(groups, folds)
    data = found.data[chosen]
    made = Task(
        _about(found, X, y, groups, cures=True),
        data,
        y,
        contenders(data, ContenderFactory(regression, bool(reading.confounds), weights is not None), seed),
        groups,
        weights,
        reading=found.code,
        known=Known.of(path, found.reader, records),
        arguments=reading.arguments(path),
        warnings=found.warnings,
        ids=tuple(found.ids[i] for i in chosen),
        left_out=len(records.y) - len(y),
        shared=_about(found, X, y, groups, cures=False),
    )
    if regression and made.is_confounded:
        _check_rest(made)
    return made


def _subset(n: int, limit: int, seed: int) -> Any:
    """Return the samples that are used, in their order."""
    return np.arange(n) if n <= limit else np.sort(np.random.default_rng(seed).permutation(n)[:limit])


def _about(found: Read, X: Any, y: Any, groups: Any, *, cures: bool) -> str:
    """Return a description of the data, with or without the options that would change it."""
    about = f"targets {y.min():.4g} to {y.max():.4g}" if y.dtype.kind == "f" else f"{len(np.unique(y))} classes"
    if groups is not None:
        about += f", {len(np.unique(groups))} groups that stay in one fold"
    long = ""
    if isinstance(X, Sequences) and X.is_symbols and not can_be_aligned(X):
        long = "too long for alignment kernels"
        long += " (decrease --limit, or use mc.AffinePairHMM in code)" if cures else ""
    clauses = describe(X, len(found.ids)), about, long, found.taken_for(LEAK, cures=cures), found.skipped
    return "; ".join(clause for clause in clauses if clause)


def _check_rest(task: Task) -> None:
    """Raise if the confounds explain the targets, so that nothing is left to predict."""
    everything = np.arange(len(task.y))
    rest = Score.learned(task, everything).unexplained(task.X, task.y)
    if np.std(rest) <= 1e-9 * np.std(task.y):
        raise ValueError(
            "The confounds explain the targets completely; there is nothing to predict. Check --confounds."
        )


def _check_classes(y: Any, folds: int, whole: Any) -> None:
    """Raise if the classes of the subset of the ``whole`` file are too few or too small for the folds."""
    if len(np.unique(whole)) == len(whole) > 2:
        raise ValueError(
            f"Each of the {len(whole)} samples has a different class; check that --label selects the right field, or "
            "pass --target if these are numbers to predict."
        )
    names, counts = np.unique(y, return_counts=True)
    if len(names) < 2:
        cure = "Increase --limit." if len(np.unique(whole)) > 1 else "Check --label."
        raise ValueError(f"At least two classes are required; got only {str(names[0])!r}. {cure}")
    i = int(np.argmin(counts))
    if too_few(int(counts[i]), folds):
        enough = not too_few(int(np.sum(whole == names[i])), folds)
        members = "1 member" if counts[i] == 1 else f"{counts[i]} members"
        raise ValueError(
            f"Class {str(names[i])!r} has {members}, too few for {folds} outer, {INNER_FOLDS} inner folds; "
            + ("increase --limit." if enough else "drop the class, add data, or decrease --folds.")
        )


def _check_groups(groups: Any, folds: int) -> None:
    if groups is not None and len(np.unique(groups)) < max(folds, INNER_FOLDS + 1):
        raise ValueError(
            f"{len(np.unique(groups))} groups are too few for {folds} folds; check --group, or decrease --folds."
        )
