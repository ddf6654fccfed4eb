"""Results of comparisons on disk, so that an interrupted comparison goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import joblib

from mercer._comparison.evaluation import Contender, Fold, Task
from mercer._version import __version__
from mercer.data.channels import is_wrapped
from mercer.data.sequences import Sequences


class FoldCache:
    """Folds that were done, in one file of JSON lines per task.

    Parameters
    ----------
    folder : Path or None
        Where the files are. If None, nothing is kept.
    folds, seed : int
        Outer folds.
    fresh : bool
        Whether earlier results are not used; new ones are kept all the same, and replace them.
    """

    def __init__(self, folder: Path | None, folds: int, seed: int, *, fresh: bool = False) -> None:
        self.folder, self.fresh = folder, fresh
        self.folds_and_seed = folds, seed
        self.found = 0
        """Number of folds that came from earlier runs."""
        self._names: dict[int, str] = {}

    def folds(self, task: Task, contender: Contender) -> dict[int, Fold]:
        """Return the folds of a contender that were done before."""
        if self.fresh:
            return {}
        key = _key(contender)
        done = {}
        for line in self._lines(task):
            if line.get("contender") == key:
                with suppress(TypeError, KeyError):  # a line of another version
                    fold = Fold(**line["fold"])
                    done[fold.number] = fold
        self.found += len(done)
        return done

    def add(self, task: Task, contender: Contender, fold: Fold) -> None:
        """Keep one fold; a folder that cannot be written keeps nothing."""
        if self.folder is None:
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._path(task).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"contender": _key(contender), "fold": asdict(fold)}) + "\n")

    def _lines(self, task: Task) -> Iterator[dict[str, Any]]:
        if self.folder is None:
            return
        try:
            text = self._path(task).read_text(encoding="utf-8")
        except OSError:
            return
        for line in text.splitlines():
            with suppress(ValueError):  # the last line of a run that was killed
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found

    def _path(self, task: Task) -> Path:
        assert self.folder is not None
        if id(task) not in self._names:
            data = (_content(task.X), task.y, task.groups, task.weights, self.folds_and_seed, __version__)
            self._names[id(task)] = str(joblib.hash(data))
        return self.folder / f"{self._names[id(task)]}.jsonl"


def _content(X: Any) -> Any:
    """Return what the data are, without frozensets such as those of an alphabet: a new process orders them anew."""
    if is_wrapped(X):
        return _content(X.objects), X.confounds
    return X.digests() if isinstance(X, Sequences) else X


def _key(contender: Contender) -> str:
    parameters = {name: repr(value) for name, value in contender.estimator.get_params().items()}
    return str(joblib.hash((contender.name, sorted(parameters.items()), repr(sorted(contender.grid.items())))))


def default_folder() -> Path:
    """Return the folder of the user's cache in which results are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "mercer" / "compare"
