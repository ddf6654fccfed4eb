"""Nothing that only POSIX has is called without a fallback."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "mercer"
MODULES = {"fcntl", "grp", "pwd", "resource", "termios"}
"""Modules that Windows does not have."""
OF_OS = """
    fork getuid geteuid getpgid killpg mkfifo register_at_fork sched_getaffinity setsid sysconf uname
"""
NAMES = {
    "os": set(OF_OS.split()),
    "signal": {"SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "alarm", "pause", "setitimer"},
    "mmap": {"MADV_HUGEPAGE", "MAP_ANONYMOUS", "MAP_PRIVATE"},
}
"""Names that Windows or macOS do not have, by module."""


def unguarded(source: str) -> list[str]:
    """Return the uses of such names in functions or files that neither ask for them nor expect their absence."""
    tree = ast.parse(source)
    found = []
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]:
        nodes = list(_own(scope))
        asked = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "hasattr" for n in nodes)
        handled = {n.id for n in nodes if isinstance(n, ast.Name)}
        expected = "AttributeError" in handled
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) and "ImportError" not in handled:
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                found += [f"line {node.lineno}: {name}" for name in names & MODULES]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and not (asked or expected):
                if node.attr in NAMES.get(node.value.id, ()):
                    found.append(f"line {node.lineno}: {node.value.id}.{node.attr}")
                elif (node.value.id, node.attr) == ("os", "replace"):
                    found += [] if _is_shared(scope) else [f"line {node.lineno}: os.replace; use replacing"]
    return found


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a file or function, without those of the functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from _own(node)


def _is_shared(scope: ast.AST) -> bool:
    return isinstance(scope, ast.FunctionDef) and scope.name == "replacing"


def test_every_system_can_run_it():
    found = {str(path.relative_to(PACKAGE)): unguarded(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {path: uses for path, uses in found.items() if uses} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import fcntl",
        "import os\nos.fork()",
        "import os\ndef f():\n    return os.getuid()",
        "import os\nos.replace(a, b)",
    ],
)
def test_what_only_posix_has_is_found(source: str):
    assert unguarded(source)


@pytest.mark.parametrize(
    "source",
    [
        "import os\ndef f():\n    return os.getuid() if hasattr(os, 'getuid') else 0",
        "import os\ntry:\n    os.sysconf('x')\nexcept AttributeError:\n    pass",
        "import os\nos.path.join('a')",
    ],
)
def test_a_fallback_is_enough(source: str):
    assert unguarded(source) == []
