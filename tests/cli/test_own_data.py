"""The user's data on the command line: what is read, how it is described, and what is said of bad data."""

from __future__ import annotations

import gzip
import re
import sys

import numpy as np
import pytest
from tests.cli.command import run, said

import mercer as mc
from mercer._comparison import recipes
from mercer._comparison.evaluation import evaluate_fold
from mercer._comparison.summary import snippet
from mercer._wording import SEVERAL, option, passing, worded, wording
from mercer.cli import _fitting, _own_data
from mercer.cli._compare_command import page_of, without_folders
from mercer.cli._data_options import Reading, Shell
from mercer.datasets import make_dna, make_hmm_sequences, make_traits


def task(path, folds=2, limit=300, seed=0, **reading):
    return _own_data.task_of(path, Reading(**reading), limit=limit, folds=folds, seed=seed)


def people(folder, column):
    """Write twelve series of one value, with a further column of numbers from 1 and two classes."""
    rng = np.random.default_rng(0)
    rows = [f"p{i},{t},{rng.normal():.3f},{1 + i},{'ab'[i % 2]}" for i in range(12) for t in range(5)]
    path = folder / "people.csv"
    path.write_text("\n".join([f"id,time,v,{column},label", *rows]))
    return path


def write_ts(path, n=24):
    X, y = make_hmm_sequences(n, length=(10, 20), n_features=2, random_state=0)
    series = (":".join(",".join(map(str, channel)) for channel in x.T) for x in X)
    lines = ["@classLabel true 0 1", "@data", *(f"{x}:{c}" for x, c in zip(series, y, strict=True))]
    path.write_text("\n".join(lines))
    return path


def write_long(path, n=24, answer="gait"):
    X, y = make_hmm_sequences(n, length=(10, 20), n_features=2, random_state=0)
    lines = [f"walk,t,left,right,{answer},person"]
    for i, (x, c) in enumerate(zip(X, y, strict=True)):
        value = "ab"[c] if answer == "gait" else x[:, 0].mean()
        lines += [f"w{i},{t / 10},{a:.4f},{b:.4f},{value},p{i % 8}" for t, (a, b) in enumerate(x)]
    path.write_text("\n".join(lines))
    return path


