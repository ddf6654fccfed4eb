"""Shared code of the loaders of sequences."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from mercer._parameters import check, one_of
from mercer.data import Records
from mercer.data.sequences import Sequences
from mercer.datasets._fetch import data_path
from mercer.datasets.sources import SOURCES, TERMS


def describe(loader: Callable[..., Bunch], folder: str) -> str:
    """Return what the documentation of a loader says before its sections, the license, the citation and the source."""
    about = re.split(r"\n\n\w+\n-{4}", inspect.getdoc(loader) or "")[0]
    source = next(source for (name, _), source in SOURCES.items() if name == folder)
    terms = f"License: {TERMS[folder].license}. Cite: {TERMS[folder].citation}."
    return f"{folder}: {about.removeprefix('Load ')}\n\n{terms}\nSource: {source.url or source.origin}\n"


def bunch(data: Sequences, labels: Any, loader: Callable[..., Bunch], folder: str, **more: Any) -> Bunch:
    """Return a Bunch of sequences, integer classes and further arrays with one entry per sequence."""
    names, target = np.unique(labels, return_inverse=True)
    more = {name: np.asarray(value) for name, value in more.items()}
    return Bunch(
        data=data, target=target, target_names=names.astype(str).tolist(), **more, DESCR=describe(loader, folder)
    )


def two_parts(
    folder: str, files: dict[str, str], read: Callable[[Path], Records], subset: str, loader: Callable[..., Bunch]
) -> Bunch:
    """Read the training and test files of a data set; ids consist of the part and the number within the file."""
    check(one_of("all", "train", "test"), subset=subset)
    wanted = [part for part in files if subset in ("all", part)]
    if not wanted:
        raise ValueError(f"subset of {folder} must be one of 'all', {', '.join(map(repr, files))}; got {subset!r}.")
    parts = [read(data_path(folder, files[part])) for part in wanted]
    split = np.repeat(wanted, [len(part.X) for part in parts])
    ids = [f"{part}-{i + 1}" for part, read_ in zip(wanted, parts, strict=True) for i in range(len(read_.X))]
    data = Sequences(Sequences.concat([part.X for part in parts]), ids=ids)
    return bunch(data, np.concatenate([part.y for part in parts if part.y is not None]), loader, folder, split=split)
