"""Draws from distributions of any kind, batches or objects of the user's own, and their densities."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from mercer._array import Array, Floats, namespace, to_numpy
from mercer._batch import Batch
from mercer.data import Sequences


class Objects:
    """Distributions of the user's own: objects with ``log_prob(X)`` and ``sample(size)``."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: Any) -> Objects:
        picked = range(len(self))[key] if isinstance(key, slice) else np.arange(len(self))[key]
        return Objects([self.items[i] for i in picked])

    def matched(self, reference: Any) -> Objects:
        """Return the objects; raise if the other side is a batch."""
        if not isinstance(reference, Objects):
            raise TypeError(
                f"Sampled got a list of objects on one side and {type(reference).__name__} on the other. Pass lists on "
                "both sides, such as list(batch)."
            )
        return self

    def require(self, *methods: str) -> None:
        """Raise if an object lacks one of the methods."""
        for i, item in enumerate(self.items):
            for name in methods:
                if not callable(getattr(item, name, None)):
                    raise TypeError(
                        f"object {i} is of type {type(item).__name__}, which has no method {name}. Sampled compares "
                        "objects with log_prob(X) and sample(size); to fit a model to each sample of data, give "
                        "Sampled(model=...)."
                    )


def in_numpy(batch: Batch) -> Batch:
    """Return a batch of NumPy arrays: draws and their densities have no gradient."""
    return batch._map(lambda _, x: x if hasattr(x, "indptr") else to_numpy(x), lambda _, part: in_numpy(part))


def seeds(source: Batch | Objects, seed: int) -> list[int]:
    """Return the seed of every object: that of a member of a batch depends on its content, others on the position."""
    if isinstance(source, Batch):
        words: Any = [[int.from_bytes(digest, "little")] for digest in source.digests()]
    else:
        words = [[i] for i in range(len(source))]
    return [int(np.random.SeedSequence([seed, *word]).generate_state(1)[0]) for word in words]


def draw(source: Batch | Objects, i: int, size: int, length: int, seed: int) -> Any:
    """Draw ``size`` points of object i: an array ``(size, ...)`` of NumPy or torch, or `Sequences`."""
    if isinstance(source, Objects):
        return _from_object(source.items[i], i, size, length, seed)
    one: Any = source[i : i + 1]
    if "length" not in _parameters(one.sample):
        return one.sample(size, random_state=seed)[0]
    if getattr(one, "end", False):
        raise ValueError(
            f"{type(one).__name__} with end=True have sequences of all lengths, and samples are cut at length = "
            f"{length}. Fit them with end=False."
        )
    points = np.asarray(one.sample(length, size, random_state=seed)[0])
    return Sequences.from_codes(points, one.alphabet) if points.ndim == 2 else Sequences(list(points))


def _from_object(item: Any, i: int, size: int, length: int, seed: int) -> Any:
    names = _parameters(item.sample)
    options: dict[str, Any] = {"length": length} if "length" in names else {}
    if "random_state" in names:
        options["random_state"] = seed
    count: Any = (size,) if names & {"sample_shape", "shape"} else size
    with _torch(seed):
        points = item.sample(count, **options)
    if isinstance(points, tuple):  # points and their labels or densities, as of scikit-learn's mixtures
        points = points[0]
    if not isinstance(points, Sequences):
        points = points.detach() if is_torch_array(points) else np.asarray(points)
    if len(points) != size:
        raise ValueError(f"sample({size}) of object {i} must return {size} points, one per row; got {len(points)}.")
    values = to_numpy(points.values if isinstance(points, Sequences) else points)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"object {i} has drawn a point that is not finite. Check its parameters.")
    return points


def _parameters(method: Any) -> set[str]:
    try:
        return set(inspect.signature(method).parameters)
    except (TypeError, ValueError):  # of compiled code
        return set()


@contextmanager
def _torch(seed: int | None = None) -> Iterator[None]:
    """Switch off gradients and, with a seed, seed torch, whose generators are restored at the end."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with torch.no_grad():
        if seed is None:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            yield


def joined(parts: list[Any]) -> Any:
    """Concatenate draws of several objects."""
    if isinstance(parts[0], Sequences):
        return Sequences.concat(parts)
    shapes = {tuple(part.shape[1:]) for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"The objects draw points of different shapes, {' and '.join(map(str, sorted(shapes)))}.")
    xp = namespace(*parts)
    whole: Array = xp.concat(parts, axis=0)
    return whole


def densities(source: Batch | Objects, points: Any) -> Floats:
    """Return the log density of every point under every object, ``(N, T)``; -inf where it is zero."""
    count = len(points)
    with _torch():
        if isinstance(source, Objects):
            values = np.empty((len(source), count))
            for i, item in enumerate(source.items):
                found = to_numpy(item.log_prob(points))
                if found.shape != (count,):
                    raise ValueError(
                        f"log_prob of object {i} must return one number per point, shape ({count},); got shape "
                        f"{found.shape}. Sum over the coordinates, as torch.distributions.Independent does."
                    )
                values[i] = found
        else:
            values = np.asarray(to_numpy(source.log_prob(points)), dtype=np.float64)  # type: ignore[attr-defined]
    bad = np.argwhere(np.isnan(values) | (values == np.inf))
    if len(bad):
        i, t = bad[0]
        raise ValueError(
            f"object {i} has the log density {values[i, t]} at a sampled point; densities must be finite. Check its "
            "parameters; a point mass or a singular covariance has no density."
        )
    return values
