"""Find the files of the real data sets in the user's folder, or download them.

No data set is included in the package, because several do not state a license.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from pathlib import Path
from typing import Any

from mercer.datasets.sources import SOURCES, Source

__all__ = ["SOURCES", "Source", "data_path", "open_binary"]


def data_path(folder: str, file: str) -> Path:
    """Return the path of a file of a real data set, checked against its SHA-256.

    If the environment variable ``MERCER_DATA`` is set, the file is ``$MERCER_DATA/<folder>/<file>`` or the
    same with ``.gz``, and nothing is downloaded. Otherwise pooch downloads it once from its public URL to
    the user's cache folder. Files that were derived from others have no public URL and require
    ``MERCER_DATA``.

    Parameters
    ----------
    folder : str
        Name of the data set, such as ``"webkb"``.
    file : str
        Name of the file, without ``.gz``.

    Returns
    -------
    pathlib.Path
        Path of a plain file, or of one whose name ends in ``.gz``.

    Examples
    --------
    >>> from mercer.datasets import data_path
    >>> data_path("webkb", "webkb-test-stemmed.txt").is_file()  # doctest: +SKIP
    True
    """
    try:
        source = SOURCES[folder, file]
    except (KeyError, TypeError):  # TypeError: not hashable
        known = ", ".join("/".join(key) for key in SOURCES)
        raise ValueError(f"{folder}/{file} is not a known data file; it must be one of {known}.") from None
    root = os.environ.get("MERCER_DATA")
    if root:
        return _local(Path(root) / folder, file, source)
    return _download(folder, file, source)


def open_binary(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Open a plain or gzipped file to read its uncompressed bytes."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _local(folder: Path, file: str, source: Source) -> Path:
    for path in (folder / f"{file}.gz", folder / file):
        if path.is_file():
            _check(path, source)
            return path
    cure = f"Download {source.url} to that folder, or unset MERCER_DATA to download it automatically."
    if source.url is None:
        cure = f"Put the file there; it was derived from {source.origin}."
    raise FileNotFoundError(f"MERCER_DATA is set, but {folder} has neither {file} nor {file}.gz. {cure}")


def _check(path: Path, source: Source) -> None:
    try:
        with open_binary(path) as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        found = "not a valid gzip file"
    if found != source.sha256:
        raise ValueError(
            f"{path} is damaged or a different version (SHA-256 of its content: {found}; "
            f"expected: {source.sha256}). Replace it with the file from {source.url or source.origin}."
        )


def _download(folder: str, file: str, source: Source) -> Path:
    if source.url is None:
        raise FileNotFoundError(
            f"{folder}/{file} cannot be downloaded, because it was derived from {source.origin}. "
            "Set the environment variable MERCER_DATA to a folder that contains it."
        )
    pooch = _import_pooch()
    try:
        name: str = pooch.retrieve(
            url=source.url,
            known_hash=f"sha256:{source.sha256}",
            fname=file,
            path=pooch.os_cache("mercer") / folder,
        )
    except ValueError as error:  # wrong hash: pooch has deleted the download
        raise ValueError(
            f"{source.url} does not have the expected SHA-256 {source.sha256}: the file has changed, or the download "
            f"is incomplete. Try again, or set the environment variable MERCER_DATA to a folder that contains "
            f"{folder}/{file}."
        ) from error
    except OSError as error:  # network errors of requests, and full disks
        raise ConnectionError(
            f"Could not download {source.url} ({type(error).__name__}). Check the network, "
            f"or set the environment variable MERCER_DATA to a folder that contains {folder}/{file}."
        ) from error
    return Path(name)


def _import_pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise ImportError(
            "Downloading a data set requires pooch; run pip install pooch, "
            "or set the environment variable MERCER_DATA to a folder that contains the files."
        ) from None
    return pooch
