"""Features block by block: from an iterator or a file, to an iterator or a file, in constant memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, Mask
from mercer._checks import is_listing
from mercer._parameters import check, one_of, whole
from mercer.data import Sequences
from mercer.data.fasta_blocks import fasta_blocks
from mercer.data.text import Records
from mercer.kernels._data import n_objects, unwrapped
from mercer.kernels._feature_files import writer

REASONS = 1000
"""Number of invalid records whose reason is kept."""


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


@dataclass(frozen=True)
class StreamedFeatures:
    """A file of features that a stream has written.

    Parameters
    ----------
    path : Path
        The file.
    shape : tuple of int
        Its rows, one per valid record, and columns.
    kept : array of bool of shape (N,)
        Which records are valid; all, unless ``invalid="mask"``.
    problems : dict
        Maps the numbers of invalid records to the reason, for the first 1,000 of them.
    y : array or None
        Labels of the valid records, if the stream has some.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np, mercer as mc
    >>> words = mc.Features(mc.Spectrum(2, alphabet="dna")).fit(["ACGT"])
    >>> with TemporaryDirectory() as folder:
    ...     found = words.stream(
    ...         ["ACG", "AXA", "TTT"], Path(folder, "words.npy"), invalid="mask"
    ...     )
    ...     found.shape, np.load(found.path).shape, found.kept.tolist()
    ((2, 16), (2, 16), [True, False, True])
    >>> found.problems[1][:44]
    "sequence 1 has the symbol 'X' at position 1,"
    """

    path: Path
    shape: tuple[int, int]
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

    def get_feature_names_out(self, input_features: Any = None) -> Floats:
        """Return the names of the features."""
        raise NotImplementedError

    def stream(self, blocks: Any, out: Any = None, *, block_size: int = 10_000, invalid: str = "raise") -> Any:
        """Compute features block by block, in constant memory, into an iterator or a file.

        Call ``fit`` first, with a sample of the data. The memo of pairs is not used.

        Parameters
        ----------
        blocks : iterator, path or data
            An iterator of blocks, each of which `transform` accepts, or `Records` of a reader; the path of a FASTA or
            FASTQ file, which is read in blocks; or data, such as a matrix or a list of strings, which are cut into
            blocks.
        out : path, default=None
            A file that does not exist yet: ``.npy`` for dense features (``np.load(path, mmap_mode="r")``), ``.npz``
            for sparse ones (``scipy.sparse.load_npz``), or ``.parquet`` with one column per feature. None returns an
            iterator.
        block_size : int, default=10000
            Number of objects of a block, if the blocks are not given by an iterator.
        invalid : {"raise", "mask"}
            Whether to raise at the first invalid record, or to leave out all of them and report them. If no record of
            the first blocks is valid, it raises.

        Returns
        -------
        iterator of FeatureBlock, or StreamedFeatures
            Each block has ``features``, ``kept`` (which of its records are valid), ``problems`` and ``y``. With
            ``out``: the path, the shape, and ``kept``, ``problems`` and ``y`` of all records.

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
        kernel = self.kernel_
        if out is not None:
            writer(out, None)  # raise before any work is done
        found = feature_blocks(
            in_blocks(blocks, int(block_size), invalid, _alphabet(kernel)),
            partial(self._features_of, memo=False),
            self._n_features_out,
            getattr(self, "_sparse", False),  # absent from files of earlier versions
            getattr(self, "n_features_in_", None),
            invalid == "mask",
        )
        return found if out is None else streamed(found, out, self.get_feature_names_out)

    def _features_of(self, X: Any, memo: bool = True) -> Any:
        """Return the features of data, looked up in the memo of pairs or not."""
        kernel = self.kernel_
        return (
            kernel.features(X) if self.explicit_ else self._mapped(kernel._source(kernel._admit(X, reset=False)), memo)
        )


def streamed(blocks: Iterator[FeatureBlock], out: Any, names: Any) -> StreamedFeatures:
    """Write all blocks to the file ``out``."""
    kept: list[Mask] = []
    labels: list[Floats] = []
    problems: dict[int, str] = {}
    with writer(out, names) as file:
        for block in blocks:
            file.add(block.features)
            kept.append(block.kept)
            labels += [] if block.y is None or not len(block.y) else [block.y]
            problems |= dict(list(block.problems.items())[: REASONS - len(problems)])
        assert file.shape is not None
    y = np.concatenate(labels) if labels else None
    return StreamedFeatures(Path(out), file.shape, np.concatenate(kept), problems, y)


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


def feature_blocks(
    blocks: Iterator[Any], transform: Callable[[Any], Any], width: int, is_sparse: bool, columns: int | None, mask: bool
) -> Iterator[FeatureBlock]:
    """Yield the features of each block; with ``mask``, of its valid records.

    Parameters
    ----------
    blocks : iterator
        Input of ``transform``, or `Records`.
    transform : callable
        Returns features, and raises for a block with an invalid record.
    width, is_sparse : int, bool
        Number of features, and whether those of empty blocks are sparse; all blocks are like the first with rows.
    columns : int or None
        Number of columns of the training data, if they were a matrix.
    mask : bool
        Whether to leave out invalid records.
    """
    begin, some, begun, number = 0, False, False, -1
    for number, block in enumerate(blocks):
        X, y, kept, problems = _opened(block, begin)
        n = _checked_size(X, number, columns)
        rows = _Rows(X, transform, begin + np.flatnonzero(kept))
        try:
            found = rows.between(0, n, mask) if n else []
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"Block {number} (records {begin} to {begin + len(kept) - 1}): {error}") from error
        good = np.isin(rows.numbers, list(rows.problems), invert=True)
        if not some and n and not good.any():
            raise ValueError(f"All {n} records of block {number} are invalid: {next(iter(rows.problems.values()))}")
        some |= bool(good.any())
        kept[kept] = good
        if found and not begun:  # a kernel may choose sparse or dense rows by the block: all are like the first
            is_sparse, begun = sparse.issparse(found[0]), True
        features = _stacked(found, width, is_sparse)
        yield FeatureBlock(
            features, kept, dict(sorted((problems | rows.problems).items())), None if y is None else y[good]
        )
        begin += len(kept)
    if number < 0:
        raise ValueError("There are no blocks: the iterator is empty. Pass at least one block of one object.")


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


class _Rows:
    """The records of a block, and the problems of those that cannot be transformed."""

    def __init__(self, X: Any, transform: Callable[[Any], Any], numbers: Floats) -> None:
        self.X, self.transform, self.numbers = X, transform, numbers
        self.problems: dict[int, str] = {}

    def between(self, low: int, high: int, mask: bool) -> list[Any]:
        """Return the features of some records; with ``mask``, invalid ones are found by bisection."""
        try:
            return [self.transform(self.X if (low, high) == (0, n_objects(self.X)) else rows_of(self.X, low, high))]
        except (ValueError, TypeError) as error:
            if not mask:
                raise
            if high - low == 1:
                at = int(self.numbers[low])
                # the message counts from the beginning of what was passed
                self.problems[at] = re.sub(
                    r"\b(sequence|object|row|sample|document|member) 0\b", rf"\1 {at}", str(error)
                )
                return []
        middle = (low + high) // 2
        return [*self.between(low, middle, mask), *self.between(middle, high, mask)]


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
