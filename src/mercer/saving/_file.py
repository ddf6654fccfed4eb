"""The functions `save`, `load` and `file_info`."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator

from mercer import _files
from mercer._batch import Batch, UnknownBatch
from mercer._version import __version__
from mercer.data import Sequences
from mercer.gram import GramFile
from mercer.saving._reader import Reader, Untrusted
from mercer.saving._writer import Writer

KINDS = ("batch", "gram", "pipeline")
PARTS = 200
"""Number of parts of a pipeline in which sequences are looked for."""


@dataclass(frozen=True)
class FileInfo:
    """What a file says about itself.

    Parameters
    ----------
    kind : {"pipeline", "batch", "gram"}
        What the file contains.
    description : str
        The ``repr`` of the pipeline.
    input : dict
        What the pipeline expects: ``"kind"`` ("symbols", "vectors" or "table"), and where known ``"alphabet"``,
        ``"dimension"``, ``"n_features"``, ``"feature_names"`` and ``"classes"``.
    metadata : dict
        The argument ``metadata`` of `save`.
    versions : dict
        Versions of mercer, scikit-learn, NumPy, SciPy and Python that wrote the file.

    Examples
    --------
    >>> import mercer as mc, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.mercer"
    >>> mc.save(mc.Spectrum(2).fit(["ACGT", "GGTA"]), path)
    >>> mc.file_info(path).input["kind"]
    'symbols'
    """

    kind: str
    description: str = ""
    input: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def save(
    pipeline: Any,
    path: str | os.PathLike[str],
    *,
    metadata: dict[str, Any] | None = None,
    trusted: Iterable[type] = (),
) -> None:
    """Save a fitted pipeline, estimator, kernel or batch to one file of arrays and JSON, without pickle.

    Parameters
    ----------
    pipeline : estimator or batch
        A pipeline, an estimator or a search of scikit-learn, a kernel or a model of mercer, or a combination of them.
    path : str or path
        Where to write. An existing file is replaced when the new one is complete.
    metadata : dict, default=None
        Anything that JSON can represent, such as the settings with which the data were read. `file_info` returns it.
    trusted : iterable of classes, default=()
        Your own classes in the pipeline. `load` needs the same list.

    See Also
    --------
    load : Read the pipeline in another process: it gives the same predictions, bit by bit.

    Examples
    --------
    >>> import mercer as mc, tempfile, pathlib
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X, y = ["ACGT", "ACGA", "TTTT", "TTTA"], [0, 0, 1, 1]
    >>> model = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed")).fit(X, y)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.mercer"
    >>> mc.save(model, path, metadata={"source": "made by hand"})
    >>> mc.load(path).predict(["ACGG", "TTTC"])
    array([0, 1])
    """
    _files.check_path(path)
    if isinstance(pipeline, type) or not (isinstance(pipeline, BaseEstimator | Batch) or hasattr(pipeline, "predict")):
        raise TypeError(f"pipeline must be an estimator, a kernel or a batch; got {_shown(pipeline)}.")
    writer = Writer(_by_name(trusted))
    value = writer.value(pipeline, type(pipeline).__name__)
    description = re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(pipeline))  # equal pipelines give equal files
    others = {"scikit-learn": sklearn, "numpy": np, "scipy": scipy}
    versions = {name: module.__version__ for name, module in others.items()}
    header = {
        "kind": "pipeline",
        "description": description if len(description) <= 2000 else f"{description[:2000]}...",
        "input": _expected_input(pipeline),
        "metadata": _checked_metadata(metadata),
        "versions": {"mercer": __version__, **versions, "python": platform.python_version()},
        "object": value,
        "nodes": writer.nodes,
    }
    _files.write(path, header, writer.arrays)


def load(path: str | os.PathLike[str], *, trusted: Iterable[type] = ()) -> Any:
    """Read a file that `save`, ``batch.save`` or `mercer.gram.save` wrote.

    No code in the file is run, even if it was crafted: a file contains arrays and JSON, and names only types on a
    published list, on the page "Fit, save, load, predict, probabilities".

    Parameters
    ----------
    path : str or path
        An npz archive with mercer's header.
    trusted : iterable of classes, default=()
        Your own classes that the file may contain.

    Returns
    -------
    pipeline, batch or GramFile
        The contents of the file.

    Examples
    --------
    >>> import numpy as np, mercer as mc, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> mc.Poissons(rate=[[1.0], [2.0]]).save(folder / "rates.npz")
    >>> mc.load(folder / "rates.npz")
    Poissons(shape=(2,))
    >>> mc.gram.save(folder / "gram.npz", np.eye(2))
    >>> mc.load(folder / "gram.npz").K
    array([[1., 0.],
           [0., 1.]])
    """
    allowed = _by_name(trusted)
    header, arrays = _files.read(path, *KINDS)
    if header["kind"] == "batch":
        return Batch._from_file(path, header, arrays)
    if header["kind"] == "gram":
        return GramFile._from_file(path, header, arrays)
    name = os.fspath(path)
    try:
        return Reader(header["nodes"], arrays, allowed).whole(header["object"])
    except Untrusted as error:
        raise ValueError(
            f"{name} contains the type {error}, which is not on the list of types that mc.load trusts. Pass it in "
            "trusted=[...] if it is your own class, and upgrade mercer if a newer version wrote the file."
        ) from error
    except UnknownBatch as error:
        raise ValueError(f"{name}: {error}") from error
    except Exception as error:  # the table of a damaged file can have any form
        raise _files.damaged(name, error) from error


def file_info(path: str | os.PathLike[str]) -> FileInfo:
    """Return what a file contains, what its pipeline expects, and its metadata, without making its objects.

    Parameters
    ----------
    path : str or path
        A file that `save`, ``batch.save`` or `mercer.gram.save` wrote.

    Returns
    -------
    FileInfo
        Its fields are ``kind``, ``description``, ``input``, ``metadata`` and ``versions``.

    Examples
    --------
    >>> import mercer as mc, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.mercer"
    >>> kernel = mc.Spectrum(2).fit(["ACGT", "GGTA"])
    >>> mc.save(kernel, path, metadata={"reader": {"format": "fasta"}})
    >>> mc.file_info(path).metadata
    {'reader': {'format': 'fasta'}}
    """
    header, _ = _files.read(path, *KINDS)
    given = {name: header.get(name) for name in ("input", "metadata", "versions")}
    description = header.get("description", "")
    if not isinstance(description, str) or not all(isinstance(value, dict | None) for value in given.values()):
        raise _files.damaged(os.fspath(path), ValueError("its description is not a dictionary"))
    return FileInfo(header["kind"], description, **{name: value or {} for name, value in given.items()})


def _shown(given: Any) -> str:
    """Show an object in a message, on one line."""
    if isinstance(given, list | tuple | dict):
        return f"a {type(given).__name__} of {len(given)}; save each one to a file of its own"
    text = repr(given)
    return text if len(text) <= 80 and "\n" not in text else f"an object of type {type(given).__name__}"


def _by_name(trusted: Any) -> dict[str, type]:
    """Return the user's own trusted classes by name."""
    listed = isinstance(trusted, Iterable) and not isinstance(trusted, str | type | np.ndarray)
    classes = list(trusted) if listed else [trusted]
    for cls in classes:
        if not isinstance(cls, type):
            raise TypeError(f"trusted must be a list of classes; got {cls!r}.")
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in classes}


