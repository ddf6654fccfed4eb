"""Shared code of the loaders of sequences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from mercer._parameters import check, one_of
from mercer.data import Records
from mercer.data.sequences import Sequences
from mercer.datasets._fetch import data_path


def bunch(data: Sequences, labels: Any, description: str, **more: Any) -> Bunch:
    """Return a Bunch of sequences, integer classes and further arrays with one entry per sequence."""
    names, target = np.unique(labels, return_inverse=True)
    more = {name: np.asarray(value) for name, value in more.items()}
    return Bunch(data=data, target=target, target_names=names.astype(str).tolist(), **more, DESCR=description)


def two_parts(
    folder: str, files: dict[str, str], read: Callable[[Path], Records], subset: str, description: str
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
    return bunch(data, np.concatenate([part.y for part in parts if part.y is not None]), description, split=split)
