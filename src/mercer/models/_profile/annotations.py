"""What a file says about each profile: its name, its consensus, the lines that are kept as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Floats
from mercer._checks import is_listing
from mercer.data import ragged as _ragged
from mercer.data.ragged import offsets_of


class Annotations:
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

    parts: ClassVar[tuple[str, ...]] = ("data", "indptr", "single")

    def __init__(self, data: Any, indptr: Any, single: Any = False) -> None:
        self.data, self.indptr = np.array(data, dtype=np.uint8), np.array(indptr, dtype=np.int64)
        self.single = bool(single)
        for array in (self.data, self.indptr):
            array.setflags(write=False)

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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data, self.indptr, self.single)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return () if self.single else (len(self),)

    @property
    def nbytes(self) -> int:
        """Bytes of the texts."""
        return int(self.data.nbytes + self.indptr.nbytes)

    def dictionaries(self) -> list[dict[str, Any]]:
        """Return the dictionary of every profile."""
        return [json.loads(self.data[begin:end].tobytes()) for begin, end in pairwise(self.indptr)]

    def __getitem__(self, key: Any) -> Self:
        chosen = np.arange(len(self))[key]
        data, indptr = _ragged.gather(self.data, self.indptr, np.atleast_1d(chosen))
        return type(self)(data, indptr, np.ndim(chosen) == 0)

    def shaped(self, single: bool) -> Self:
        """Return the text of one profile as the member of a batch of shape () or (1,)."""
        return type(self)(self.data, self.indptr, single)

    def joined(self, parts: Sequence[Self]) -> Self:
        """Concatenate."""
        sizes = np.concatenate([np.diff(part.indptr) for part in parts])
        return type(self)(np.concatenate([part.data for part in parts]), offsets_of(sizes), False)

    def row_digests(self) -> list[bytes]:
        """Return equal digests: what a profile is called does not change its values."""
        return [b""] * len(self)

    def as_arrays(self) -> dict[str, Floats]:
        """Return the arrays of a file."""
        return {"data": self.data, "indptr": self.indptr, "single": np.array(self.single)}


def _text(i: int, notes: dict[str, Any]) -> bytes:
    """Return the JSON text of the annotations of one profile."""
    try:
        return json.dumps(notes, sort_keys=True).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"annotations of profile {i} must be strings, numbers, lists and dictionaries; got {notes!r} ({error}). "
            "Convert the others, such as arrays by .tolist()."
        ) from error
