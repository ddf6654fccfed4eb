"""The command: what it prints, writes and says when it cannot."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from typer.testing import CliRunner

import mercer
from mercer import cli
from mercer.cli import _compare, _contenders, _files, _race
from mercer.cli._app import app
from mercer.datasets import make_dna, make_documents, make_families, make_hmm_sequences, make_point_sets


def run(*arguments: str, **environment: str | None):
    return CliRunner().invoke(app, arguments, env=environment, catch_exceptions=False)


def said(result) -> str:
    """Return the one sentence on the error stream."""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Run one race; returns the result and the files it wrote."""
    folder = tmp_path_factory.mktemp("compare")
    files = folder / "race.json", folder / "race.csv"
    written = ("--json", str(files[0]), "--csv", str(files[1]))
    return run("compare", "--task", "point-sets", "--folds", "3", *written), files


@pytest.mark.slow
class TestCompare:
    def test_it_prints_a_table_with_the_best_marked(self, outcome):
        result, _ = outcome
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        methods = [c.name for c in _compare.point_sets(0).contenders]
        rows = {m: next(line for line in lines if m in line and "±" in line) for m in methods}
        accuracies = {m: float(row.split("±")[0].split()[-1]) for m, row in rows.items()}
        best = max(accuracies.values())
        assert all(accuracies[m] == best for m in methods if "*" in rows[m])
        assert any("*" in row for row in rows.values())
        assert "chosen by cross-validation within the training folds" in result.stdout

    def test_the_files_have_what_was_printed(self, outcome):
        result, (as_json, as_csv) = outcome
        rows = json.loads(as_json.read_text())
        with as_csv.open(newline="") as stream:
            again = list(csv.DictReader(stream))
        assert [row["method"] for row in rows] == [row["method"] for row in again]
        assert all(f"{row['accuracy']:.3f}" in result.stdout for row in rows)

    def test_kernels_beat_what_knows_nothing(self, outcome):
        rows = {row["method"]: row["accuracy"] for row in json.loads(outcome[1][0].read_text())}
        blind = max(rows["majority class"], rows["number of points"], rows["RBF SVM on means"])
        assert all(rows[m] > blind + 0.2 for m in ("ProbabilityProduct", "JensenShannon, exp", "EmpiricalMeanMap"))

    def test_the_closing_lines_run(self, outcome):
        code = outcome[0].stdout.partition("for your X and y:")[2]
        X, y = make_point_sets(12, random_state=0)
        names: dict[str, object] = {"X": X, "y": y}
        exec(code, names)
        assert names["classifier"].predict(X).shape == (12,)

    @pytest.mark.slow
    @pytest.mark.parametrize("task", list(_compare.TASKS))
    def test_every_kernel_of_every_task_has_code_that_runs(self, task):
        made = {"point-sets": make_point_sets, "dna": make_dna, "proteins": make_families}.get(task, make_documents)
        X, y = made(12, random_state=0)
        for contender in _compare.TASKS[task](0).contenders:
            if contender.kernel is not None:
                names: dict[str, object] = {"X": X.toarray() if task in ("vectors", "digits") else X, "y": y}
                exec(_race.snippet(contender), names)
                assert names["classifier"].predict(names["X"]).shape == y.shape

    def test_the_seed_decides(self):
        first, again, other = (_compare.dna(seed).X for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_unknown_task(self):
        result = run("compare", "--task", "sonnets")
        assert result.exit_code == 2
        tasks = "documents, digits, vectors, point-sets, dna, proteins"
        assert said(result) == f"--task must be one of {tasks}; got 'sonnets'."

    @pytest.mark.parametrize(
        "option", [("--labels", "1"), ("--groups", "1"), ("--alphabet", "dna"), ("--limit", "300")], ids=lambda o: o[0]
    )
    def test_options_about_a_file_without_one(self, option):
        result = run("compare", "--task", "dna", *option)
        assert result.exit_code == 2
        assert said(result).startswith(f"{option[0]} applies to files only; pass a file")

    def test_a_file_that_cannot_be_written_is_found_first(self, tmp_path):
        result = run("compare", "--json", str(tmp_path / "none" / "x.json"))
        assert result.exit_code == 2
        assert re.search(r"x\.json cannot be written .* create the folder first", said(result))


@pytest.fixture(scope="module")
def strings(tmp_path_factory):
    """Race on a FASTA file; returns the result, the file and the numbers."""
    folder = tmp_path_factory.mktemp("strings")
    path, numbers = folder / "toy.fa.gz", folder / "toy.json"
    X, y = make_hmm_sequences(36, length=(25, 45), certainty=0.9, noise=0.0, random_state=0)
    letters = str.maketrans("abc", "ACG")
    lines = [
        f">s{i} gene{i // 4}|class{c}\n{x.translate(letters)}\n" for i, (x, c) in enumerate(zip(X, y, strict=True))
    ]
    path.write_bytes(gzip.compress("".join(lines).encode()))
    arguments = ("--labels", "2", "--groups", r"gene(\d+)", "--folds", "2", "--json", str(numbers))
    return run("compare", str(path), *arguments), path, json.loads(numbers.read_text())


@pytest.mark.slow
class TestCompareFile:
    def test_kernels_of_sequences_race_on_strings(self, strings):
        result, _, rows = strings
        assert result.exit_code == 0, result.output
        accuracy = {row["method"]: row["accuracy"] for row in rows}
        kernels = [row["method"] for row in rows if row["is_kernel"]]
        assert {"Spectrum", "Fisher, Markov chain", "Fisher, HMM", "ProbabilityProduct, HMM"} <= set(kernels)
        blind = max(accuracy[m] for m in ("majority class", "length only", "logistic regression on frequencies"))
        assert min(accuracy["Spectrum"], accuracy["Fisher, Markov chain"]) > max(0.9, blind)
        assert "left out" not in result.stdout
        about = "36 strings of ACGT (dna), length 25 to 45, 2 classes, 9 groups that stay in one fold"
        assert about in result.stdout

    def test_the_closing_lines_run_as_they_are(self, strings):
        code = strings[0].stdout.partition("The best kernel on ")[2].partition(":\n")[2]
        names: dict[str, object] = {}
        exec(code, names)
        assert len(names["y"]) == 36
        assert names["classifier"].score(names["X"], names["y"]) > 0.9

    def test_every_kernel_on_vectors_has_code_that_runs(self, tmp_path):
        path = tmp_path / "toy.ts"
        X, y = make_hmm_sequences(24, length=(10, 20), n_features=2, random_state=0)
        series = (":".join(",".join(map(str, channel)) for channel in x.T) for x in X)
        lines = ["@classLabel true 0 1", "@data", *(f"{x}:{c}" for x, c in zip(series, y, strict=True))]
        path.write_text("\n".join(lines))
        task = _files.file_task(path, folds=2)
        assert task.about == "24 series of dimension 2, length 10 to 20, 2 classes"
        names = [c.name for c in task.contenders]
        assert names[:3] == ["majority class", "length only", "RBF SVM on means and spreads"]
        for contender in task.contenders:
            if contender.kernel is not None:
                found: dict[str, object] = {}
                exec(_race.snippet(contender, task.reading), found)
                assert found["classifier"].predict(found["X"]).shape == (24,)

    def test_kernels_of_sequences_race_on_series(self, tmp_path):
        path, numbers = tmp_path / "toy.ts", tmp_path / "toy.json"
        X, y = make_hmm_sequences(24, length=(10, 20), n_features=2, random_state=0)
        series = (":".join(",".join(map(str, channel)) for channel in x.T) for x in X)
        lines = ["@classLabel true 0 1", "@data", *(f"{x}:{c}" for x, c in zip(series, y, strict=True))]
        path.write_text("\n".join(lines))
        result = run("compare", str(path), "--folds", "2", "--json", str(numbers))
        assert result.exit_code == 0, result.output
        assert "24 series of dimension 2, length 10 to 20, 2 classes" in result.stdout
        assert "left out" not in result.stdout
        rows = json.loads(numbers.read_text())
        assert {"Fisher, HMM", "ProbabilityProduct, HMM"} <= {row["method"] for row in rows if row["is_kernel"]}
        assert all(0 <= row["accuracy"] <= 1 for row in rows)

    def test_a_table_of_equal_lengths_has_no_length_to_live_on(self, tmp_path):
        path = tmp_path / "toy.tsv"
        rng = np.random.default_rng(0)
        path.write_text("\n".join("\t".join(map(str, [i % 2, *rng.normal(size=8)])) for i in range(30)))
        task = _files.file_task(path, folds=2, limit=20)
        assert task.about == "20 of 30 series of dimension 1, length 8, 2 classes"
        assert "length only" not in [c.name for c in task.contenders]
        again, other = (_files.file_task(path, folds=2, limit=20, seed=seed) for seed in (0, 1))
        assert np.array_equal(task.X.values, again.X.values)
        assert not np.array_equal(task.X.values, other.X.values)

    def test_who_cannot_take_the_data_is_left_out_with_the_reason(self, tmp_path, monkeypatch):
        path = tmp_path / "toy.csv"
        path.write_text("\n".join(f"{'ab'[i % 2]},{i % 2},{i % 2 + 0.1 * (i % 5)}" for i in range(20)))

        class Refuses(DummyClassifier):
            def fit(self, X, y):
                raise ValueError("sequence 3 is odd; make it even")

        some = [_race.Contender("majority class", DummyClassifier()), _race.Contender("choosy", Refuses())]
        monkeypatch.setattr(_files, "contenders", lambda X, seed: some)
        result = run("compare", str(path), "--folds", "2")
        assert result.exit_code == 0, result.output
        assert "choosy was skipped: sequence 3 is odd; make it even" in result.stdout

    def test_a_short_string_drops_no_kernel_of_a_markov_chain(self, tmp_path):
        path = tmp_path / "toy.fa"
        X, y = make_dna(20, length=(20, 30), random_state=0)
        strings = ["A", *X[1:]]
        path.write_text("".join(f">s{i}|{c}\n{x}\n" for i, (x, c) in enumerate(zip(strings, y, strict=True))))
        task = _files.file_task(path, labels="1", folds=2)
        (fisher,) = (c for c in task.contenders if c.name == "Fisher, Markov chain")
        assert 0 <= _race.race("toy", task, fisher, folds=2, seed=0).accuracy <= 1

    def test_proteins_are_aligned_by_a_substitution_matrix(self, tmp_path):
        pytest.importorskip("Bio")
        path = tmp_path / "toy.fasta"
        path.write_text("".join(f">s{i} {'ab'[i % 2]}\n{'MKWVTF' * (2 + i % 3)}\n" for i in range(12)))
        (pairs,) = (c for c in self._task(path).contenders if c.name == "Marginalization, pair HMM")
        assert pairs.kernel.get_params()["kernel__model__substitution"] == "BLOSUM62"
        assert pairs.grid["tempered__kernel__model__gap_open"] == (8, 11)

    @staticmethod
    def _task(path):
        return _files.file_task(path, labels="1", folds=2, alphabet="protein" if path.suffix == ".fasta" else None)

    @pytest.mark.parametrize("letters", ["ACGT", "ab", "MKWVTF"], ids=["dna", "two letters", "no Biopython"])
    def test_other_strings_are_aligned_by_equal_or_not(self, tmp_path, monkeypatch, letters):
        monkeypatch.setattr(_contenders, "find_spec", lambda name: None)
        path = tmp_path / f"toy.{'fasta' if len(letters) == 6 else 'fa'}"
        rng = np.random.default_rng(0)
        ancestors = ["".join(rng.choice(list(letters), 30)) for _ in range(2)]
        strings = [ancestors[i % 2][: 24 + i // 2] + letters[i % len(letters)] for i in range(12)]
        path.write_text("".join(f">s{i} {'ab'[i % 2]}\n{string}\n" for i, string in enumerate(strings)))
        task = self._task(path)
        assert "Marginalization, HMM" not in [c.name for c in task.contenders]  # lengths differ
        (pairs,) = (c for c in task.contenders if c.name == "Marginalization, pair HMM")
        assert pairs.kernel.get_params()["kernel__model__substitution"] == (1, -1)
        assert _race.race("toy", task, pairs, folds=2, seed=0).accuracy == 1
        found: dict[str, object] = {}
        exec(_race.snippet(pairs, task.reading), found)
        assert found["classifier"].score(found["X"], found["y"]) == 1

    def test_strings_of_one_length_share_a_path(self, tmp_path):
        path = tmp_path / "toy.fa"
        lines = [f">s{i} {'ab'[i % 2]}\n{('AACC', 'CCAA')[i % 2] * 3 + 'GT'[i // 2 % 2]}\n" for i in range(12)]
        path.write_text("".join(lines))
        task = self._task(path)
        (same,) = (c for c in task.contenders if c.name == "Marginalization, HMM")
        assert _race.race("toy", task, same, folds=2, seed=0).accuracy == 1

    def test_what_is_too_long_is_not_aligned(self, tmp_path, monkeypatch):
        path = tmp_path / "toy.fa"
        path.write_text(self.FASTA)
        assert "too long" not in self._task(path).about
        monkeypatch.setattr(_files, "CELLS", 72**2 / 2 - 1)  # of 12 strings of 6 letters
        task = self._task(path)
        assert re.search("too long for alignment kernels .*decrease --limit, or use mc.AffinePairHMM", task.about)
        assert "Marginalization, pair HMM" not in [c.name for c in task.contenders]

    def test_groups_are_never_cut(self):
        y, groups = np.arange(60) % 2, np.arange(60) // 5
        for train, test in _race._splits(y, groups, np.arange(60), 3, 0):
            assert not set(groups[train]) & set(groups[test])

    FASTA = "".join(f">s{i}|{'ab'[i % 2]}|g{i % 3}\nACGTAC\n" for i in range(12))

    @pytest.mark.parametrize(
        ("name", "content", "arguments", "sentence"),
        [
            ("x.fa", FASTA, (), r"x.fa requires --labels .* pass a field number"),
            ("x.fa", FASTA, ("--labels", "9"), r"line 1: the header 's0\|a\|g0' has 3 .* labels=9 is out of range"),
            ("x.fa", FASTA, ("--labels", "(s)"), "two classes are required; got only 's'. Check --labels"),
            (
                "x.fa",
                FASTA,
                ("--labels", "0"),
                "12 sequences has a different class; check that --labels",
            ),
            ("x.fa", FASTA, ("--labels", "1", "--groups", "2"), "3 groups are too few for 5 folds; check --groups"),
            ("x.fa", FASTA + ">z|a|g\nAC-T", ("--labels", "1"), "line 26: sequence 'z.a.g' has the symbol '-'"),
            ("x.ts", "@classLabel true a\n@data\n1:b", (), "line 3: 'b', after the last colon, is not a label"),
            ("x.ts", "@classLabel false\n@data\n1,2", (), "has no classes, .* write @classLabel true"),
            ("x.ts", "@targetLabel true\n@data\n1,2:3", (), "has no classes, .* write @classLabel true"),
            ("x.tsv", "1\t2", ("--labels", "1"), "--labels applies to FASTA files only .* omit it"),
            ("x.doc", "1\t2", (), "x.doc must be one of .fa, .*; got '.doc'. Rename"),
        ],
    )
    def test_files_that_cannot_race(self, tmp_path, name, content, arguments, sentence):
        path = tmp_path / name
        path.write_text(content)
        result = run("compare", str(path), *arguments)
        assert result.exit_code == 1
        assert re.search(sentence, said(result))

    def test_no_file_and_a_task_beside_it(self, tmp_path):
        result = run("compare", str(tmp_path / "none.fa"))
        assert result.exit_code == 2
        assert said(result).endswith("none.fa does not exist; pass the path of a file.")
        (tmp_path / "x.fa").write_text(self.FASTA)
        result = run("compare", str(tmp_path / "x.fa"), "--task", "dna")
        assert said(result) == "--task selects built-in data; pass a file or --task, not both."


class TestReproduce:
    def test_without_arguments_it_lists(self):
        for arguments in (("reproduce",), ("reproduce", "agarwal2011")):
            result = run(*arguments)
            assert result.exit_code == 0
            assert "mercer reproduce agarwal2011 table1" in result.stdout
            assert "mercer reproduce agarwal2011 table2" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (
                ("shakespeare1600",),
                r"one of jebara2004, mehta.*; got 'shakespeare1600'",
            ),
            (("agarwal2011", "table9"), r"agarwal2011 must be one of table1, table2.*; got 'table9'"),
            (
                ("agarwal2011", "table1", "--data", "none"),
                "--data must be the folder .*; none is not a folder",
            ),
        ],
    )
    def test_unknown_names(self, arguments, sentence):
        result = run("reproduce", *arguments)
        assert result.exit_code == 2
        assert re.search(sentence, said(result))

    def test_missing_data(self, tmp_path, monkeypatch):
        monkeypatch.delenv("MERCER_DATA", raising=False)
        result = run("reproduce", "agarwal2011", "table1", "--data", str(tmp_path))
        assert result.exit_code == 1
        assert "MERCER_DATA" not in os.environ
        assert "has neither webkb-train-stemmed.txt nor webkb-train-stemmed.txt.gz" in said(result)

    @pytest.mark.slow
    @pytest.mark.usefixtures("real")
    def test_quick_on_the_real_news(self, tmp_path):
        path = tmp_path / "table2.json"
        result = run("reproduce", "agarwal2011", "table2", "--quick", "--draws", "2", "--json", str(path))
        assert result.exit_code == 0, result.output
        cells = json.loads(path.read_text())
        assert [cell["task"] for cell in cells] == ["acq vs. earn"] * 7 + ["acq vs. crude"] * 7
        assert all(0 < cell["best"] < 0.2 for cell in cells)
        for label in ("ours (CV)", "ours (best)", "paper", "mean", ".069"):
            assert label in result.stdout
        assert "R8" in result.stdout.splitlines()[-1]


class TestEntry:
    def test_version(self):
        assert run("--version").stdout.strip() == mercer.__version__

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_without_the_extra(self, missing, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, missing, None)
        monkeypatch.delitem(sys.modules, "mercer.cli._app")
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert caught.value.code == 2
        assert capsys.readouterr().err == f"The command mercer requires {missing}; run pip install 'mercer[cli]'.\n"

    def test_importing_mercer_needs_no_extra(self):
        code = "import sys, mercer; print({'typer', 'rich', 'matplotlib', 'mercer.cli'} & set(sys.modules))"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "set()"

    def test_the_installed_command(self):
        command = Path(sys.executable).parent / "mercer"
        if not command.exists():
            pytest.skip("mercer is not installed here: pip install -e '.[test]'")
        found = subprocess.run([command, "--help"], capture_output=True, text=True, check=True, env={**os.environ})
        assert "compare" in found.stdout
        assert "reproduce" in found.stdout
