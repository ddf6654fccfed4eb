"""What a file says about each profile: its name, the lines of its header, the text of its nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np

from mercer._checks import is_listing
from mercer.data.ragged import offsets_of
from mercer.models._ragged_points import Points


class Annotations(Points):
    """One dictionary per profile, stored as the bytes of its JSON text; immutable.

    Parameters
    ----------
    data : array of uint8
        The texts of all profiles, concatenated.
    indptr : array of shape (N + 1,)
        Text i is ``data[indptr[i]:indptr[i + 1]]``.
    single : bool, default=False
        Whether this is the single profile of a batch of shape ().
    """

    def __init__(self, data: Any, indptr: Any, single: Any = False) -> None:
        self._hold(np.array(data, dtype=np.uint8), np.array(indptr, dtype=np.int64), bool(single))

    @classmethod
    def of(cls, values: Any, count: int, single: bool) -> Self:
        """Store None, a dictionary or a list of dictionaries, one per profile."""
        if isinstance(values, cls):
            found = values
        else:
            several = [values] if values is None or isinstance(values, Mapping) else values
            if not is_listing(several) or not all(x is None or isinstance(x, Mapping) for x in several):
                raise TypeError(f"annotations must be a list of dictionaries, one per profile; got {values!r}.")
            several = list(several) * (count if values is None else 1)
            texts = [_text(i, dict(x or {})) for i, x in enumerate(several)]
            flat = np.frombuffer(b"".join(texts), dtype=np.uint8)
            found = cls(flat, offsets_of([len(text) for text in texts]), single)
        if len(found) != count:
            raise ValueError(f"annotations must have one dictionary per profile; got {len(found)} for {count}.")
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return () if self.single else (len(self),)

    def dictionaries(self) -> list[dict[str, Any]]:
        """Return the dictionary of every profile."""
        return [json.loads(self.data[begin:end].tobytes()) for begin, end in pairwise(self.indptr)]

    def row_digests(self) -> list[bytes]:
        """Return equal digests: what a profile is called does not change its values."""
        return [b""] * len(self)


def _text(i: int, notes: dict[str, Any]) -> bytes:
    """Return the JSON text of the annotations of one profile."""
    try:
        return json.dumps(notes, sort_keys=True).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"annotations of profile {i} must be strings, numbers, lists and dictionaries; got {notes!r} ({error}). "
            "Convert the others, such as arrays by .tolist()."
        ) from error