def _checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata that JSON represents completely."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata must be a dictionary; got {metadata!r}.")
    try:
        kept = json.loads(json.dumps(metadata))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"metadata must be numbers, strings, lists and dictionaries; {error}.") from None
    return dict(kept)


def _expected_input(pipeline: Any) -> dict[str, Any]:
    """Return a description of the input, as plain values."""
    found: dict[str, Any] = {"kind": "table" if hasattr(pipeline, "n_features_in_") else "unknown"}
    sequences = _first_sequences(pipeline)
    if sequences is not None:
        found["kind"] = "symbols" if sequences.is_symbols else "vectors"
        if sequences.alphabet is not None:
            found["alphabet"] = sequences.alphabet.to_header()
        else:
            found["dimension"] = sequences.dimension
            if sequences.channels is not None:
                found["channels"] = list(sequences.channels)
    width = getattr(pipeline, "n_features_in_", None)
    if isinstance(width, int | np.integer):
        found["n_features"] = int(width)
    for name, attribute in (("feature_names", "feature_names_in_"), ("classes", "classes_")):
        values = getattr(pipeline, attribute, None)
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.size <= 10_000:
            found[name] = [v if isinstance(v, str | int | float | bool) else str(v) for v in values.tolist()]
    return found


def _first_sequences(pipeline: Any) -> Sequences | None:
    """Return the first sequences that the fitted parts of a pipeline keep, breadth first."""
    waiting, seen = [pipeline], set()
    for _ in range(PARTS):
        if not waiting:
            break
        part = waiting.pop(0)
        if isinstance(part, Sequences):
            return part
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list | tuple) and len(part) <= 20:
            waiting.extend(part)
        elif hasattr(part, "get_params") or hasattr(part, "parts"):
            waiting.extend(value for name, value in vars(part).items() if name != "estimator")
    return None
