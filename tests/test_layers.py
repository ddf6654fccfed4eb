"""Imports go left only, no room imports a private module of another one, and one room calls the native library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "mercer"

ORDER = (
    "core",
    "_native",
    "cuda",
    "data",
    "families",
    "models",
    "gram",
    "kernels",
    "embedding",
    "datasets",
)
# These may import one another.
LAST = ("saving", "stats", "plot", "testing", "_comparison", "_report", "cli", "__main__")
# "mercer" is the package itself: to import a public name from it is to import everything.
RANK = {room: rank for rank, room in enumerate(ORDER)} | dict.fromkeys((*LAST, "mercer"), len(ORDER))
# The engine knows a protocol, not a model: right of the models, but it may not import them.
ONLY = {
    "gram": {"core", "gram"},
    "_native": {"core", "_native"},
    "cuda": {"core", "cuda"},
}
# Private modules that another room may import, each with the reason. The list only shrinks.
PRIVATE_EXCEPTIONS = {
    ("datasets", "mercer.models._tree.newick"): "profiles are drawn on a parsed tree",
    ("models", "mercer.families._covariance"): "scores of full covariances share their layout",
    ("plot", "mercer.gram._diagnose"): "the plot marks the threshold of the diagnosis",
}


def room_of(module: str) -> str:
    """Return the room of a dotted module: 'mercer.kernels.base' -> 'kernels', 'mercer._array' -> 'core'."""
    parts = module.split(".")
    if len(parts) == 1:
        return "mercer"
    first = parts[1]
    return "core" if first.startswith("_") and first not in RANK else first


def module_of(path: Path, package: Path = PACKAGE) -> str:
    parts = ("mercer", *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted module) for everything of mercer that is imported anywhere in the file.

    Imports inside functions and inside ``if TYPE_CHECKING:`` count: they say what a line must know.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = _from_names(node, module, is_package)
        else:
            continue
        for name in names:
            if name.split(".")[0] == "mercer":
                yield node.lineno, name


def _from_names(node: ast.ImportFrom, module: str, is_package: bool) -> list[str]:
    base = node.module or ""
    if node.level:
        # One dot is the file's own package, which for an __init__ is the module itself.
        above = module.split(".")
        keep = len(above) - node.level + is_package
        if keep < 1:
            raise ValueError(f"line {node.lineno}: relative import beyond mercer")
        base = ".".join([*above[:keep], *([base] if base else [])])
    # `from mercer import gram` and `from . import _array` name the room in the alias. What is not a
    # room there is a public name of the package itself.
    if base == "mercer":
        return [f"mercer.{alias.name}" if _is_module(alias.name) else "mercer" for alias in node.names]
    # `from mercer.gram import _engine` names a private module (or a private name, which is as bad).
    return [base, *(f"{base}.{alias.name}" for alias in node.names if alias.name.startswith("_"))]


def _is_module(name: str) -> bool:
    return name in RANK or (PACKAGE / f"{name}.py").exists() or (PACKAGE / name).is_dir()


def is_package(path: Path) -> bool:
    return path.name == "__init__.py"


def offences(source: str, module: str, is_package: bool = False) -> list[str]:
    """Return one sentence for every import in ``source`` that does not go left."""
    own = room_of(module)
    if own == "mercer":
        return []
    if own not in RANK:
        return [f"{module}: '{own}' is a room without a place in the order: add it to tests/test_layers.py"]
    found = []
    for line, name in imported(ast.parse(source), module, is_package):
        room = room_of(name)
        allowed = room in ONLY[own] if own in ONLY else RANK.get(room, len(ORDER) + 1) <= RANK[own]
        if not allowed:
            found.append(f"{module}, line {line}: {own} imports {name}")
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


def test_the_package_is_there():
    assert FILES


@pytest.mark.slow
def test_imports_go_left():
    found = [line for path in FILES for line in offences(path.read_text("utf-8"), module_of(path), is_package(path))]
    assert not found, "\n".join(found)


def private_imports() -> set[tuple[str, str]]:
    """Return (room, module) of every import of an underscore module of another room; core is everybody's."""
    found = set()
    for path in FILES:
        own = room_of(module_of(path))
        if own == "mercer":  # the package itself gathers public names
            continue
        for _, name in imported(ast.parse(path.read_text("utf-8")), module_of(path), is_package(path)):
            room = room_of(name)
            if room not in (own, "core", "mercer") and any(part.startswith("_") for part in name.split(".")[2:]):
                found.add((own, name))
    return found


def test_only_one_room_calls_the_library():
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {name.split(".")[0] for name in names} & {"ctypes"}:
                found.append(module_of(path))
    assert {room_of(module) for module in found} == {"_native"}, found


@pytest.mark.slow
def test_rooms_import_no_private_module_of_another():
    found = private_imports()
    assert found - set(PRIVATE_EXCEPTIONS) == set(), (
        "make it public, move it to core, or ask the object for a capability"
    )
    assert not set(PRIVATE_EXCEPTIONS) - found, "these are gone: shorten the list"


def test_triton_kernels_are_used_by_modules_named_fused():
    found = [
        module_of(path)
        for path in FILES
        for _, name in imported(ast.parse(path.read_text("utf-8")), module_of(path), is_package(path))
        if room_of(name) == "cuda" and room_of(module_of(path)) != "cuda"
    ]
    assert found
    assert [module for module in found if not module.endswith("fused")] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("mercer._array", "from .families import gaussian"),
        ("mercer._array", "from . import gram"),
        ("mercer.data.sequences", "import mercer.families.gaussian"),
        ("mercer.data.sequences", "from mercer import families"),
        ("mercer.data.sequences", "from mercer import Gaussian"),
        ("mercer.data.sequences", "import mercer as mc"),
        ("mercer.families.gaussian", "from ..kernels import product"),
        ("mercer.families.gaussian", "from .. import kernels as k"),
        ("mercer.families.gaussian", "def f():\n    from mercer.gram.engine import compute"),
        ("mercer.models.hmm", "if TYPE_CHECKING:\n    from mercer.kernels import Kernel"),
        ("mercer.gram.engine", "from ..families import Gaussians"),
        ("mercer.gram.engine", "from mercer.data import Sequences"),
        ("mercer.kernels.probabilityproduct", "from mercer.datasets import make_dna"),
        ("mercer.datasets._make", "try:\n    from mercer import plot\nexcept ImportError:\n    plot = None"),
        ("mercer.novelty.thing", ""),
    ],
)
def test_an_offence_is_found(module: str, source: str):
    assert len(offences(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("mercer._batch", "from ._array import namespace\nfrom . import _config\nimport mercerised"),
        ("mercer.families.gaussian", "from .._array import Array\nfrom ._family import Family\nimport numpy"),
        ("mercer.gram.engine", "from .._parallel import run\nfrom . import pair_memo"),
        ("mercer.kernels.probabilityproduct", "from ..gram import compute\nfrom ..models.hmm import HMMs"),
        ("mercer.testing.battery", "from mercer.datasets import fetch_r8\nfrom mercer import plot"),
        ("mercer.testing.battery", "import mercer as mc"),
        ("mercer.cli", "from .plot import style"),
        ("mercer", "from .cli import main"),
    ],
)
def test_an_import_to_the_left_is_none(module: str, source: str):
    assert offences(source, module) == []


def test_a_package_counts_its_dots_from_itself():
    assert offences("from .._array import Array", "mercer.gram", is_package=True) == []
    assert len(offences("from ..kernels import product", "mercer.gram", is_package=True)) == 1
    assert offences("from . import compute", "mercer.gram", is_package=True) == []
