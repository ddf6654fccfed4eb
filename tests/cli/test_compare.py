"""`mercer compare`: what it prints, writes and says."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.cli.command import run, said

from mercer._comparison.results import wilson
from mercer._comparison.summary import snippet
from mercer.cli import _demonstration, _own_data
from mercer.datasets import make_documents, make_families, make_hmm_sequences, make_point_sets

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Keep results in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, cache):
    """Run one comparison; returns the result and the files it wrote."""
    folder = tmp_path_factory.mktemp("compare")
    files = folder / "table.json", folder / "table.csv"
    written = ("--json", str(files[0]), "--csv", str(files[1]), "--report", str(folder / "report.html"))
    return run("compare", "--task", "point-sets", "--folds", "2", *written), files


class TestBuiltIn:
    def test_it_prints_a_table_in_which_the_recommended_method_is_marked(self, outcome):
        result, (as_json, _) = outcome
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        methods = [c.name for c in _demonstration.point_sets(0).contenders]
        rows = {m: next(line for line in lines if m in line and " [" in line) for m in methods}
        saved = {row["method"]: row for row in json.loads(as_json.read_text())["results"]}
        for method, row in rows.items():
            low, high = wilson(saved[method]["score"], 90)
            assert f"{saved[method]['score']:.3f} [{low:.3f}, {high:.3f}]" in row
        (marked,) = (m for m in methods if "*" in rows[m])
        assert saved[marked]["recommended"]
        wins = "is better than the best baseline" in result.stdout
        assert saved[marked]["is_kernel"] == wins
        assert "chosen within the training folds" in result.stdout
        below = lines[lines.index(rows["EmpiricalMeanMap"]) + 1]
        assert re.search(r"C=10*, gamma=[01]|gamma=[01.]+, C=10*", below)
        assert "point-sets: 90 sets of 8 to 30 points" in result.stdout

    def test_the_report_has_the_verdict_and_the_pictures(self, outcome):
        result, (as_json, _) = outcome
        page = as_json.with_name("report.html").read_text("utf-8")
        assert html.escape(json.loads(as_json.read_text())["verdicts"]["point-sets"]) in page
        assert "Kernel principal components" in page
        assert "Report: " in result.output

    def test_the_files_have_what_was_printed(self, outcome):
        result, (as_json, as_csv) = outcome
        saved = json.loads(as_json.read_text())
        with as_csv.open(newline="") as stream:
            again = list(csv.DictReader(stream))
        assert [row["method"] for row in saved["results"]] == [row["method"] for row in again]
        assert all(f"{row['score']:.3f}" in result.stdout for row in saved["results"])
        assert saved["seed"] == 0
        assert saved["folds"] == 2
        assert saved["complete"]
        assert saved["version"]
        for row in saved["results"]:
            assert row["chosen"] in result.stdout
            assert len(row["fold_scores"]) == len(row["parameters"]) == 2
            assert (row["difference"] is not None) == row["is_kernel"]
            assert row["fit_seconds"] >= 0
            assert row["predict_seconds"] > 0
        assert saved["verdicts"]["point-sets"] in result.stdout

    def test_kernels_beat_what_knows_nothing(self, outcome):
        rows = {row["method"]: row["score"] for row in json.loads(outcome[1][0].read_text())["results"]}
        blind = max(rows["majority class"], rows["number of points"], rows["RBF SVM on means"])
        assert all(rows[m] > blind + 0.2 for m in ("ProbabilityProduct", "JensenShannon, exp", "EmpiricalMeanMap"))

    def test_a_second_run_reads_what_was_kept_and_json_goes_to_the_output(self, outcome):
        again = run("compare", "--task", "point-sets", "--folds", "2", "--json", "-")
        found = json.loads(again.stdout)
        first = json.loads(outcome[1][0].read_text())
        assert found["results"] == first["results"]
        assert "16 of 16 folds come from earlier runs; --fresh computes them again" in again.stderr

    @pytest.mark.parametrize("task", list(_demonstration.TASKS))
    def test_every_kernel_of_every_task_has_code_that_runs(self, task):
        made = {"point-sets": make_point_sets, "proteins": make_families}.get(task, make_documents)
        X, y = made(12, random_state=0)
        if task == "series":
            X, y = make_hmm_sequences(12, n_features=2, random_state=0)
        if task == "phylogeny":
            X, y = _demonstration.phylogeny(0).X[:12], _demonstration.phylogeny(0).y[:12]
        for contender in _demonstration.TASKS[task](0).contenders:
            if contender.is_kernel:
                names: dict[str, object] = {"X": X, "y": y}
                exec(snippet(contender), names)
                assert names["model"].predict(names["X"]).shape == y.shape

    def test_the_seed_decides(self):
        first, again, other = (_demonstration.proteins(seed).X for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_unknown_task(self):
        result = run("compare", "--task", "sonnets")
        assert result.exit_code == 2
        tasks = "series, proteins, documents, phylogeny, point-sets"
        assert said(result) == f"--task must be one of {tasks}; got 'sonnets'."

    @pytest.mark.parametrize(
        "option", [("--label", "1"), ("--group", "1"), ("--alphabet", "dna"), ("--limit", "300"), ("--skip-bad",)]
    )
    def test_options_about_data_without_any(self, option):
        result = run("compare", "--task", "proteins", *option)
        assert result.exit_code == 2
        assert said(result).startswith(f"{option[0]} applies to your own data only; pass a file or folder")

    def test_a_file_that_cannot_be_written_is_found_first(self, tmp_path):
        result = run("compare", "--json", str(tmp_path / "none" / "x.json"))
        assert result.exit_code == 2
        assert re.search(r"x\.json cannot be written .* create the folder first", said(result))


@pytest.fixture
def few_contenders(monkeypatch):
    """Compare own data by fast methods only."""
    few = ("majority class", "length only", "linear, frequencies", "Spectrum")
    all_of = _own_data.contenders
    monkeypatch.setattr(_own_data, "contenders", lambda *a: [c for c in all_of(*a) if c.name in few])


@pytest.fixture(scope="module")
def strings(tmp_path_factory, cache):
    """Comparison on a FASTA file; returns the result, the file and the numbers."""
    folder = tmp_path_factory.mktemp("strings")
    path, numbers = folder / "toy.fa", folder / "toy.json"
    X, y = make_hmm_sequences(36, length=(25, 45), certainty=0.9, noise=0.0, random_state=0)
    letters = str.maketrans("abc", "ACG")
    lines = [
        f">s{i} gene{i // 4}|class{c}\n{x.translate(letters)}\n" for i, (x, c) in enumerate(zip(X, y, strict=True))
    ]
    path.write_text("".join(lines))
    arguments = ("--label", "2", "--group", r"gene(\d+)", "--folds", "2", "--json", str(numbers))
    return run("compare", str(path), *arguments), path, json.loads(numbers.read_text())


class TestOwnData:
    def test_kernels_of_sequences_race_on_strings(self, strings):
        result, _, saved = strings
        assert result.exit_code == 0, result.output
        rows = saved["results"]
        score = {row["method"]: row["score"] for row in rows}
        kernels = [row["method"] for row in rows if row["is_kernel"]]
        assert {"Spectrum", "Fisher, Markov chain", "Fisher, HMM", "ProbabilityProduct, HMM"} <= set(kernels)
        blind = max(score[m] for m in ("majority class", "length only", "linear, frequencies"))
        assert min(score["Spectrum"], score["Fisher, Markov chain"]) > max(0.9, blind)
        assert "36 strings of ACGT (dna), length 25 to 45; 2 classes, 9 groups that stay in one fold" in result.stdout
        assert "is better than the best baseline" in saved["verdicts"]["toy.fa"]

    def test_the_closing_lines_run_as_they_are(self, strings):
        _, path, saved = strings
        names: dict[str, object] = {}
        exec(saved["code"], names)
        assert len(names["y"]) == 36
        assert names["model"].score(names["X"], names["y"]) > 0.9
        assert re.search(
            rf"Next: mercer fit {path} --label 2 --group .* --kernel \S+ -o model.mercer", strings[0].stdout
        )
        assert re.search(r"Read: +docs/kernels/\w+\.md", strings[0].stdout)

    def test_random_labels_recommend_nothing(self, tmp_path, few_contenders):
        path = tmp_path / "noise.fa"
        rng = np.random.default_rng(0)
        strings = ["".join(rng.choice(list("ACGT"), 20)) for _ in range(30)]
        path.write_text("".join(f">s{i}|{'ab'[i % 2]}\n{x}\n" for i, x in enumerate(strings)))
        result = run("compare", str(path), "--label", "1", "--folds", "2", "--json", "-")
        assert json.loads(result.stdout)["recommended"] is None
        assert "No kernel is recommended." in result.stderr

    def test_the_report_is_for_readers_without_the_command(self, tmp_path, few_contenders):
        path, page = tmp_path / "toy.fa", tmp_path / "toy.html"
        good = [f">s{i}|{'ab'[i % 2]}\n{'AC'[i % 2] * 8}{'ACGT'[i % 4]}G\n" for i in range(24)]
        path.write_text("".join([*good, *(f">bad{i}|a\n\n" for i in range(7))]))
        options = ("--label", "1", "--skip-bad", "--folds", "2", "--report", str(page))
        result = run("compare", str(path), *options)
        names = "'bad0|a', 'bad1|a', 'bad2|a', 'bad3|a', 'bad4|a' and 2 others"
        assert f"7 records were skipped: {names}; first reason: " in result.stdout
        assert "pass --skip-bad" not in result.stdout
        assert "To correct it, pass --label" in result.stdout
        text, _ = page.read_text("utf-8").split("<h3>Command</h3>")
        text = html.unescape(re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", text, flags=re.DOTALL))
        assert "toy.fa: the label (2 classes). 24 of 24 samples are identical to another one" in text
        assert (
            f"7 records were skipped: {names}; first reason: toy.fa, line 49: sequence 'bad0|a' has no symbols" in text
        )
        assert not re.search(r"(?<!\w)--[a-z]|To correct|\bpass\b", text)
        assert "1 - accuracy is 0.000 at every C" in text  # all right, for any C: no picture of nothing
        assert "[0.510, 1.000]" in text  # four different strings

    def test_more_data_are_asked_for_only_if_some_were_left_out(self, tmp_path, few_contenders):
        rng = np.random.default_rng(0)
        path = tmp_path / "noise.fa"
        path.write_text("".join(f">s{i}|{'ab'[i % 2]}\n{''.join(rng.choice(list('ACGT'), 9))}\n" for i in range(30)))
        arguments = ("compare", str(path), "--label", "1", "--folds", "2")
        assert "(--limit)" not in run(*arguments).stdout
        assert "Next: mercer compare with more data (--limit)" in run(*arguments, "--limit", "24").stdout

    def test_nothing_that_finishes_is_exit_code_1(self, strings):
        result = run("compare", str(strings[1]), "--label", "2", "--budget", "0.001s", "--fresh", "--quiet")
        assert result.exit_code == 1
        assert "No kernel finished." in result.stdout
        assert "was not tried, because the budget of 0.001 s was used up; increase --budget" in result.stdout

    @pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
    def test_ctrl_c_leaves_a_partial_table_and_json(self, tmp_path):
        path = tmp_path / "part.json"
        command = [sys.executable, "-m", "mercer", "compare", "--task", "proteins", "--json", str(path)]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        while not [*tmp_path.glob("**/*.jsonl")] and process.poll() is None:  # until a fold is done
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        if process.returncode == 0:
            pytest.skip("this machine was done before it was interrupted")
        assert process.returncode == 130
        assert "Interrupted: this table is partial. Run the same command again to resume." in output
        saved = json.loads(path.read_text())
        assert not saved["complete"]
        assert saved["unfinished"]
