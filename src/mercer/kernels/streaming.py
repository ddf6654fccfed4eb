"""Features block by block, from an iterator or a file, in constant memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, Mask
from mercer._checks import is_listing
from mercer._parameters import check, one_of, whole
from mercer.data import Sequences
from mercer.data.fasta import fasta_blocks
from mercer.data.text import Records
from mercer.kernels._data import n_objects, unwrapped


class FeatureBlock(NamedTuple):
    """Features of one block of a stream.

    Parameters
    ----------
    features : array or CSR array of shape (M, r)
        Features of the valid records.
    kept : array of bool of shape (B,)
        Which records of the block are valid; all, unless ``invalid="mask"``.
    problems : dict
        Maps the number of every invalid record, counted from the beginning of the stream, to the reason.
    y : array or None
        Labels of the valid records, if the block is what a reader of files returns (`Records`) with labels.

    Examples
    --------
    >>> import mercer as mc
    >>> words = mc.Features(mc.Spectrum(2, alphabet="dna")).fit(["ACGT"])
    >>> block = next(words.stream(iter([["ACG", "AXA", "TTT"]]), invalid="mask"))
    >>> block.features.shape, block.kept.tolist(), list(block.problems)
    ((2, 16), [True, False, True], [1])
    """

    features: Any
    kept: Mask
    problems: dict[int, str]
    y: Any = None


class Streaming:
    """Features in blocks, for a fitted transformer of a kernel."""

    kernel_: Any
    explicit_: bool
    _n_features_out: int
    _sparse: bool

    def _read(self, X: Any) -> Any:
        raise NotImplementedError

    def _mapped(self, source: Any, memo: bool = True) -> Floats:
        raise NotImplementedError

    def stream(self, blocks: Any, *, block_size: int = 10_000, invalid: str = "raise") -> Iterator[FeatureBlock]:
        """Compute features block by block, in constant memory.

        Call ``fit`` first, with a sample of the data. The memo of pairs is not used.

        Parameters
        ----------
        blocks : iterator, path or data
            An iterator of blocks, each of which `transform` accepts, or `Records` of a reader; the path of a FASTA or
            FASTQ file, which is read in blocks; or data, such as a matrix or a list of strings, which are cut into
            blocks.
        block_size : int, default=10000
            Number of objects of a block, if the blocks are not given by an iterator.
        invalid : {"raise", "mask"}
            Whether to raise at the first invalid record, or to leave out all of them and report them. If no record of
            the first blocks is valid, it raises.

        Returns
        -------
        iterator of FeatureBlock
            Each block has ``features``, ``kept`` (which of its records are valid), ``problems`` and ``y``.

        Examples
        --------
        >>> import mercer as mc
        >>> from sklearn.linear_model import SGDClassifier
        >>> from mercer.datasets import make_dna
        >>> strings, y = make_dna(200, random_state=0)
        >>> blocks = ((strings[i : i + 50], y[i : i + 50]) for i in range(0, 200, 50))
        >>> words = mc.Features(mc.Spectrum(2, alphabet="dna")).fit(strings[:50])
        >>> model = SGDClassifier(random_state=0)
        >>> for X, labels in blocks:
        ...     for block in words.stream(X):
        ...         model = model.partial_fit(
        ...             block.features, labels[block.kept], classes=[0, 1]
        ...         )
        >>> model.score(words.transform(strings), y) > 0.7
        True
        """
        self._read(None)
        check(whole(1, cure="It is a number of objects."), block_size=block_size)
        check(one_of("raise", "mask"), invalid=invalid)
        return self._streamed(in_blocks(blocks, int(block_size), invalid, _alphabet(self.kernel_)), invalid == "mask")

    def _streamed(self, blocks: Iterator[Any], mask: bool) -> Iterator[FeatureBlock]:
        is_sparse = getattr(self, "_sparse", False)  # absent from files of earlier versions
        begin, some, begun, number = 0, False, False, -1
        for number, block in enumerate(blocks):
            X, y, kept, problems = _opened(block, begin)
            n = _checked_size(X, number, getattr(self, "n_features_in_", None))
            numbers, invalid = begin + np.flatnonzero(kept), dict[int, str]()
            try:
                found = self._valid(X, 0, n, numbers, invalid if mask else None) if n else []
            except (ValueError, TypeError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"Block {number} (records {begin} to {begin + len(kept) - 1}): {error}") from error
            good = np.isin(numbers, list(invalid), invert=True)
            if not some and n and not good.any():
                raise ValueError(f"All {n} records of block {number} are invalid: {next(iter(invalid.values()))}")
            some |= bool(good.any())
            kept[kept] = good
            if found and not begun:  # a kernel may choose sparse or dense rows by the block: all are like the first
                is_sparse, begun = sparse.issparse(found[0]), True
            features = _stacked(found, self._n_features_out, is_sparse)
            reasons = dict(sorted((problems | invalid).items()))
            yield FeatureBlock(features, kept, reasons, None if y is None else y[good])
            begin += len(kept)
        if number < 0:
            raise ValueError("There are no blocks: the iterator is empty. Pass at least one block of one object.")

    def _valid(self, X: Any, low: int, high: int, numbers: Floats, problems: dict[int, str] | None) -> list[Any]:
        """Return features of records; with ``problems``, invalid ones are found by bisection and noted there."""
        try:
            return [self._features_of(X if high - low == n_objects(X) else rows_of(X, low, high), memo=False)]
        except (ValueError, TypeError) as error:
            if problems is None:
                raise
            if high - low == 1:
                at = int(numbers[low])
                # the message counts from the beginning of what was passed
                counted = r"\b(sequence|object|row|sample|document|member) 0\b"
                problems[at] = re.sub(counted, rf"\1 {at}", str(error))
                return []
        middle = (low + high) // 2
        return [*self._valid(X, low, middle, numbers, problems), *self._valid(X, middle, high, numbers, problems)]

    def _features_of(self, X: Any, memo: bool = True) -> Any:
        """Return the features of data, looked up in the memo of pairs or not."""
        kernel = self.kernel_
        return (
            kernel.features(X) if self.explicit_ else self._mapped(kernel._source(kernel._admit(X, reset=False)), memo)
        )


def in_blocks(data: Any, block_size: int, invalid: str, alphabet: Any) -> Iterator[Any]:
    """Yield blocks of data: those of an iterator, those of a FASTA file, or rows of anything else."""
    if isinstance(data, str | os.PathLike):
        yield from fasta_blocks(data, block_size=block_size, alphabet=alphabet, duplicates="number", invalid=invalid)
        return
    if hasattr(data, "__next__"):
        yield from data
        return
    if not is_listing(data):
        raise TypeError(f"blocks must be an iterator of blocks, the path of a FASTA file, or data; got {data!r}.")
    data = unwrapped(data)
    for begin in range(0, n_objects(data), block_size):
        yield rows_of(data, begin, begin + block_size)


def _opened(block: Any, begin: int) -> tuple[Any, Any, Mask, dict[int, str]]:
    """Return the data of a block, its labels, which of its records could be read, and why the others could not."""
    y, reasons = None, getattr(block, "problems", None)
    if isinstance(block, Records):
        block, y = block.X, None if block.y is None else np.asarray(block.y)
    X = unwrapped(block)
    kept = np.ones(0 if isinstance(X, str | bytes) or not is_listing(X) else n_objects(X), dtype=bool)
    if isinstance(X, Sequences) and reasons:
        unread = len(reasons) - int((~X.kept).sum())  # records without a place, such as broken ones of a FASTQ file
        kept = np.concatenate([X.kept, np.zeros(unread, dtype=bool)])
    listed = list(reasons.values()) if reasons else []
    return X, y, kept, dict(zip((begin + np.flatnonzero(~kept)).tolist(), listed, strict=False))


def rows_of(X: Any, low: int, high: int) -> Any:
    """Return some objects of data of any kind."""
    if sparse.issparse(X):
        return X.tocsr()[low:high]
    return X.iloc[low:high] if hasattr(X, "iloc") else X[low:high]


def _checked_size(X: Any, number: int, columns: int | None) -> int:
    """Return the number of objects of a block; raise if it is not a block, or has other columns."""
    if isinstance(X, str | bytes) or not (is_listing(X) or sparse.issparse(X)):
        raise TypeError(
            f"Block {number} must be a list of samples or a matrix; got {X!r}. Pass iter([X]) for a single block."
        )
    shape: Any = getattr(X, "shape", ())
    if columns is not None and len(shape) == 2 and shape[1] != columns:
        raise ValueError(f"Block {number} has {shape[1]} columns, but the training data have {columns}.")
    return n_objects(X)


def _stacked(parts: list[Any], width: int, is_sparse: bool) -> Any:
    if is_sparse:
        alike = [part if sparse.issparse(part) else sparse.csr_array(part) for part in parts]
        return alike[0] if len(alike) == 1 else sparse.vstack(alike or [sparse.csr_array((0, width))], format="csr")
    dense = [part.toarray() if sparse.issparse(part) else part for part in parts]
    return dense[0] if len(dense) == 1 else np.concatenate(dense or [np.zeros((0, width))])


def _alphabet(kernel: Any) -> Any:
    """Return the alphabet of the sequences that a fitted kernel has seen; None if it has seen none."""
    sources: list[Any] = [getattr(kernel, name, None) for name in ("train_", "model_", "context_")]
    while hasattr(sources[0], "parts"):  # views of a compound kernel
        sources[0] = sources[0].parts[0]
    return next((found for source in sources if (found := getattr(source, "alphabet", None)) is not None), None)
