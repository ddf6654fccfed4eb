"""Contenders in processes of their own, so that one that fails, hangs or takes too long does not stop the others.

Folds that are done are kept on disk, so that an interrupted comparison goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import joblib

from mercer._comparison.evaluation import Contender, Fold, Task, evaluate_fold
from mercer._comparison.results import Result
from mercer._sizes import duration
from mercer._version import __version__
from mercer.data.channels import is_wrapped
from mercer.data.sequences import Sequences

Report = Callable[[str, str, int], None]
"""Callback after every step, with the task, the contender and the number of finished folds."""


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
    """Return the content of data without frozensets (of alphabets), whose order differs between processes."""
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


OUT_OF_MEMORY = "was skipped: out of memory"


class _Worker:
    """A process that evaluates one contender after the other; it is replaced when it had to be stopped."""

    def __init__(self) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> str:
        """Stop the process, and return how it ended."""
        self.process.join(0.1)
        ended = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return "killed" if ended is None else f"signal {-ended}" if ended < 0 else f"exit code {ended}"


@dataclass
class _Run:
    """A contender at work."""

    task: str
    contender: Contender
    worker: _Worker
    deadline: float
    seconds: float
    """What it was given."""
    folds: list[Fold]
    failure: str = ""
    cure: str = ""
    is_late: bool = False


@dataclass
class Comparison:
    """All contenders on all tasks.

    Parameters
    ----------
    tasks : dict
        Tasks by name.
    folds, seed : int
        Outer folds.
    budget : float
        Seconds for everything. A contender may use up to twice its share of what is left; one that needs more goes on
        after the others, if there is time left.
    jobs : int
        How many contenders run at the same time.
    cache : FoldCache
        Folds of earlier runs, to which the new ones are added.
    report : callable
        Called after every step.
    """

    tasks: dict[str, Task]
    folds: int
    seed: int
    budget: float
    jobs: int
    cache: FoldCache
    report: Report
    interrupted: bool = False
    results: list[Result] = field(default_factory=list)
    _idle: list[_Worker] = field(default_factory=list)
    _running: list[_Run] = field(default_factory=list)
    _late: dict[tuple[str, str], list[Fold]] = field(default_factory=dict)
    """Folds of contenders that go on after the others."""

    def run(self) -> list[Result]:
        """Run the contenders; after Ctrl-C, return what is done."""
        waiting = [(name, contender) for name, task in self.tasks.items() for contender in task.contenders]
        order = {(name, contender.name): i for i, (name, contender) in enumerate(waiting)}
        running = self._running
        end = time.monotonic() + self.budget
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    self._start(*waiting.pop(0), end, len(waiting))
                self._listen(running)
                for run in [run for run in running if self._ended(run)]:
                    running.remove(run)
                    key = run.task, run.contender.name
                    if run.is_late and key not in self._late and time.monotonic() < end and (waiting or running):
                        self._late[key] = run.folds
                        waiting.append((run.task, run.contender))
                        run.worker.stop()
                    else:
                        self._close(run)
        except KeyboardInterrupt:
            self.interrupted = True
            for run in running:
                run.failure = "was interrupted"
                self._close(run)
        finally:
            for worker in (*self._idle, *(run.worker for run in running)):
                worker.stop()
        self.results.sort(key=lambda result: order[result.task, result.contender.name])
        return self.results

    def _start(self, name: str, contender: Contender, end: float, others: int) -> None:
        """Start a contender, unless all its folds are known or no time is left."""
        task = self.tasks[name]
        done = {fold.number: fold for fold in self._late.get((name, contender.name), ())} or self.cache.folds(
            task, contender
        )
        left = end - time.monotonic()
        missing = [fold for fold in range(self.folds) if fold not in done]
        if missing and left <= 0:
            failure = f"was not tried, because the budget of {duration(self.budget)} was used up"
            self.results.append(Result(name, contender, [], failure, "increase --budget"))
        elif not missing:
            self.results.append(Result(name, contender, [done[fold] for fold in range(self.folds)]))
        else:
            seconds = left * min(1.0, 2 * self.jobs / (others + 1 + self.jobs))
            worker = self._idle.pop() if self._idle else _Worker()
            with suppress(OSError):  # a process that has ended is found when it is listened to
                worker.pipe.send((task.data_only(), contender, missing, self.folds, self.seed))
            run = _Run(name, contender, worker, time.monotonic() + seconds, seconds, list(done.values()))
            self._running.append(run)  # before the report, in which Ctrl-C may come
        self.report(name, contender.name, len(done) if missing and left > 0 else self.folds)

    def _listen(self, running: list[_Run]) -> None:
        """Wait for an answer or a deadline."""
        if not running:
            return
        first = min(run.deadline for run in running)
        answering = wait([run.worker.pipe for run in running], timeout=max(0.0, first - time.monotonic()))
        for run in running:
            if run.worker.pipe in answering:
                try:
                    answer = run.worker.pipe.recv()
                except (EOFError, OSError):
                    answer = f"was skipped: its process ended ({run.worker.stop()})"
                if isinstance(answer, Fold):
                    run.folds.append(answer)
                    self.cache.add(self.tasks[run.task], run.contender, answer)
                    self.report(run.task, run.contender.name, len(run.folds))
                else:
                    run.failure = answer
                    run.cure = "decrease --limit" if answer == OUT_OF_MEMORY else ""

    def _ended(self, run: _Run) -> bool:
        """Whether a contender is done, in failure or too late."""
        if time.monotonic() >= run.deadline and not run.failure and len(run.folds) < self.folds:
            run.is_late = True
            run.failure = f"was stopped after {duration(run.seconds)}, with {len(run.folds)} of {self.folds} folds done"
            run.cure = "increase --budget, or decrease --limit"
        return bool(run.failure) or len(run.folds) == self.folds

    def _close(self, run: _Run) -> None:
        if run.failure:  # the process may still be at work, or have ended
            run.worker.stop()
        else:
            self._idle.append(run.worker)
        run.folds.sort(key=lambda fold: fold.number)
        self.results.append(Result(run.task, run.contender, run.folds, run.failure, run.cure))
        self.report(run.task, run.contender.name, self.folds)


# A process that is started from a clean one, which has imported everything, begins at once and shares no lock.
_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_CONTEXT: Any = multiprocessing.get_context(_METHOD)
if _METHOD == "forkserver":
    _CONTEXT.set_forkserver_preload(["mercer._comparison.recipes"])


def _work(pipe: Connection) -> None:
    """Comparison in a process: send the folds of each contender that comes, or one sentence that says what is wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one decides
    warnings.simplefilter("ignore")  # in its own process: models that do not converge go on
    while True:
        try:
            task, contender, missing, folds, seed = pipe.recv()
            for fold in missing:
                pipe.send(evaluate_fold(task, contender, fold, folds, seed))
        except (EOFError, BrokenPipeError):  # the first process has ended
            return
        except MemoryError:
            pipe.send(OUT_OF_MEMORY)
        except Exception as error:  # whatever a contender raises is its own failure
            text = str(error) or type(error).__name__
            refused = isinstance(error, (TypeError, ValueError))  # a property of the data, not an event
            how = "does not apply to these data" if refused else f"was skipped: {type(error).__name__}"
            pipe.send(f"{how}: {text}")
