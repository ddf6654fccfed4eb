"""New data are read as the training data were; inputs are never written; messages name options as they are typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import run, said

import mercer as mc
from mercer._comparison.evaluation import Fold
from mercer._comparison.results import Result, interval_of
from mercer._comparison.runner import FoldCache, _key
from mercer._comparison.summary import snippet
from mercer.cli import _fitting, _own_data
from mercer.cli._data_options import Reading
from mercer.cli._own_data import Known
from mercer.cli._readers import read

KERNEL = "EmpiricalMeanMap(gamma=0.1)"


def write_fasta(path, letters, n=20):
    rng = np.random.default_rng(0)
    strings = ("".join(rng.choice(list(letters), 12)) + letters[i % 2] * 4 for i in range(n))
    path.write_text("".join(f">s{i}|{'ab'[i % 2]}\n{x}\n" for i, x in enumerate(strings)))
    return path


def write_long(path, step=1.0, names=("id", "time", "v", "label"), n=20):
    rng = np.random.default_rng(0)
    rows = [f"r{i},{t * step:g},{rng.normal() + 3 * (i % 2):.3f},{'ab'[i % 2]}" for i in range(n) for t in range(6)]
    path.write_text("\n".join([",".join(names), *rows]))
    return path


def fitted(path, *arguments, kernel=KERNEL):
    """Fit a model to a file, and return its path."""
    saved = path.with_suffix(".mercer")
    result = run("fit", str(path), *arguments, "--kernel", kernel, "-o", str(saved))
    assert result.exit_code == 0, result.output
    return saved


class TestResults:
    @pytest.mark.slow
    def test_a_new_process_finds_the_results_of_strings(self, tmp_path):
        code = (
            "import sys; from pathlib import Path; from mercer.cli import _own_data; "
            "from mercer.cli._data_options import Reading; from mercer._comparison.runner import FoldCache, _key; "
            "task = _own_data.task_of(Path(sys.argv[1]), Reading(label='1'), limit=99, folds=2, seed=0); "
            "print(FoldCache(Path('x'), 2, 0)._path(task), [_key(c) for c in task.contenders])"
        )
        path = write_fasta(tmp_path / "x.fa", "ACGT")
        other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        command = [sys.executable, "-c", code, str(path)]
        environment = {**os.environ, "PYTHONHASHSEED": other}
        found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        task = _own_data.task_of(path, Reading(label="1"), limit=99, folds=2, seed=0)
        assert found.split(" ", 1)[0] == str(FoldCache(Path("x"), 2, 0)._path(task))
        assert found.split(" ", 1)[1].strip() == str([_key(c) for c in task.contenders])

    def test_fresh_results_replace_the_old_ones(self, tmp_path):
        task = _own_data.task_of(write_long(tmp_path / "x.csv"), Reading(confounds=None), limit=99, folds=2, seed=0)
        contender = task.contenders[0]
        old, new = (Fold(0, score, 0.5, [0.0], 1.0, 1.0, 1.0, {}) for score in (0.25, 0.75))
        FoldCache(tmp_path / "kept", 2, 0).add(task, contender, old)
        fresh = FoldCache(tmp_path / "kept", 2, 0, fresh=True)
        assert fresh.folds(task, contender) == {}
        fresh.add(task, contender, new)
        assert FoldCache(tmp_path / "kept", 2, 0).folds(task, contender) == {0: new}

    def test_intervals_and_code_of_baselines(self, tmp_path):
        task = _own_data.task_of(write_long(tmp_path / "x.csv"), Reading(), limit=99, folds=2, seed=0)
        plain = next(c for c in task.contenders if c.name == "majority class")
        folds = [Fold(i, 0.5, 0.5, [0.0, 1.0] * 5, 1.0, 1.0, 1.0, {}) for i in range(2)]
        low, high = interval_of(Result("x", plain, folds), task, 20, 2, 0)
        assert (low + high) / 2 == pytest.approx(0.5)
        assert 0.29 < low < 0.31  # 0.5 +- 0.5 * 1.96 / sqrt(20 + 1.96**2)
        space: dict[str, object] = {}
        exec(snippet(plain, None, task.reading), space)
        assert space["model"].predict(space["X"]).shape == (20,)


class TestAlphabets:
    @pytest.mark.parametrize("new", ["AACCAACC", "ACGTACGTACGT", "XKXWA"], ids=["few", "like DNA", "ambiguous"])
    def test_new_strings_have_the_alphabet_of_the_old_ones(self, tmp_path, new):
        path = write_fasta(tmp_path / "old.fa", "ACDEFGHIKLMNPQRSTVWY")
        saved = fitted(path, "--label", "1", kernel="Spectrum(k=1)")
        (tmp_path / "new.fa").write_text(f">n\n{new}\n")
        result = run("predict", str(saved), str(tmp_path / "new.fa"))
        assert result.exit_code == 0, result.output
        assert said(result).endswith(f"1 string of ACDEFGHIKLMNPQRSTVWY (protein), length {len(new)}")

    def test_other_letters_follow_the_option_of_the_training(self, tmp_path):
        path, new = write_fasta(tmp_path / "old.fa", "ACGT"), tmp_path / "new.fa"
        new.write_text(">good\nACGTACGT\n>bad\nACXXGT\n")
        saved = fitted(path, "--label", "1", kernel="Spectrum(k=1)")
        result = run("predict", str(saved), str(new))
        assert result.exit_code == 2
        assert said(result).endswith(
            "'X' at position 2, which is not in the alphabet ACGT (dna); pass --skip-bad to skip such records, or fit "
            "the model again with --unknown missing."
        )
        result = run("predict", str(saved), str(new), "--skip-bad")
        assert result.stdout.splitlines()[1].startswith("good,")
        assert said(result).endswith("which is not in the alphabet ACGT (dna)")
        saved = fitted(path, "--label", "1", "--unknown", "missing", kernel="Spectrum(k=1)")
        assert len(run("predict", str(saved), str(new)).stdout.splitlines()) == 3

    def test_strings_in_tables(self, tmp_path):
        path = tmp_path / "old.csv"
        path.write_text("text,label\n" + "".join(f"{'xyz'[i % 3]}{'pq'[i % 2] * 5},{'ab'[i % 2]}\n" for i in range(20)))
        saved = fitted(path, kernel="Spectrum(k=1)")
        (tmp_path / "new.csv").write_text("text\npppx\nqqqq\n")
        result = run("predict", str(saved), str(tmp_path / "new.csv"), "--json", "-")
        assert [row["prediction"] for row in json.loads(result.stdout)] == ["a", "b"]

    def test_models_without_an_alphabet_are_read_as_before(self, tmp_path):
        path = write_fasta(tmp_path / "x.fa", "ACGT")
        known = Known.from_file({"reader": "fasta", "is_folder": False, "columns": {}, "words": None})
        assert known.alphabet is known.step is known.length is None
        assert read(path, Reading(label="1"), known=known).X.alphabet == mc.data.Alphabet.of("dna")


class TestOtherForms:
    """A folder of recordings and a long table of the same recordings are read with the same model."""

    def write_folder(self, path):
        for i in range(20):
            name = path / "ab"[i % 2] / f"r{i}.csv"
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_text("\n".join(["time,v", *(f"{t},{3 * (i % 2) + t / 9:.3f}" for t in range(6))]))
        return path

    def predictions(self, *arguments):
        result = run("predict", *map(str, arguments), "--json", "-")
        assert result.exit_code == 0, result.output
        return [row["prediction"] for row in json.loads(result.stdout)]

    def test_a_model_of_a_folder_and_a_table(self, tmp_path):
        saved = fitted(self.write_folder(tmp_path / "runs"))
        new = write_long(tmp_path / "new.csv")
        assert self.predictions(saved, new, "--id", "id") == ["a", "b"] * 10
        result = run("predict", str(saved), str(new))
        assert result.exit_code == 2
        assert "sequence 'new' has two rows at the time 0" in said(result)
        assert "pass --id with all columns that name a series" in said(result)
        assert run("explain", str(saved), str(new), "--id", "id").exit_code == 0

    def test_a_model_of_a_table_and_a_folder(self, tmp_path):
        saved = fitted(write_long(tmp_path / "old.csv"))
        assert self.predictions(saved, self.write_folder(tmp_path / "runs")) == ["a"] * 10 + ["b"] * 10
        new = write_long(tmp_path / "new.csv", names=("trial", "when", "v", "label"))
        result = run("predict", str(saved), str(new))
        assert "The model requires 'id' (id), which is not a column" in said(result)
        assert "Pass --id with the column that names the series" in said(result)
        result = run("predict", str(saved), str(new), "--id", "trial")
        assert said(result).endswith("'trial', 'when', 'v', 'label'. Pass --time with the column of the time.")
        for options, hint in (
            (["--id", "trail"], "Did you mean 'trial'?"),
            (["--id", "trial", "--time", "nope"], "'label'."),
        ):
            result = said(run("predict", str(saved), str(new), *options))
            assert f"{options[-2]} {options[-1]} is not a column of {new}; its columns are 'trial', 'when'" in result
            assert result.endswith(hint)
            assert "requires" not in result
        assert self.predictions(saved, new, "--id", "trial", "--time", "when") == ["a", "b"] * 10
        assert run("explain", str(saved), str(new), "--id", "trial", "--time", "none").exit_code == 0

    def test_advice_is_what_a_prediction_can_do(self, tmp_path):
        saved = fitted(write_long(tmp_path / "old.csv"))
        (tmp_path / "new.csv").write_text("id,time,v\na,0,1\na,,2\n")
        result = run("predict", str(saved), str(tmp_path / "new.csv"))
        assert "add it, or if the rows are already in order, pass --time none" in said(result)

    @pytest.mark.parametrize("options", [(), ("--values", "t*"), ("--values", "t0-t3"), ("--ignore", "age,heart_rate")])
    def test_columns_next_to_time_steps(self, tmp_path, options):
        rows = [
            f"s{i},{40 + i},{'ab'[i % 2]},{60 + i}," + ",".join(f"{t + 3 * (i % 2)}" for t in range(4))
            for i in range(20)
        ]
        path = tmp_path / "wide.csv"
        path.write_text("\n".join(["id,age,gait,heart_rate,t0,t1,t2,t3", *rows]))
        result = run(
            "fit", str(path), "--label", "gait", *options, "--kernel", KERNEL, "-o", str(tmp_path / "m.mercer")
        )
        assert "ignored: 'age', 'heart_rate'; columns are time steps 0 to 3" in result.output
        assert self.predictions(tmp_path / "m.mercer", path) == ["a", "b"] * 10

    def test_columns_of_text_are_named_at_once(self, tmp_path):
        path = tmp_path / "long.csv"
        notes = "".join(
            f"r{i},{t},{i + t},{'ok' if t else 'start'},{'ab'[i % 2]}\n" for i in range(20) for t in range(4)
        )
        path.write_text(f"id,time,v,notes,gait\n{notes}")
        result = run("fit", str(path), "--kernel", KERNEL, "-o", str(tmp_path / "m.mercer"))
        assert result.exit_code == 2
        assert "the columns 'notes' ('start'), 'gait' ('a') contain text" in said(result)
        assert said(result).rstrip().endswith(" --label gait --ignore notes")
        fitted(path, "--label", "gait", "--ignore", "notes")

    def test_channels_in_another_order(self, tmp_path):
        rng = np.random.default_rng(0)
        rows = [(f"r{i}", t, rng.normal() + 3 * (i % 2), 9 * rng.normal()) for i in range(20) for t in range(6)]
        old, new = tmp_path / "old.csv", tmp_path / "new.csv"
        old.write_text(
            "id,time,a,b,label\n" + "".join(f"{r},{t},{a},{b},{'ab'[int(r[1:]) % 2]}\n" for r, t, a, b in rows)
        )
        new.write_text("b,time,id,a\n" + "".join(f"{b},{t},{r},{a}\n" for r, t, a, b in rows))
        saved = fitted(old)
        assert self.predictions(saved, new) == self.predictions(saved, old)
        new.write_text(new.read_text().replace("b,time", "c,time"))
        assert "requires 'b' (values), which is not a column" in said(run("predict", str(saved), str(new)))


class TestSteps:
    def test_another_step_is_refused(self, tmp_path):
        saved = fitted(write_long(tmp_path / "old.csv"))
        assert run("predict", str(saved), str(write_long(tmp_path / "new.csv", 1.01))).exit_code == 0
        result = run("predict", str(saved), str(write_long(tmp_path / "new.csv", 0.25)))
        assert result.exit_code == 2
        assert "has time steps of 0.25, and the model was fitted to steps of 1; pass data with" in said(result)
        assert "--resample 1," in said(result)

    def test_irregular_steps(self, tmp_path):
        path, new = write_long(tmp_path / "old.csv"), tmp_path / "new.csv"
        new.write_text("id,time,v\na,0,1\na,1,2\na,2.3,1\na,2.9,1\n")
        result = run("predict", str(fitted(path)), str(new))
        assert "are taken as equal steps. Fit the model again and pass --resample auto (or a step)" in result.stderr

    def test_resampled_series_have_the_step_of_the_old_ones(self, tmp_path):
        saved = fitted(write_long(tmp_path / "old.csv"), "--resample", "auto")
        result = run("predict", str(saved), str(write_long(tmp_path / "new.csv", 0.25)))
        assert result.exit_code == 0, result.output
        assert "length 2; " in said(result)
        assert said(result).endswith("interpolated linearly at steps of 1")

    def test_the_time_as_a_channel_tells_the_step(self, tmp_path):
        saved = fitted(write_long(tmp_path / "old.csv"), "--time-channel")
        assert run("predict", str(saved), str(write_long(tmp_path / "new.csv", 0.25))).exit_code == 0

    def test_a_first_value_that_would_be_a_label(self, tmp_path):
        rng = np.random.default_rng(0)
        path, new = tmp_path / "old.csv", tmp_path / "new.csv"
        path.write_text(
            "\n".join(",".join([str(i % 2), *map(str, rng.normal(size=5) + 3 * (i % 2))]) for i in range(20))
        )
        saved = fitted(path)
        assert run("predict", str(saved), str(path)).exit_code == 0
        new.write_text("\n".join(line.partition(",")[2] for line in path.read_text().splitlines()))
        result = run("predict", str(saved), str(new))
        assert result.exit_code == 2
        assert "has 5 numbers in a line, and the first of them would be taken for a label; add a" in said(result)


class TestOutputs:
    def test_no_input_is_written(self, tmp_path):
        path = write_fasta(tmp_path / "a.fa", "ACGT")
        other = write_fasta(tmp_path / "b.fa", "ACGT")
        saved = fitted(path, "--label", "1", kernel="Spectrum(k=1)")
        table = tmp_path / "labels.csv"
        table.write_text("id,label\n")
        for arguments in (
            ("predict", str(saved), str(other), "-o", str(saved)),
            ("predict", str(saved), str(other), "--label-table", str(table), "--json", str(table)),
            ("fit", str(path), "--label-table", str(table), "-k", "spectrum", "-o", str(table)),
            ("compare", str(path), "--label-table", str(table), "--csv", str(table)),
            ("test", str(path), str(other), "--json", str(other)),
        ):
            before = {one: one.read_bytes() for one in tmp_path.iterdir()}
            result = run(*arguments)
            assert result.exit_code == 2
            assert said(result).endswith("is an input of this command, which would be replaced; choose another name.")
            assert {one: one.read_bytes() for one in tmp_path.iterdir()} == before

    def test_no_output_joins_the_data(self, tmp_path):
        (tmp_path / "runs").mkdir()
        target = str(tmp_path / "runs" / "out.csv")
        arguments = ("-k", "spectrum", "-o", target)
        assert "is inside the data folder" in said(run("fit", str(tmp_path / "runs"), *arguments))
        assert "matches the pattern" in said(run("fit", str(tmp_path / "runs" / "*.csv"), *arguments))
        assert "is the name of two outputs" in said(run("compare", "--json", target, "--csv", target))
        result = run("fit", "x.fa", "-k", "spectrum", "-o", "-")
        assert result.exit_code == 2
        assert "pass the name of a file" in said(result)


class TestConfounds:
    def test_confounds_in_a_table_of_labels(self, tmp_path):
        path, table = write_long(tmp_path / "old.csv"), tmp_path / "people.csv"
        lines = [",".join(line.split(",")[:3]) for line in path.read_text().splitlines()]
        path.write_text("\n".join(lines))
        rng = np.random.default_rng(0)
        people = [f"r{i},{'ab'[i % 2]},{age:.3f}" for i, age in enumerate(rng.normal(size=20))]
        table.write_text("\n".join(["id,label,age", *people]))
        saved = fitted(path, "--label-table", str(table), "--confounds", "age")
        result = run("predict", str(saved), str(path))
        assert result.exit_code == 2
        assert said(result).startswith("The model requires 'age' (confounds), which is not a column of")
        assert said(result).endswith("Or pass --label-table with the id and 'age'.")
        table.write_text("\n".join(["id,age", *(f"{a},{c}" for a, _, c in (line.split(",") for line in people))]))
        result = run("predict", str(saved), str(path), "--label-table", str(table), "--json", "-")
        assert result.exit_code == 0, result.output
        assert len(json.loads(result.stdout)) == 20
        plain = fitted(write_long(tmp_path / "plain.csv"))
        result = run("predict", str(plain), str(tmp_path / "plain.csv"), "--label-table", str(table))
        assert "was fitted without them; omit it." in said(result)


class TestMessages:
    def test_a_table_with_such_names(self, tmp_path):
        path = write_long(tmp_path / "x.csv", names=("my id", "time", "v", "my label"))
        found = _own_data.task_of(path, Reading(id="my id", label="my label"), limit=99, folds=2, seed=0)
        assert "--id 'my id', --time time, --label 'my label' (2 classes)" in found.about
        assert "id 'my id', time time, label 'my label' (2 classes)" in found.shared  # for readers of a report
        assert (
            "To correct it, pass --id, --time, --values, --label, --target, --group, --ignore or --form" in found.about
        )
        assert "To correct" not in found.shared

    def test_strings_say_how_to_correct_what_they_were_taken_for(self, tmp_path):
        path = write_fasta(tmp_path / "x.fa", "ACGT")
        about = _own_data.task_of(path, Reading(label="1"), limit=99, folds=2, seed=0).about
        assert about.endswith(
            "x.fa: the label (2 classes) by --label 1. To correct it, pass --label, --target, --group or --alphabet"
        )
        path.write_text(path.read_text() + ">z|a\n")
        result = run("compare", str(path), "--label", "1")
        assert said(result).endswith("has no symbols; remove it from the file, or pass --skip-bad.")

    def test_parameters_of_other_libraries(self):
        with pytest.raises(ValueError, match=r"HMM has no parameter 'n_components'\. It is called 'n_states'"):
            _fitting.kernel_of("Fisher(HMM(n_components=2))")


class TestTwoSamples:
    def test_groups_that_are_found_are_used(self, tmp_path):
        rng = np.random.default_rng(0)
        for name in ("a", "b"):
            rows = [f"{name}{i},{t},{rng.normal():.3f},{name}g{i // 2}" for i in range(12) for t in range(4)]
            (tmp_path / f"{name}.csv").write_text("\n".join(["id,time,v,group", *rows]))
        arguments = ("test", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "-k", KERNEL, "--permutations", "99")
        result = run(*arguments)
        assert result.stdout.count("--group group") == 2
        assert "permutations of groups" in " ".join(result.stdout.split())
        lines = (tmp_path / "b.csv").read_text().splitlines()
        (tmp_path / "b.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines))
        result = run(*arguments)
        assert "--group group" not in result.stdout
        assert "permutations of objects" in " ".join(result.stdout.split())

    def test_samples_in_both_files(self, tmp_path):
        path = write_fasta(tmp_path / "a.fa", "ACGT")
        (tmp_path / "b.fa").write_text(path.read_text())
        result = run("test", str(path), str(tmp_path / "b.fa"), "-k", "Spectrum(k=1)", "--permutations", "19")
        assert said(result).startswith("Warning: 20 different samples are in both a and b; remove such copies")