class TestReading:
    def test_long_table(self, tmp_path):
        found = task(write_long(tmp_path / "walks.csv"), id="walk", label="gait", group="person")
        assert found.about.startswith("24 series of dimension 2, length 10 to 20; 2 classes, 8 groups that stay in one")
        assert "--id walk" in found.about  # what it was taken for, in words of the command line
        assert found.arguments.endswith("walks.csv --label gait --group person --id walk")
        names: dict[str, object] = {}
        exec("import mercer as mc\n" + found.reading, names)
        assert len(names["X"]) == len(names["y"]) == len(names["groups"]) == 24

    def test_targets(self, tmp_path):
        found = task(write_long(tmp_path / "walks.csv", answer="speed"), id="walk", target="speed", group="person")
        assert found.is_regression
        assert "targets -" in found.about
        assert [c.name for c in found.contenders][:4] == [
            "mean",
            "length only",
            "linear, summaries",
            "RBF SVM, summaries",
        ]

    def test_parquet_wide_and_folder(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        rng = np.random.default_rng(0)
        frame = pandas.DataFrame(rng.normal(size=(20, 8)), columns=[f"t{i}" for i in range(8)])
        frame["label"] = ["a", "b"] * 10
        frame.to_parquet(tmp_path / "wide.parquet")
        assert task(tmp_path / "wide.parquet").about.startswith("20 series of dimension 1, length 8; 2 classes")

    def test_a_pattern_of_files(self, tmp_path):
        rng = np.random.default_rng(0)
        for i in range(12):
            (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
            lines = ["v", *map(str, rng.normal(size=6))]
            (tmp_path / "ab"[i % 2] / f"r{i}.csv").write_text("\n".join(lines))
        assert task(tmp_path / "*" / "*.csv").about.startswith("12 series of dimension 1, length 6; 2 classes")

    def test_the_code_has_the_confounds(self, tmp_path):
        found = task(people(tmp_path, "age"), confounds="age")
        (kernel,) = (c for c in found.contenders if c.name == "EmpiricalMeanMap")
        space: dict[str, object] = {}
        exec(snippet(kernel, None, found.reading), space)
        assert space["model"].predict(space["X"]).shape == (12,)

    def test_the_code_has_the_categories_of_confounds(self, tmp_path):
        path = people(tmp_path, "age")
        head, *rows = path.read_text().splitlines()
        sited = [f"{row},{'NSW'[int(row[1 : row.index(',')]) % 3]}" for row in rows]
        path.write_text("\n".join([f"{head},site", *sited]))
        found = task(path, confounds="age,site")
        (kernel,) = (c for c in found.contenders if c.name == "EmpiricalMeanMap")
        space: dict[str, object] = {}
        exec(snippet(kernel, None, found.reading), space)
        np.testing.assert_array_equal(space["X"].confounds, found.X.confounds)
        assert found.X.confounds.shape == (12, 4)

    def test_the_code_has_the_weights(self, tmp_path):
        found = task(people(tmp_path, "w"), weight="w")
        (kernel,) = (c for c in found.contenders if c.name == "EmpiricalMeanMap")
        code, space = snippet(kernel, None, found.reading, weighted=True), {}
        assert code.endswith("model.fit(X, y, svc__sample_weight=weights)")
        exec(code, space)
        np.testing.assert_array_equal(space["weights"], found.weights)

    def test_ts(self, tmp_path):
        found = task(write_ts(tmp_path / "toy.ts"))
        assert found.about == (
            "24 series of dimension 2, length 10 to 20; 2 classes; .ts format: after the last colon the label (2 "
            "classes). To correct it, change @classLabel or @targetLabel in its header"
        )

    def test_a_table_without_header_is_one_of_the_ucr_archive(self, tmp_path):
        path = tmp_path / "toy.tsv"
        rng = np.random.default_rng(0)
        path.write_text("\n".join("\t".join(map(str, [i % 2, *rng.normal(size=8)])) for i in range(30)))
        found = task(path, limit=20)
        assert found.about.startswith("20 of 30 series of dimension 1, length 8; 2 classes; ")
        assert found.left_out == 10
        assert found.about.endswith(
            "no header line, as in the UCR archive: in the first column the label (2 classes). "
            "To correct it, add a header line, and pass --label"
        )
        assert "length only" not in [c.name for c in found.contenders]
        again, other = (task(path, limit=20, seed=seed) for seed in (0, 1))
        assert np.array_equal(found.X.values, again.X.values)
        assert not np.array_equal(found.X.values, other.X.values)

    def test_fasta_with_targets(self, tmp_path):
        path = tmp_path / "toy.fa"
        path.write_text("".join(f">s{i}|{i / 10}\n{'ACGT'[i % 4] * 8}{'ACGT'[i // 4]}\n" for i in range(12)))
        found = task(path, target="1")
        assert found.is_regression
        assert found.y.tolist() == [i / 10 for i in range(12)]
        path.write_text(">a|x\nACGT\n")
        with pytest.raises(ValueError, match=r"the target of 'a.x' must be a number; got 'x'"):
            task(path, target="1")

    def test_copies_are_a_leak(self, tmp_path):
        path = tmp_path / "toy.fa"
        path.write_text("".join(f">s{i}|{'ab'[i % 2]}|g{i % 4}\n{'ACGT' * (3 + i % 8)}\n" for i in range(16)))
        assert "16 of 16 samples are identical to another one, which is a leak" in task(path, label="1").about
        assert "is a leak" not in task(path, label="1", group="2").about
        path.write_text(path.read_text().replace("|g0", "|g9", 1))
        assert (
            "folds; remove them, or pass a --group that keeps them together" in task(path, label="1", group="2").about
        )

    def test_a_header_of_numbers(self, tmp_path):
        path = tmp_path / "pandas.csv"
        rng = np.random.default_rng(0)
        rows = [",".join(["ab"[i % 2], *map(str, rng.normal(size=5))]) for i in range(20)]
        path.write_text("\n".join(["label,0,1,2,3,4", *rows]))
        assert task(path).about.startswith("20 series of dimension 1, length 5; 2 classes")

    @pytest.mark.parametrize(
        ("name", "value", "python", "typed"),
        [
            ("label", False, "label=False", "--label none"),
            ("id", ["a", "b"], "id=['a', 'b']", "--id a,b"),
            ("id", "my id", "id='my id'", "--id 'my id'"),
            ("id", "it's", 'id="it\'s"', """--id 'it'"'"'s'"""),
            ("invalid", "mask", "invalid='mask'", "--skip-bad"),
            ("values", SEVERAL, "values=[...]", "--values"),
            ("group", ..., "group=", "--group"),
            ("time_channel", True, "time_channel=True", "--time-channel"),
            ("labels", ..., "labels=", "--label-table"),
            ("label", "gait of people.csv", "label='gait of people.csv'", "--label gait of people.csv"),
            ("covariates", "w", "covariates='w'", "--weight w"),
            ("covariates", "age, w", "covariates='age, w'", "--confounds age, --weight w"),
            ("separator", ";", "separator=';'", "--separator ';'"),
        ],
    )
    def test_parameters_are_options_of_the_command_line(self, name, value, python, typed):
        assert option(name, value) == python
        with worded(Shell(is_table=True, weight="w")):
            assert option(name, value) == typed
            assert passing(name, value, start=True) == f"Pass {typed}"
        with worded(Shell()):
            assert option("labels", "auto") == "--label auto"

    def test_most_options_of_new_data_are_those_of_the_fit(self):
        with worded(Shell(is_table=True, is_new=True)):
            assert passing("id") == "pass --id"
            assert passing("resample", "auto") == "fit the model again and pass --resample auto"
            assert wording().must_be("n_states", "a number, or None") == "n_states must be a number, or None"


class TestContenders:
    @pytest.mark.slow
    def test_every_kernel_on_vectors_has_code_that_runs(self, tmp_path):
        found = task(write_ts(tmp_path / "toy.ts", 12))
        names = [c.name for c in found.contenders]
        assert names[:3] == ["majority class", "length only", "linear, summaries"]
        assert "nearest neighbor" in names
        for contender in found.contenders:
            if contender.is_kernel and contender.name != "SeriesClassifier":
                space: dict[str, object] = {}
                exec(snippet(contender, None, found.reading), space)
                assert space["model"].predict(space["X"]).shape == (12,)

    def test_series_have_one_object_or_its_kernel(self, tmp_path):
        found = task(write_ts(tmp_path / "toy.ts", 12))
        made = {
            factory: recipes.contenders(found.X, recipes.ContenderFactory(*factory))
            for factory in ((False, False), (True, False), (False, False, True), (False, True))
        }
        names = [next(c.name for c in some if "Series" in c.name or "Ensemble" in c.name) for some in made.values()]
        assert names == ["SeriesClassifier", "SeriesRegressor", "FisherEnsemble", "FisherEnsemble"]
        (one,) = (c for c in made[False, False] if c.name == "SeriesClassifier")
        assert one.is_kernel
        assert isinstance(one.kernel, mc.FisherEnsemble)
        one.estimator.set_params(preset="fast")
        assert isinstance(_fitting.fitted(found, one, proba=True, seed=0).model, mc.SeriesClassifier)

    def test_a_kernel_that_takes_no_missing_values_is_not_tried_on_them(self, tmp_path):
        path = tmp_path / "gaps.csv"
        rng = np.random.default_rng(0)
        rows = [[f"{x:.2f}" for x in rng.normal(size=8)] + ["ab"[i % 2]] for i in range(12)]
        names = ",".join([*(f"t{t}" for t in range(8)), "label"])
        path.write_text("\n".join([names, *(",".join(row) for row in rows)]))
        assert "EmpiricalMeanMap" in [c.name for c in task(path).contenders]
        rows[3][4] = ""
        path.write_text("\n".join([names, *(",".join(row) for row in rows)]))
        found = task(path)
        assert "EmpiricalMeanMap" not in [c.name for c in found.contenders]
        for contender in found.contenders:
            if contender.is_kernel and contender.name != "SeriesClassifier":
                contender.estimator.fit(found.X, found.y)  # all others take them

    def test_the_code_has_the_chosen_parameters(self, tmp_path):
        found = task(write_ts(tmp_path / "toy.ts"))
        (mean_map,) = (c for c in found.contenders if c.name == "EmpiricalMeanMap")
        chosen = {"svc__C": "100.0", "derivatives": "'passthrough'", "empiricalmeanmap__gamma": repr(0.5)}
        code = snippet(mean_map, chosen, found.reading)
        assert "C=100.0" in code
        assert "Derivatives" not in code
        assert "gamma=0.5" in code

    def test_every_kernel_has_a_page(self, tmp_path, request):
        strings = tmp_path / "toy.fa"
        strings.write_text("".join(f">s{i}|{'ab'[i % 2]}\n{'ACGT'[i % 4] * 8}\n" for i in range(12)))
        pages = request.config.rootpath / "docs"
        for found in (task(write_ts(tmp_path / "toy.ts")), task(strings, label="1")):
            for contender in found.contenders:
                if contender.is_kernel:
                    assert (pages / page_of(contender.kernel)).is_file(), contender.name

    def test_a_short_string_drops_no_kernel_of_a_markov_chain(self, tmp_path):
        path = tmp_path / "toy.fa"
        X, y = make_dna(20, length=(20, 30), random_state=0)
        strings = ["A", *X[1:]]
        path.write_text("".join(f">s{i}|{c}\n{x}\n" for i, (x, c) in enumerate(zip(strings, y, strict=True))))
        found = task(path, label="1")
        (fisher,) = (c for c in found.contenders if c.name == "Fisher, Markov chain")
        assert 0 <= evaluate_fold(found, fisher, 0, 2, 0).score <= 1

    def test_proteins_are_aligned_by_a_substitution_matrix(self, tmp_path):
        path = tmp_path / "toy.fasta"
        path.write_text("".join(f">s{i} {'ab'[i % 2]}\n{'MKWVTF' * (2 + i % 3)}\n" for i in range(12)))
        found = task(path, label="1", alphabet="protein")
        (pairs,) = (c for c in found.contenders if c.name == "Marginalization, pair HMM")
        assert pairs.kernel.get_params()["kernel__model__substitution"] == "BLOSUM62"
        assert pairs.grid["tempered__kernel__model__gap_open"] == (8, 11)

    @pytest.mark.parametrize("letters", ["ACGT", "ab"], ids=["dna", "two letters"])
    def test_other_strings_are_aligned_by_equal_or_not(self, tmp_path, letters):
        path = tmp_path / "toy.fasta"
        rng = np.random.default_rng(0)
        ancestors = ["".join(rng.choice(list(letters), 30)) for _ in range(2)]
        strings = [ancestors[i % 2][: 24 + i // 2] + letters[i % len(letters)] for i in range(12)]
        path.write_text("".join(f">s{i} {'ab'[i % 2]}\n{string}\n" for i, string in enumerate(strings)))
        found = task(path, label="1", alphabet="ab" if letters == "ab" else None)  # a and b may be residues
        assert "Marginalization, HMM" not in [c.name for c in found.contenders]  # lengths differ
        (pairs,) = (c for c in found.contenders if c.name == "Marginalization, pair HMM")
        assert pairs.kernel.get_params()["kernel__model__substitution"] == (1, -1)
        assert evaluate_fold(found, pairs, 0, 2, 0).score == 1
        space: dict[str, object] = {}
        exec(snippet(pairs, None, found.reading), space)
        assert space["model"].score(space["X"], space["y"]) == 1

    def test_strings_of_one_length_share_a_path(self, tmp_path):
        path = tmp_path / "toy.fa"
        lines = [f">s{i} {'ab'[i % 2]}\n{('AACC', 'CCAA')[i % 2] * 3 + 'GT'[i // 2 % 2]}\n" for i in range(12)]
        path.write_text("".join(lines))
        found = task(path, label="1")
        (same,) = (c for c in found.contenders if c.name == "Marginalization, HMM")
        assert evaluate_fold(found, same, 0, 2, 0).score == 1

    def test_what_is_too_long_is_not_aligned(self, tmp_path, monkeypatch):
        path = tmp_path / "toy.fa"
        path.write_text(FASTA)
        assert "too long" not in task(path, label="1").about
        monkeypatch.setattr(recipes, "CELLS", 72**2 / 2 - 1)  # of 12 strings of 6 letters
        found = task(path, label="1")
        assert re.search("too long for alignment kernels .*decrease --limit, or use mc.AffinePairHMM", found.about)
        assert "Marginalization, pair HMM" not in [c.name for c in found.contenders]

    def test_targets_of_people_are_predicted_better_than_by_the_mean(self):
        from mercer._comparison.evaluation import Task

        traits = make_traits(40, random_state=0)
        y = np.asarray(traits.target, dtype=float)
        found = Task(
            "traits", traits.data, y, recipes.contenders(traits.data, recipes.ContenderFactory(regression=True))
        )
        (fisher,) = (c for c in found.contenders if c.name == "Fisher, HMM")
        (mean,) = (c for c in found.contenders if c.name == "mean")
        assert evaluate_fold(found, fisher, 0, 2, 0).score > evaluate_fold(found, mean, 0, 2, 0).score


WIDE = "t0,t1,t2,label\n" + "".join(f"{i},{i % 3},1,{'uv'[i % 2]}\n" for i in range(12))
MIXED = "t0,t1,age,label\n" + "".join(f"{i},{i % 3},{i if i % 5 else 'old'},{'uv'[i % 2]}\n" for i in range(12))
FASTA = "".join(f">s{i}|{'ab'[i % 2]}|g{i % 3}\nACGTAC\n" for i in range(12))


class TestBadData:
    @pytest.mark.parametrize(
        ("name", "content", "arguments", "sentence"),
        [
            ("x.fa", FASTA, (), r"x.fa requires --label .* or --target .* pass a field number"),
            ("x.fa", FASTA, ("--label", "9"), r"line 1: the header 's0\|a\|g0' has 3 .* --label 9 is out of range"),
            ("x.fa", FASTA, ("--label", "(s)"), "two classes are required; got only 's'. Check --label"),
            ("x.fa", FASTA, ("--label", "0"), "12 samples has a different class; check that --label"),
            ("x.fa", FASTA, ("--label", "1", "--target", "1"), "--label and --target cannot both"),
            ("x.fa", FASTA, ("--label", "1", "--id", "x"), "--id applies to tables only; omit it"),
            ("x.fa", FASTA, ("--label", "1", "--group", "2"), "3 groups are too few for 5 folds; check --group"),
            ("x.fa", FASTA + ">z|a|g\nAC-T", ("--label", "1"), "line 26: sequence 'z.a.g' has the symbol '-'"),
            ("x.fa", FASTA + ">z|c|g\nACGT", ("--label", "1"), "Class 'c' has 1 member, too few for 5 outer"),
            ("x.fa", "", ("--label", "1"), "x.fa"),
            ("x.ts", "@classLabel true a\n@data\n1:b", (), "line 3: 'b', after the last colon, is not a label"),
            ("x.ts", "@classLabel false\n@data\n1,2", (), "has neither classes nor targets; pass --label or --target"),
            ("x.tsv", "1\t2", ("--label", "1"), "--label applies to tables with a header line only; omit it"),
            ("x.csv", "id,time,v,label\na,0,1,u\na,1,2,u,7\n", (), "x.csv, line 3"),
            ("x.csv", 'id,time,v,label\na,0,"1,u\n', (), "x.csv, line 2: the quotes do not match"),
            ("x.csv", "", (), "x.csv is empty; pass"),
            ("x.ts", "", (), "x.ts is empty; pass"),
            ("x.svm", "", (), "x.svm is empty; pass"),
            ("x.fastq", "", (), "x.fastq is empty; pass"),
            ("x.parquet", "", (), "x.parquet is empty; pass"),
            ("x.csv", "\x00\x01\x02", (), "x.csv is a binary file; pass"),
            ("x.fa", "\x00\x01\x02", ("--label", "1"), "x.fa is a binary file; pass"),
            ("x.xlsx", "PK", (), "x.xlsx is a spreadsheet; save it as CSV"),
            ("x.csv", "id,t0,t1,label\na,1,2,u\na,3,4,v\nb,1,2,u\n", (), "line 3: the id 'a' occurs also in line 2"),
            ("x.csv", WIDE, ("--label-table", "x"), "--label-table needs ids to join the two tables; pass --id"),
            ("x.csv", WIDE, ("--weight", "w"), "--weight w is not a column of"),
            ("x.csv", WIDE, ("--weight", "label"), "has the weight 'u' in the column 'label', which is not a number"),
            (
                "x.csv",
                MIXED,
                ("--confounds", "age"),
                "has the confound 'old' in the column 'age', which is not a number",
            ),
            ("x.csv", WIDE, ("--form", "tall"), "--form must be 'long' or 'wide'; got 'tall'"),
            ("x.csv", WIDE, ("--separator", ";"), "--separator ';' does not occur .* pass --separator ','"),
            ("x.csv", WIDE, ("--target", "label"), "the target 'u', which is not a number; pass --label label"),
            ("x.csv", WIDE, ("--target", "t2"), "All targets are 1; there is nothing to predict. Check --target"),
            ("x.csv", WIDE, ("--target", "t0", "--folds", "7"), "too few for 7 folds; decrease --folds, or add"),
            ("x.fa", FASTA, ("--label", "("), "--label must be a regular expression; got '[(]'"),
            ("x.doc", "1\t2", (), "x.doc must be one of .fa, .*; got '.doc'. Rename"),
            ("x.doc", ">a\nACGT", (), "x.doc looks like FASTA, but has another extension"),
        ],
    )
    def test_one_sentence_and_exit_code_2(self, tmp_path, name, content, arguments, sentence):
        path = tmp_path / name
        path.write_text(content)
        result = run("compare", str(path), *arguments)
        assert result.exit_code == 2, result.output
        assert re.search(sentence, said(result))

    @pytest.mark.parametrize(
        ("files", "sentence"),
        [
            ({}, "has no files; pass a folder or a pattern"),
            ({"a/r1.csv": "v\n1\n2\n", "b/r2.txt": "two words\nmore of them\n"}, "mixes kinds of files, such as"),
            ({"a/r1.csv": "v\n1\n2\n", "b/r2.csv": "w\n1\n2\n"}, "The column 'v' is not in 'r2.csv'"),
            ({"a/r1.csv": "v\n1\n2\n", "b/r2.png": "\x89PNG"}, "'r2.png', which is not a table"),
            ({"a/r1.csv": "", "b/r2.csv": "v\n1\n2\n"}, "r1.csv is empty; pass"),
        ],
        ids=["empty", "kinds", "columns", "not a table", "empty file"],
    )
    def test_folders(self, tmp_path, files, sentence):
        for name, content in files.items():
            (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "x" / name).write_text(content)
        (tmp_path / "x").mkdir(exist_ok=True)
        result = run("compare", str(tmp_path / "x"))
        assert result.exit_code == 2, result.output
        assert sentence in said(result)

    def test_a_folder_that_cannot_be_read(self, tmp_path, monkeypatch):
        def walk(root, onerror):
            onerror(PermissionError(13, "Permission denied", str(root)))

        monkeypatch.setattr("mercer.data.recordings.os.walk", walk)  # those who run tests may read everything
        result = run("compare", str(tmp_path))
        assert result.exit_code == 2
        assert said(result) == f"The folder {str(tmp_path)!r} cannot be read; check its permissions."

    def test_a_large_file(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text(WIDE)
        with mc.config(max_file_bytes=100):
            result = run("compare", str(path))
        assert result.exit_code == 2
        assert re.search("more than the limit of .* Pass a smaller file, or read it in Python", said(result))

    def test_warnings_name_options(self, tmp_path):
        path = tmp_path / "walks.csv"
        path.write_text(
            "id,time,v,label\n" + "".join(f"s{i},{1.7**t:.3f},{i},{'ab'[i % 2]}\n" for i in range(12) for t in range(4))
        )
        (warning,) = task(path).warnings
        assert "Pass --resample auto (or a step) to interpolate, or --time-channel to keep" in warning
        path.write_text(WIDE.replace("t1", "age"))
        assert not task(path).warnings
        assert "ignored: 'age'; columns are time steps" in task(path).about

    @pytest.mark.parametrize("typed", [("{path}",), ("{path}", "--ignore", "sensor")])
    def test_columns_without_a_role_come_with_a_command(self, tmp_path, monkeypatch, typed):
        path = tmp_path / "walks.csv"
        rows = [f"w{i},{t},{i + t},watch,ok,{'walk' if i % 2 else 'my run'}" for i in range(12) for t in range(2)]
        path.write_text("\n".join(["id,time,v,sensor,notes,activity", *rows]))
        monkeypatch.setattr("sys.argv", ["mercer", "compare", *(one.format(path=path) for one in typed)])
        end = f"for example: mercer compare {path} --label activity --ignore sensor,notes"
        assert said(run(*sys.argv[1:])).endswith(end)
        found = task(path, **{"label": "activity", "ignore": "sensor,notes"})
        assert set(found.y) == {"walk", "my run"}

    def test_advice_keeps_the_time_and_the_groups(self, tmp_path):
        path = tmp_path / "walks.csv"
        rows = [
            f"w{i},2024-01-0{t + 1}T10:00:00+01:00,{i + t},{'ab'[i % 2]},note {i}{t},s{i % 6}"
            for i in range(12)
            for t in range(4)
        ]
        path.write_text("\n".join(["who_id,moment,v,activity,notes,site", *rows[::-1]]))
        result = said(run("compare", str(path)))
        assert "the values of 'activity' and 'site' are constant in every sample" in result
        assert result.endswith(
            "--label or --group for what is used, and --ignore for what is not, such as --ignore notes."
        )
        found = task(path, label="activity", group="site", ignore="notes")
        assert "--time moment" in found.about
        assert np.array_equal(found.X[0][:, 0], [11, 12, 13, 14])

    def test_the_size_is_said_once(self, tmp_path):
        path = tmp_path / "walks.csv"
        path.write_text(
            "id,time,v,w,label\n" + "".join(f"s{i},{t},{t},{-t},{'ab'[i % 2]}\n" for i in range(12) for t in range(4))
        )
        about = task(path).about
        assert about.startswith(
            "12 series of dimension 2, length 4; 2 classes; long form: channels v, w; --id id, --time"
        )
        assert about.count("series") == 1
        assert str(path) not in about

    def test_rows_with_a_time_need_an_id(self, tmp_path):
        """The column of text with the most repeated values is proposed, and what is proposed is accepted."""
        path = tmp_path / "walks.csv"
        rows = [f"w{i},{t},{i + t},note {i}{t},{'ab'[i % 2]}" for i in range(12) for t in range(2)]
        path.write_text("\n".join(["who,time,v,notes,activity", *rows]))
        assert said(run("compare", str(path))).endswith("--id who --label activity --ignore notes")
        assert task(path, id="who", label="activity", ignore="notes").about.startswith("12 series")

    def test_bad_records_can_be_skipped(self, tmp_path):
        path = tmp_path / "x.fa"
        path.write_text(FASTA + ">z|a|g\n\n>y|b|g\nAC-T\n")
        found = task(path, label="1", skip_bad=True)
        assert len(found.y) == 12
        assert "2 records were skipped: 'z|a|g', 'y|b|g'; first reason: " in found.about
        assert found.left_out == 0

    def test_no_file_and_a_task_beside_it(self, tmp_path):
        result = run("compare", str(tmp_path / "none.fa"))
        assert result.exit_code == 2
        assert said(result).endswith("none.fa does not exist; pass the path of a file or folder.")
        (tmp_path / "x.fa").write_text(FASTA)
        result = run("compare", str(tmp_path / "x.fa"), "--task", "series")
        assert said(result) == "--task selects built-in data; pass data or --task, not both."

    def test_gzip(self, tmp_path):
        path = tmp_path / "x.fa.gz"
        path.write_bytes(gzip.compress(FASTA.encode()))
        assert len(task(path, label="1").y) == 12


def test_a_report_has_no_folders_of_the_machine(tmp_path):
    data, page = tmp_path / "walks.csv", tmp_path / "report.html"
    shown = without_folders(f"mercer compare {data} --report {page} --json r.json", [data, page, "r.json"])
    assert shown == "mercer compare walks.csv --report report.html --json r.json"
