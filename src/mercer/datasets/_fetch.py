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
from typing import Any, NamedTuple

_FUZZY_FS = "https://raw.githubusercontent.com/achyudh/fuzzy-fs/3c8fc8b5d4a1883dde8ead22fee0dfafa7b8c767/data"


class Source(NamedTuple):
    """The public home of a file and the SHA-256 of its unpacked bytes."""

    url: str
    sha256: str


# The checksum is of the unpacked file, so that one number serves the download (plain) and a local
# copy (plain, or packed as `<file>.gz` by whichever gzip).
SOURCES = {
    ("webkb", "webkb-train-stemmed.txt"): Source(
        f"{_FUZZY_FS}/WebKB/webkb-train-stemmed.txt",
        "bcfab4aaab816ce289409b0ad7926f8a3c21bc4cd78dbfec1a2f394717db1f0d",
    ),
    ("webkb", "webkb-test-stemmed.txt"): Source(
        f"{_FUZZY_FS}/WebKB/webkb-test-stemmed.txt",
        "2ecc8135835fa2151080488524eaeda757e254160a93d21eac951b13357a0df9",
    ),
    ("reuters_r8", "r8-train-stemmed.txt"): Source(
        f"{_FUZZY_FS}/R8/r8-train-stemmed.txt",
        "52d8f626d6b3d71c4ac859d84e9b5fd5469a3f4948ca25e46a4d0ddeedab52b6",
    ),
    ("reuters_r8", "r8-test-stemmed.txt"): Source(
        f"{_FUZZY_FS}/R8/r8-test-stemmed.txt",
        "bac15782889426df2fb8414a154330c7fafd9cc7e7bc3d3669f6fc78d069313e",
    ),
}


def data_path(folder: str, file: str) -> Path:
    """Return the path of a file of a real set, checked against its SHA-256.

    With the environment variable ``MERCER_DATA`` set, the file is ``$MERCER_DATA/<folder>/<file>`` or the
    same with ``.gz``, and nothing is downloaded. Otherwise pooch downloads it once, from the set's public
    home into the user's cache folder.

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
    raise FileNotFoundError(
        f"MERCER_DATA is set, but {folder} has neither {file} nor {file}.gz: "
        f"put the file of {source.url} there, or unset MERCER_DATA to download it"
    )


def _check(path: Path, source: Source) -> None:
    try:
        with open_binary(path) as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        found = "no readable gzip"
    if found != source.sha256:
        raise ValueError(
            f"{path} is damaged or another version (SHA-256 of its content: {found}, "
            f"expected {source.sha256}): replace it by the file of {source.url}"
        )


def _download(folder: str, file: str, source: Source) -> Path:
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
