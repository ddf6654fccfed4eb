"""The parts of a matrix on the workers of another library: Dask, or a backend of joblib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mercer._array import Floats
from mercer.gram._plan import Parts, Place

IN_FLIGHT = 4
"""Tasks per thread of the cluster that are computed or wait at a time."""
MOST_PARTS = 4
"""Parts of a task, at most. A task costs the scheduler and this process milliseconds, whatever it computes."""
TASKS = 8
"""Tasks per thread that the parts which are left are spread over: tasks become smaller, so that all workers end
together."""
ATTEMPTS = 3
"""Times that the models are sent again after all workers that held them were lost."""
WAIT_SECONDS = 30
"""Time until a cluster that does not answer is given up."""


def on_cluster(client: Any, parts: Parts, places: list[Place]) -> Iterator[tuple[Place, Floats]]:
    """Yield parts with their places, in the order in which they are completed.

    Parameters
    ----------
    client : dask.distributed.Client or str
        A client, the address of a scheduler, or "joblib".
    parts : Parts
        Sent to the workers once.
    places : list of tuple
        The parts to compute.
    """
    if isinstance(client, str) and client == "joblib":
        return _by_joblib(parts, places)
    if isinstance(client, str):
        return _by_address(client, parts, places)
    return _by_dask(client, parts, places)


def check_client(client: Any) -> None:
    """Raise, before anything is fitted, unless ``client`` is one that `on_cluster` takes."""
    like = isinstance(client, str) or all(hasattr(client, name) for name in ("submit", "scatter"))
    if isinstance(client, type) or not like or client == "":
        raise TypeError(
            f"client must be a dask.distributed.Client, the address of a Dask scheduler, or 'joblib'; got {client!r}."
        )


def _evaluated(parts: Parts, place: Place) -> tuple[Place, Floats]:
    return place, parts(place)


def _task(parts: Parts, places: list[Place]) -> list[Floats]:
    return [parts(place) for place in places]


def _by_joblib(parts: Parts, places: list[Place]) -> Iterator[tuple[Place, Floats]]:
    from joblib import Parallel, delayed

    yield from Parallel(return_as="generator")(delayed(_evaluated)(parts, place) for place in places)


def _by_address(address: str, parts: Parts, places: list[Place]) -> Iterator[tuple[Place, Floats]]:
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise ImportError("A Dask cluster needs dask.distributed: pip install 'mercer[dask]'.") from error
    try:
        client = Client(address, timeout=WAIT_SECONDS)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"There is no Dask scheduler at {address}. Start it with: dask scheduler.") from error
    with client:
        yield from _by_dask(client, parts, places)


def _by_dask(client: Any, parts: Parts, places: list[Place]) -> Iterator[tuple[Place, Floats]]:
    """Keep the cluster busy with a few tasks per thread, so that results do not pile up in its memory."""
    waiting = places[::-1]
    for _ in range(ATTEMPTS):
        lost: list[Place] = []
        for share, found in _attempt(client, parts, waiting):
            if found is None:
                lost += share
            else:
                yield from zip(share, found, strict=True)
        if not lost:
            return
        waiting = lost
    raise ConnectionError(
        f"The Dask cluster has lost its workers {ATTEMPTS} times; {len(waiting)} tiles are missing. Start workers that "
        "stay, with more memory, and call again."
    )


def _attempt(client: Any, parts: Parts, waiting: list[Place]) -> Iterator[tuple[list[Place], list[Floats] | None]]:
    """Yield the parts of every task; None in place of the values where the workers with the models are gone."""
    from concurrent.futures import CancelledError

    from dask.distributed import as_completed

    threads = _threads(client)
    models = client.scatter(parts, broadcast=True, hash=False)
    running: dict[Any, list[Place]] = {}
    finished = as_completed(loop=client.loop)

    def submit() -> None:
        size = min(MOST_PARTS, -(-len(waiting) // (TASKS * threads)))
        share = [waiting.pop() for _ in range(size)]
        future = client.submit(_task, models, share, pure=False)
        running[future] = share
        finished.add(future)

    try:
        while waiting and len(running) < IN_FLIGHT * threads:
            submit()
        for future in finished:
            share = running.pop(future)
            try:
                found = future.result()
            except CancelledError:
                yield share, None
                continue
            yield share, found
            if waiting:
                submit()
        if waiting:  # all of the submitted ones were lost
            yield [waiting.pop() for _ in range(len(waiting))], None
    finally:
        if running and client.status == "running":  # an error, or nobody wants the rest
            client.cancel(list(running))


def _threads(client: Any) -> int:
    """Return the number of threads of the cluster; raise if it has none."""
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"]
    except Exception as error:
        raise _gone(client) from error
    if client.status != "running":
        raise _gone(client)
    if not workers:
        address = client.scheduler.address if client.scheduler else "this address"
        raise ConnectionError(f"The Dask cluster at {address} has no workers. Start some, with: dask worker {address}.")
    return sum(int(worker["nthreads"]) for worker in workers.values())


def _gone(client: Any) -> ConnectionError:
    return ConnectionError(f"The Dask cluster does not answer (the client is {client.status}). Start it again.")
