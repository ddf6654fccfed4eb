"""Where the files of the real sets come from: a folder of the user's, or the set's public home.

No set is shipped inside the package, because several state no licence.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from pathlib import Path
from typing import Any

from mercer.datasets._sources import SOURCES, Source

__all__ = ["SOURCES", "Source", "data_path", "open_binary"]


def data_path(folder: str, file: str) -> Path:
    """Return the path of a file of a real set, checked against its SHA-256.

    With the environment variable ``MERCER_DATA`` set, the file is ``$MERCER_DATA/<folder>/<file>`` or the
    same with ``.gz``, and nothing is downloaded. Otherwise pooch downloads it once, from the set's public
    home into the user's cache folder. A file that was made from others has no public home: it needs
    ``MERCER_DATA``.

    Parameters
    ----------
    folder : str
        Name of the set, such as ``"webkb"``.
    file : str
        Name of the file, without ``.gz``.

    Returns
    -------
    pathlib.Path
        A plain file, or one whose name ends in ``.gz``.

    Examples
    --------
    >>> from mercer.datasets import data_path
    >>> data_path("webkb", "webkb-test-stemmed.txt").is_file()  # doctest: +SKIP
    True
    """
    try:
        source = SOURCES[folder, file]
    except KeyError:
        known = ", ".join("/".join(key) for key in SOURCES)
        raise ValueError(f"{folder}/{file} is not a known data file; known are {known}") from None
    root = os.environ.get("MERCER_DATA")
    if root:
        return _local(Path(root) / folder, file, source)
    return _download(folder, file, source)


def open_binary(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Open a plain or gzipped file for reading its unpacked bytes."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _local(folder: Path, file: str, source: Source) -> Path:
    for path in (folder / f"{file}.gz", folder / file):
        if path.is_file():
            _check(path, source)
            return path
    cure = f"put the file of {source.url} there, or unset MERCER_DATA to download it"
    if source.url is None:
        cure = f"put it there; it was made from {source.origin}"
    raise FileNotFoundError(f"MERCER_DATA is set, but {folder} has neither {file} nor {file}.gz: {cure}")


def _check(path: Path, source: Source) -> None:
    try:
        with open_binary(path) as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        found = "no readable gzip"
    if found != source.sha256:
        raise ValueError(
            f"{path} is damaged or another version (SHA-256 of its content: {found}, "
            f"expected {source.sha256}): replace it by the file of {source.url or source.origin}"
        )


def _download(folder: str, file: str, source: Source) -> Path:
    if source.url is None:
        raise FileNotFoundError(
            f"{folder}/{file} cannot be downloaded, since it was made from {source.origin}: "
            "set MERCER_DATA to a folder that has it"
        )
    pooch = _import_pooch()
    try:
        name: str = pooch.retrieve(
            url=source.url,
            known_hash=f"sha256:{source.sha256}",
            fname=file,
            path=pooch.os_cache("mercer") / folder,
        )
    except ValueError as error:  # pooch has deleted what it downloaded
        raise ValueError(
            f"{source.url} does not have the expected SHA-256 {source.sha256}, so the file there has changed "
            f"or the download was cut: try again, or set MERCER_DATA to a folder that has {folder}/{file}"
        ) from error
    except OSError as error:  # what requests raises without a network, and what a full disk raises
        raise ConnectionError(
            f"could not download {source.url} ({type(error).__name__}): check the network, "
            f"or set MERCER_DATA to a folder that has {folder}/{file}"
        ) from error
    return Path(name)


def _import_pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise ImportError(
            "downloading a data set needs pooch: pip install 'mercer[data]', "
            "or set MERCER_DATA to a folder that has the files"
        ) from None
    return pooch
