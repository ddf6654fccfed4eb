"""How much code there is: tokens, lines and files of every room, with budgets that only fall.

``pytest -n 0 -s tests/test_budget.py`` prints the table.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("src/mercer", "native")
AROUND = ("tests", "benchmarks", "examples", "reproductions")
BUDGETS = {
    "_comparison": 10063,
    "_native": 8362,
    "_report": 9260,
    "cli": 16787,
    "core": 18341,
    "cuda": 10136,
    "data": 54965,
    "datasets": 8072,
    "embedding": 11353,
    "families": 58420,
    "gram": 10899,
    "kernels": 93383,
    "models": 186730,
    "native": 66660,
    "plot": 11565,
    "saving": 8760,
    "stats": 16026,
    "testing": 18743,
}
"""Tokens of a room without comments and docstrings; 3 % above is an error, and less is a reason to lower the number."""
MOST_LINES_AROUND = 66782
"""Lines of tests, benchmarks and examples, without ``tests/sources``, which no budget shortens."""
MOST_SKIPS = 153
"""``# fmt: skip`` in Python files."""
LONGEST = 500
TOO_LONG: set[str] = set()
"""Files that have more lines than that; the list only gets shorter."""
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_CPP = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|\w+(?:\.\d+)?|::|->|<<=|>>=|&&|\|\||[-+*/%&|^=!<>]=|\+\+|--|<<|>>|\S'
)
_CPP_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def files(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    return [path for path in found if path.suffix in (".py", ".cpp", ".hpp")]


def room_of(path: Path) -> str:
    """Return the folder of a file below src/mercer, "core" for single files, or "native"."""
    parts = path.relative_to(ROOT).parts
    return "native" if parts[0] == "native" else parts[2] if len(parts) > 3 else "core"


def n_tokens(source: str, suffix: str) -> int:
    """Return the number of tokens of a file, without comments and docstrings."""
    if suffix != ".py":
        return len(_CPP.findall(_CPP_COMMENT.sub(" ", source)))
    tokens = sum(token.type not in _LAYOUT for token in tokenize.generate_tokens(io.StringIO(source).readline))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    texts = [
        node for body in bodies for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    return tokens - sum(isinstance(node.value.value, str) for node in texts)


def n_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_tokens_of_rooms():
    found: dict[str, list[int]] = {}
    for path in files(*SOURCES):
        row = found.setdefault(room_of(path), [0, 0, 0])
        for k, value in enumerate((n_tokens(path.read_text(encoding="utf-8"), path.suffix), n_lines(path), 1)):
            row[k] += value
    print(f"\n{'room':<12} {'tokens':>8} {'budget':>8} {'lines':>7} {'files':>5}")
    for room, (tokens, lines, n_files) in sorted(found.items()):
        print(f"{room:<12} {tokens:>8} {BUDGETS.get(room, 0):>8} {lines:>7} {n_files:>5}")
    total = [sum(column) for column in zip(*found.values(), strict=True)]
    print(f"{'all':<12} {total[0]:>8} {sum(BUDGETS.values()):>8} {total[1]:>7} {total[2]:>5}")
    assert not set(found) - set(BUDGETS), "give this room a budget"
    over = {room: row[0] for room, row in found.items() if row[0] > BUDGETS[room]}
    if over:
        warnings.warn(f"These rooms have more tokens than their budgets: {over}", stacklevel=1)
    much = {room: tokens for room, tokens in over.items() if tokens > 1.03 * BUDGETS[room]}
    assert not much, "remove code, or raise the budget of these rooms for a reason"


def test_lines_of_files():
    long = {path.relative_to(ROOT).as_posix() for path in files(*SOURCES) if n_lines(path) > LONGEST}
    assert not long - TOO_LONG, f"split these at {LONGEST} lines"
    if TOO_LONG - long:
        warnings.warn(f"These are short now, so remove them from the list: {TOO_LONG - long}", stacklevel=1)


def test_lines_around_the_library():
    sources = {*files("tests/sources")}
    assert sum(n_lines(path) for path in files(*AROUND) if path not in sources) <= MOST_LINES_AROUND


def test_code_that_is_not_formatted():
    skip = re.compile(r"#\s*fmt: skip$", re.MULTILINE)
    assert sum(len(skip.findall(path.read_text(encoding="utf-8"))) for path in files(*SOURCES, *AROUND)) <= MOST_SKIPS


@pytest.mark.parametrize(
    ("source", "suffix", "count"),
    [
        ('"""A."""\n\n\ndef f(x):  # a comment\n    """B."""\n    return x + 1\n', ".py", 10),
        ("class A:\n    x = 1\n    'The number.'\n", ".py", 6),
        ("/* a */ int f(double x) { return x <= 1.5; }  // b\n", ".cpp", 13),
        ('auto s = "a // b";', ".hpp", 5),
    ],
)
def test_a_count(source, suffix, count):
    assert n_tokens(source, suffix) == count
