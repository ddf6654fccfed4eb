"""What mercer can do, as capabilities.txt lists it: all of it still works.

A line has kinds of data and a kernel or transformer; or "compact", "explain" or "save" and a pipeline of strings; or
"name" and a public name, with its parameters and the attributes that the documentation mentions. ``<a | b>`` stands for
either, so a line has every combination of such choices. What is refused is not listed. ``python -m
tests.test_capabilities`` prints what is lost.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import itertools
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import mercer as mc
from mercer import kernels


def choices(text: str) -> list[str]:
    """Return what a text with ``<a | b>`` stands for."""
    parts = [re.split(r" *\| *", part) if k % 2 else [part] for k, part in enumerate(re.split("<(.*?)>", text))]
    return ["".join(chosen).replace(", )", ")") for chosen in itertools.product(*parts)]


LISTED: dict[str, list[str]] = {}
for _line in Path(__file__).with_name("capabilities.txt").read_text(encoding="utf-8").splitlines():
    _sections, _, _text = _line.partition(": ")
    for _section in _sections.split(", "):
        LISTED[_section] = sorted([*LISTED.get(_section, []), *choices(_text)])

STRINGS = ["".join(np.random.default_rng(k).choice(list("ACGTACAAGTTT"[k % 2 :: 2]), 12)) for k in range(16)]
LABELS = np.arange(16) % 2
Y = np.array([0, 1, 0, 1, 1, 0])
_rng = np.random.default_rng(0)
_points = [_rng.normal(k % 2, 1.0, (size, 2)) for k, size in enumerate((7, 6, 9, 6, 8, 7))]
_counts = _rng.poisson(3.0, (6, 4)) + 1
_strings = ["ACGTACGGTA", "GATTACAGA", "TTTACGATTA", "CAGATTACAC", "GGGTACCA", "ACGTTGCAAC"]
_table = _rng.integers(0, 2, (6, 3))
_rates, _dirichlet = _rng.uniform(1.0, 3.0, (6, 2)), _rng.dirichlet
DATA: dict[str, Any] = {
    "points": _points,
    "rows": np.array([x.mean(axis=0) for x in _points]),
    "positive": [np.exp(x) for x in _points],
    "simplex": [_dirichlet([2.0, 3.0, 4.0], len(x)) for x in _points],
    "binary": [(x > 0.5).astype(float) for x in _points],
    "counts": [_rng.poisson(3.0, x.shape).astype(float) for x in _points],
    "documents": sparse.csr_array(_counts.astype(float)),
    "equal points": [x[:6] for x in _points],
    "strings": _strings,
    "equal strings": [x[:8] for x in _strings],
    "sites": _table,
    "tables": [np.roll(_table, k, axis=0)[: 4 + k % 2].astype(float) for k in range(6)],
    "profiles": mc.models.ProfileHMMs.concat([mc.ProfileHMM(alphabet="dna").fit([x, x]).model_ for x in _strings[:3]]),
}
KNOWN: dict[str, Any] = {
    "ALIGNED": ["ACGT-ACG", "ACGTTACG", "AC-T-ACG", "AGGT-ACC", "ACGTTAGG", "TCGT-ACG"],
    "FIELD": {"nodes": dict.fromkeys("ahbc", 2), "cliques": [("a", "h"), ("h", "b"), ("b", "c")], "hidden": ["h"]},
    "NET": {"nodes": dict.fromkeys("ahbc", 2), "parents": {"a": ["h"], "b": ["h"], "c": ["b"]}, "hidden": ["h"]},
}
"""Names that expressions use besides public ones."""


ROOMS = (mc, mc.data, mc.families, mc.models, mc.kernels, mc.embedding)


class Names(dict[str, Any]):
    """Public names of mercer, in whatever room, then modules of scikit-learn, imported when they are asked for."""

    def __missing__(self, name: str) -> Any:
        for room in ROOMS:
            if name in room.__all__:
                return getattr(room, name)
        return importlib.import_module(f"sklearn.{name}")


def made(expression: str) -> Any:
    """Return what an expression of the table makes."""
    return eval(expression, {}, Names(KNOWN))


def gram(kind: str, expression: str) -> None:
    """Check the Gram matrix of a kernel, or of the features of another estimator, for the data of a kind."""
    kernel, X = made(expression), DATA[kind]
    y = Y[: X.shape[0] if hasattr(X, "shape") else len(X)]
    X = mc.kernels.Confounded(X, np.arange(6.0)[:, None]) if expression.startswith("Residualized") else X
    method = "transform" if hasattr(kernel, "transform") else "decision_function"
    found = np.asarray(getattr(kernel.fit(X, y), method)(X))
    if not isinstance(X, mc.families.Family | mc.models.ProfileHMMs) and not isinstance(
        kernel, mc.embedding.BeliefKernel
    ):
        np.testing.assert_allclose(getattr(again(kernel), method)(X), found, rtol=1e-10, atol=1e-300)
    phi = found.reshape(len(y), -1)
    K = found if isinstance(kernel, kernels.Kernel) else phi @ phi.T
    assert K.shape == (len(y), len(y))
    assert np.isfinite(K).all(), "not finite"
    np.testing.assert_allclose(K, K.T, rtol=1e-8, atol=1e-10)
    assert (np.diag(K) > 0).any(), "zero"


def again(estimator: Any) -> Any:
    """Return an estimator as it is after saving and loading."""
    with tempfile.TemporaryDirectory() as folder:
        mc.save(estimator, Path(folder, "a.mercer"))
        return mc.load(Path(folder, "a.mercer"))


@functools.lru_cache(1)
def fitted(expression: str) -> Any:
    """Return the fitted pipeline of an expression."""
    several = "MultiOutput" in expression or "MultiTask" in expression
    return made(expression).fit(STRINGS, np.column_stack([LABELS, LABELS[::-1]]) if several else LABELS)


def answers(pipeline: Any) -> np.ndarray:
    """Return what a fitted pipeline says of the strings."""
    return np.asarray(getattr(pipeline, "predict" if hasattr(pipeline, "predict") else "transform")(STRINGS))


def compact(expression: str) -> None:
    """Check that fewer training objects give the same answers."""
    small = mc.compact(fitted(expression))
    assert any(part.kept < part.of for part in small.kept_)
    np.testing.assert_allclose(answers(small), answers(fitted(expression)), rtol=1e-8, atol=1e-8)


def explain(expression: str) -> None:
    """Check that contributions sum to the decision."""
    found = mc.explain(fitted(expression), STRINGS[:2])
    largest = max(np.abs(part).max() for part in found.contributions)  # Lars has coefficients of 1e8 that cancel
    assert np.abs(found.residual).max() < 1e-8 * max(1.0, largest)
    assert all(np.isfinite(part).all() for part in found.contributions)


def save(expression: str) -> None:
    """Check that a loaded pipeline gives the same answers."""
    np.testing.assert_array_equal(answers(again(fitted(expression))), answers(fitted(expression)))


def name(text: str) -> None:
    """Check that a public name has its parameters and attributes."""
    first, *rest = text.split()
    value = made(first)
    known = set(dir(value))
    if any(word.endswith("=") for word in rest):
        known |= {f"{parameter}=" for parameter in inspect.signature(value).parameters}
    assert not sorted(set(rest) - known)


CHECKS: dict[str, Callable[[str], None]] = {"compact": compact, "explain": explain, "save": save, "name": name}
CHECKS |= {kind: functools.partial(gram, kind) for kind in DATA}


def lost(section: str, entries: Iterable[str]) -> list[str]:
    """Return what does not work any more, with the reasons."""
    found = []
    for text in entries:
        try:
            CHECKS[section](text)
        except Exception as error:
            found.append(f"{section}: {text}\n{type(error).__name__}: {error}")
    return found


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("kind", [kind for kind in DATA if kind != "profiles"])
def test_some_kernels(kind):
    """Every sixth of the quick ones; the slow tests have all."""
    quick = [text for text in LISTED[kind] if "SwitchingLDS" not in text]
    assert not lost(kind, quick[::6])


@pytest.mark.parametrize(
    "section", [pytest.param(key, marks=pytest.mark.slow) if key != "name" else key for key in LISTED]
)
def test_all(section):
    assert not lost(section, LISTED[section])


READERS = {
    "read_fasta('a.fa', labels=1)": ">a 0\nACGT\n>b 1\nGGAT\n",
    "read_fasta('a.fastq')": "@a\nACGT\n+\nIIII\n@b\nGGAT\n+\nIIII\n",
    "next(fasta_blocks('a.fa', block_size=2))": ">a\nACGT\n>b\nGGAT\n>c\nGG\n",
    "read_alignment('a.fa')": ">a\nAC-T\n>b\nACGT\n",
    "read_alignment('a.sto')": "# STOCKHOLM 1.0\na AC-T\nb ACGT\n//\n",
    "read_svmlight('a.svm')": "0 1:2 3:1\n1 2:5\n",
    "read_ts('a.ts')": "@classLabel true 0 1\n@data\n1,2:3,4:0\n2,3:4,5:1\n",
    "read_ucr('a.tsv')": "0\t1.5\t2.5\n1\t0.5\t1.0\n",
    "read_table('a.csv')": "id,time,v,label\na,0,1.5,x\na,1,2.5,x\nb,0,0.5,y\nb,1,3.5,y\n",
    "read_table('a.tsv', id='id', values='text', label='label')": "id\ttext\tlabel\na\tACGT\tx\nb\tGGAT\ty\n",
    "read_bif('a.bif')": "variable a { type discrete [ 2 ] { x, y }; } probability ( a ) { table 0.2, 0.8; }\n",
    "read_hmmer('a.hmm')": None,
}


@pytest.mark.parametrize("call", READERS)
def test_readers(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if READERS[call] is None:
        mc.models.write_hmmer(DATA["profiles"][:2], "a.hmm")
    else:
        Path(call.split("'")[1]).write_text(READERS[call])
    found = eval(call, {}, Names(next=next))
    assert getattr(found, "X", found).shape[0] == (1 if "bif" in call else 2)


def test_every_reader_is_listed():
    listed = {call.removeprefix("next(").partition("(")[0] for call in READERS}
    assert {name for room in ROOMS for name in room.__all__ if name.startswith(("read_", "fasta_"))} == listed


COMMANDS = (
    "fit a.fa --label 1 --kernel spectrum -o m.mercer",
    "predict m.mercer a.fa",
    "explain m.mercer a.fa",
    "test a.fa b.fa --kernel 'Spectrum(k=2)' --permutations 19",
    "doctor",
)
SLOW_COMMANDS = ("compare a.fa --label 1 --folds 2",)


@pytest.mark.parametrize("commands", [COMMANDS, pytest.param(SLOW_COMMANDS, marks=pytest.mark.slow)])
def test_commands(commands, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from mercer.cli._app import app

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in "ab":
        strings = ["".join(rng.choice(list("ACGT"), 12)) for _ in range(20)]
        Path(f"{name}.fa").write_text("".join(f">{name}{i} {i % 2}\n{x}\n" for i, x in enumerate(strings)))
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, f"{command}: {result.output} {result.exception}"
    assert {one.name for one in app.registered_commands} == {text.split()[0] for text in COMMANDS + SLOW_COMMANDS}


_PAIR = "AffinePairHMM((2, -3), gap_open=5, gap_extend=2, alphabet='dna')"
PROGRAMS = {
    # By function of mercer.cuda: when it is chosen, and a kernel of models or data for which it is.
    "chains.fused_chains": (
        "chains of at most 32 states",
        "ProbabilityProduct()",
        "HMM(2, n_iter=2).fit_each(strings)",
    ),
    "forest.forest_sums": (
        "shared chains of at most 16 states",
        "Marginalization(HMM(2, n_iter=2)).fit(equal)",
        "equal",
    ),
    "gaussians.log_kernels": ("Gaussians of at most 12 coordinates", "MeanMap()", "Gaussian().fit_each(points)"),
    "kalman_pairs.pair_densities": (
        "500 systems or more, of at most 4 coordinates",
        "ProbabilityProduct(length=3)",
        "LDS(1, n_iter=2).fit_each(points)[[0, 1, 2, 3, 4] * 100]",
    ),
    "pairs_affine.affine_kernels": ("global affine gaps", f"Marginalization({_PAIR}).fit(strings)", "strings"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program, request):
    """On a GPU, compare with the CPU; elsewhere, look for the program without importing Triton."""
    module, function = program.split(".")
    spec = importlib.util.find_spec(f"mercer.cuda.{module}")
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    known = Names(points=DATA["points"], strings=DATA["strings"], equal=DATA["equal strings"])
    kernel, X = (eval(text, {}, known) for text in PROGRAMS[program][1:])
    expected = kernel.log(X)
    assert np.isfinite(expected).all()
    if importlib.util.find_spec("torch") is None or not request.getfixturevalue("torch").cuda.is_available():
        return
    with mc.config(device="cuda", memo_bytes=0):
        np.testing.assert_allclose(kernel.log(X), expected, rtol=1e-10, atol=1e-10)


def test_every_program_is_listed():
    folder = Path(importlib.util.find_spec("mercer.cuda").origin).parent
    assert {path.stem for path in folder.glob("[a-z]*.py")} == {program.split(".")[0] for program in PROGRAMS}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for _section, _entries in LISTED.items():
        sys.stdout.writelines(f"{text}\n" for text in lost(_section, _entries))
