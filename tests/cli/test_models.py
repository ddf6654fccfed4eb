"""`mercer fit` and `mercer predict`: from the user's file to predictions in a new process."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from tests.cli.command import run, said
from tests.cli.test_own_data import write_long

import mercer as mc
from mercer.cli import _fitting, _own_data
from mercer.cli._terminal import write_csv
from mercer.datasets import make_dna


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Keep results in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def genes(tmp_path_factory):
    """A FASTA file of two classes."""
    path = tmp_path_factory.mktemp("genes") / "genes.fa"
    X, y = make_dna(24, n_classes=2, concentration=1.0, random_state=0)
    path.write_text("".join(f">s{i}|{'ab'[c]}\n{x}\n" for i, (x, c) in enumerate(zip(X, y, strict=True))))
    return path


@pytest.fixture(scope="module")
def model(genes):
    """A model that was fitted by the command."""
    path = genes.with_name("genes.mercer")
    result = run("fit", str(genes), "--label", "1", "--kernel", "spectrum", "--proba", "-o", str(path))
    assert result.exit_code == 0, result.output
    assert f"Saved to {path}. Next: mercer predict {path} NEW --proba" in result.stdout
    return path


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A long table of targets that depend on the age and on the series."""
    path = tmp_path_factory.mktemp("people") / "people.csv"
    rng = np.random.default_rng(0)
    lines = ["id,time,v,age,score"]
    for i in range(30):
        age, level = 20 + 40 * rng.random(), rng.normal()
        score = age + 5 * level + 0.1 * rng.normal()
        lines += [f"p{i},{t},{level + 0.1 * rng.normal():.3f},{age:.3f},{score:.3f}" for t in range(6)]
    path.write_text("\n".join(lines))
    return path


class TestFitAndPredict:
    @pytest.mark.slow
    def test_predictions_are_those_of_the_model_in_a_new_process(self, genes, model):
        command = [sys.executable, "-m", "mercer", "predict", str(model), str(genes), "--proba"]
        found = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
        rows = list(csv.DictReader(io.StringIO(found.stdout)))
        X, y = mc.read_fasta(genes, labels=1)
        loaded = mc.load(model)
        assert [row["id"] for row in rows] == list(X.ids)
        assert [row["prediction"] for row in rows] == loaded.predict(X).tolist()
        assert np.array([[float(row[c]) for c in "ab"] for row in rows]) == pytest.approx(loaded.predict_proba(X))
        assert np.mean(loaded.predict(X) == y) > 0.8

    def test_new_data_need_no_labels(self, tmp_path, model):
        new = tmp_path / "new.fa"
        new.write_text(">first\nACGTACGTAC\n>second\nGGGTTTGGGT\n")
        result = run("predict", str(model), str(new), "--json", "-")
        assert said(result) == f"{new}: 2 strings of ACGT (dna), length 10"
        rows = json.loads(result.stdout)
        assert [row["id"] for row in rows] == ["first", "second"]
        assert {row["prediction"] for row in rows} <= {"a", "b"}
        target = tmp_path / "out.csv"
        run("predict", str(model), str(new), "-o", str(target))
        assert target.read_text().splitlines()[0] == "id,prediction"
        new.write_text(new.read_text() + ">third\n\n>fourth\nACGT\n")
        assert "third" in said(run("predict", str(model), str(new)))
        result = run("predict", str(model), str(new), "--skip-bad")
        assert said(result).startswith(
            f"{new}: 3 strings of ACGT (dna), length 4 to 10; 1 record was skipped: 'third'; reason: "
        )
        assert run("predict", str(model), str(new), "--skip-bad", "--quiet").stderr == ""

    @pytest.mark.slow
    def test_a_table_is_read_again_as_it_was(self, tmp_path):
        walks, saved = write_long(tmp_path / "walks.csv"), tmp_path / "walks.mercer"
        code = "Fisher(HMM(n_states=2, n_iter=5, n_init=1))"
        result = run(
            *("fit", str(walks), "--id", "walk", "--label", "gait", "--group", "person"),
            *("--kernel", code, "-o", str(saved)),
        )
        assert result.exit_code == 0, result.output
        new = tmp_path / "new.csv"
        new.write_text("walk,t,left,right\nn1,0,0.1,0.2\nn1,0.1,0.3,0.1\nn1,0.3,0.5,0.5\nn2,0,1,1\nn2,0.1,0,1\n")
        result = run("predict", str(saved), str(new), "--json", "-")
        assert [row["id"] for row in json.loads(result.stdout)] == ["n1", "n2"]
        assert "2 series of dimension 2, length 2 to 4; long form: channels left, right; --id walk, --time t" in said(
            result
        )
        assert "To correct it" not in result.stderr

    def test_a_wide_table_with_its_labels_is_predicted_without_them(self, tmp_path):
        path, saved = tmp_path / "wide.csv", tmp_path / "wide.mercer"
        rng = np.random.default_rng(0)
        rows = [",".join([*map(str, rng.normal(size=6) + 3 * (i % 2)), "ab"[i % 2]]) for i in range(20)]
        path.write_text("\n".join(["t0,t1,t2,t3,t4,t5,label", *rows]))
        assert run("fit", str(path), "--kernel", "empiricalmeanmap", "-o", str(saved)).exit_code == 0
        rows = json.loads(run("predict", str(saved), str(path), "--json", "-").stdout)
        assert [row["prediction"] for row in rows] == ["a", "b"] * 10

    def test_new_data_with_more_columns_are_read_as_the_old_ones(self, tmp_path):
        path, saved = tmp_path / "wide.csv", tmp_path / "wide.mercer"
        rng = np.random.default_rng(0)
        numbers = rng.normal(size=(20, 4)).round(3)
        old = [",".join([*map(str, x), str(i)]) for i, x in enumerate(numbers)]
        path.write_text("\n".join(["t0,t1,t2,t3,target", *old]))
        assert run("fit", str(path), "--kernel", "empiricalmeanmap", "-o", str(saved)).exit_code == 0
        first = run("predict", str(saved), str(path)).stdout
        more = [",".join(["5", *map(str, x), "1"]) for x in numbers]
        path.write_text("\n".join(["extra,t0,t1,t2,t3,note", *more]))
        assert run("predict", str(saved), str(path)).stdout == first

    def test_time_channel(self, tmp_path):
        path, saved = write_long(tmp_path / "walks.csv"), tmp_path / "walks.mercer"
        arguments = ("--id", "walk", "--time", "t", "--label", "gait", "--group", "person", "--time-channel")
        assert run("fit", str(path), *arguments, "--kernel", "empiricalmeanmap", "-o", str(saved)).exit_code == 0
        first = run("predict", str(saved), str(path)).stdout
        head, *lines = path.read_text().splitlines()
        later = [",".join([a, str(float(t) + 100), *rest]) for a, t, *rest in (line.split(",") for line in lines)]
        path.write_text("\n".join([head, *later]))
        assert run("predict", str(saved), str(path)).stdout == first

    @pytest.mark.parametrize("kernel", ["empiricalmeanmap", "EmpiricalMeanMap(gamma=0.1)"])
    def test_confounds(self, tmp_path, kernel):
        path, saved = tmp_path / "people.csv", tmp_path / "people.mercer"
        rng = np.random.default_rng(0)
        lines = ["id,time,v,age,label"]
        for i in range(24):
            lines += [f"p{i},{t},{rng.normal() + i % 2:.3f},{20 + i},{'ab'[i % 2]}" for t in range(12)]
        path.write_text("\n".join(lines))
        result = run("fit", str(path), "--confounds", "age", "--kernel", kernel, "-o", str(saved))
        assert result.exit_code == 0, result.output
        rows = json.loads(run("predict", str(saved), str(path), "--json", "-").stdout)
        X = mc.read_table(path, covariates=["age"])
        expected = mc.load(saved).predict(mc.Confounded(X.X, X.covariates["age"]))
        assert [row["prediction"] for row in rows] == expected.tolist()

    def test_confounds_that_are_text(self, tmp_path):
        path, saved, new = (tmp_path / name for name in ("people.csv", "people.mercer", "new.csv"))
        rng = np.random.default_rng(0)
        lines = []
        for i in range(24):
            lines += [f"p{i},{t},{rng.normal() + i % 2:.3f},{20 + i},{'NSW'[i % 3]},{'ab'[i % 2]}" for t in range(12)]
        path.write_text("\n".join(["id,time,v,age,site,label", *lines]))
        kernel = ("--confounds", "age,site", "--kernel", "EmpiricalMeanMap(gamma=0.1)")
        result = run("fit", str(path), *kernel, "-o", str(saved))
        assert result.exit_code == 0, result.output
        some = [line for line in lines if ",S," in line or ",W," in line]  # new data lack a category
        new.write_text("\n".join(["id,time,v,age,site", *(line.rpartition(",")[0] for line in some)]))
        rows = json.loads(run("predict", str(saved), str(new), "--json", "-").stdout)
        read = mc.read_table(new, covariates=["age", "site"], label=False)
        site = read.covariates["site"][:, None] == ["N", "S", "W"]
        confounds = np.column_stack([read.covariates["age"], site])
        expected = mc.load(saved).predict(mc.Confounded(read.X, confounds))
        assert [row["prediction"] for row in rows] == expected.tolist()
        new.write_text(new.read_text().replace(",W", ",E"))
        result = run("predict", str(saved), str(new))
        assert result.exit_code == 2
        assert "'p2' has the confound 'E' in the column 'site', which had the categories 'N', 'S', 'W'" in said(result)

    def test_confounds_of_targets(self, people, tmp_path):
        saved = tmp_path / "score.mercer"
        arguments = ("--target", "score", "--confounds", "age", "--kernel", "empiricalmeanmap", "-o", str(saved))
        result = run("fit", str(people), *arguments)
        assert result.exit_code == 0, result.output
        assert re.search(
            r"EmpiricalMeanMap: R2 without the confounds 0\.\d+ by cross-validation inside the search \(optimistic\), "
            r"with .*gamma=",
            result.stdout,
        )
        new = tmp_path / "new.csv"
        table = [line.split(",") for line in people.read_text().splitlines()]
        new.write_text("\n".join(",".join(line[:4]) for line in table))  # without the target
        found = run("predict", str(saved), str(new), "--json", "-")
        read = mc.read_table(new, covariates=["age"], label=False)
        expected = mc.load(saved).predict(mc.Confounded(read.X, read.covariates["age"]))
        predictions = np.array([row["prediction"] for row in json.loads(found.stdout)])
        assert predictions == pytest.approx(expected)
        target = mc.read_table(people, target="score", covariates=["age"]).y
        assert np.corrcoef(predictions, target)[0, 1] > 0.95  # the part of the confounds included
        assert "--confounds age" in said(found)
        new.write_text("\n".join(",".join(line[:3]) for line in table))
        result = run("predict", str(saved), str(new))
        assert result.exit_code == 2
        assert said(result).startswith("The model requires 'age' (confounds), which is not a column of")

    def test_confounds_that_explain_everything(self, tmp_path):
        path = tmp_path / "people.csv"
        rows = [f"p{i},{t},{(i * t) % 7},{i},{3 * i + 1}" for i in range(12) for t in range(4)]
        path.write_text("\n".join(["id,time,v,age,target", *rows]))
        result = run("compare", str(path), "--confounds", "age")
        assert result.exit_code == 2
        assert said(result).startswith("The confounds explain the targets completely; ")

    def test_weights_count_in_the_search_and_do_not_go_with_probabilities(self, tmp_path):
        path, saved = tmp_path / "w.csv", tmp_path / "w.mercer"
        rng = np.random.default_rng(0)
        lines = ["t0,t1,t2,t3,w,label"]
        for i in range(60):
            wrong = i % 3 > 0  # most labels, with hardly any weight
            x = rng.normal(size=4) + 3 * (i % 2)
            lines.append(",".join([*map(str, x.round(3)), "1e-6" if wrong else "1", "ab"[i % 2 ^ wrong]]))
        path.write_text("\n".join(lines))
        arguments = ("--weight", "w", "--kernel", "empiricalmeanmap", "-o", str(saved))
        result = run("fit", str(path), *arguments)
        assert result.exit_code == 0, result.output
        assert re.search(r"accuracy (1\.000|0\.9)", result.stdout)
        assert "--proba cannot be combined with --weight" in said(run("fit", str(path), *arguments, "--proba"))

    def test_one_recording_of_a_folder(self, tmp_path):
        saved, root = tmp_path / "r.mercer", tmp_path / "recordings"
        rng = np.random.default_rng(0)
        for i in range(20):
            (root / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
            lines = [f"{v:.3f}" for v in rng.normal(size=8) + 3 * (i % 2)]
            (root / "ab"[i % 2] / f"r{i}.csv").write_text("\n".join(["v", *lines]))
        assert run("fit", str(root), "--kernel", "empiricalmeanmap", "-o", str(saved)).exit_code == 0
        rows = json.loads(run("predict", str(saved), str(root / "b" / "r3.csv"), "--json", "-").stdout)
        assert [row["prediction"] for row in rows] == ["b"]

    def test_counts_in_svmlight_format(self, tmp_path):
        path, saved = tmp_path / "docs.svm", tmp_path / "docs.mercer"
        rng = np.random.default_rng(0)
        lines = []
        for i in range(24):
            words = np.unique(rng.integers(1, 6, 8) + 5 * (i % 2))
            lines.append(" ".join([str(i % 2), *(f"{w}:{rng.integers(1, 4)}" for w in words)]))
        path.write_text("\n".join(lines))
        result = run("fit", str(path), "--kernel", "probabilityproduct", "-o", str(saved))
        assert result.exit_code == 0, result.output
        assert len(json.loads(run("predict", str(saved), str(path), "--json", "-").stdout)) == 24

    def test_numbers(self, tmp_path):
        walks, saved = write_long(tmp_path / "walks.csv", answer="speed"), tmp_path / "speed.mercer"
        arguments = ("--id", "walk", "--target", "speed", "--group", "person")
        result = run("fit", str(walks), *arguments, "--kernel", "empiricalmeanmap", "-o", str(saved))
        assert result.exit_code == 0, result.output
        assert "R2 0." in result.stdout  # a regression that works on the first try
        rows = json.loads(run("predict", str(saved), str(walks), "--json", "-").stdout)
        assert all(isinstance(row["prediction"], float) for row in rows)
        result = run("fit", str(walks), *arguments, "--kernel", "empiricalmeanmap", "--proba", "-o", str(saved))
        assert said(result) == "--proba applies to classes, and the targets are numbers; omit it."

    @pytest.mark.slow
    def test_the_best_of_all(self, genes, monkeypatch):
        few = ("majority class", "length only", "linear, frequencies", "Spectrum")
        all_of = _own_data.contenders
        monkeypatch.setattr(_own_data, "contenders", lambda *a: [c for c in all_of(*a) if c.name in few])
        path = genes.with_name("best.mercer")
        result = run("fit", str(genes), "--label", "1", "--best", "-o", str(path))
        assert result.exit_code == 0, result.output
        assert "The best of 4 recipes is linear, frequencies.\n" in result.stdout
        assert re.findall(r"accuracy .*?(?=,)", result.stdout) == [  # one number, without the luck of the choice
            "accuracy 1.000 by cross-validation that chooses the recipe in each fold"
        ]
        assert mc.file_info(path).metadata["reading"] == {"label": "1"}
        assert len(json.loads(run("predict", str(path), str(genes), "--json", "-").stdout)) == 24


FORMULAS = ("=cmd|' /C calc'!A0", "+SUM(A1)", "-2+3", "@x", "\tx", "\rx")


class TestSpreadsheets:
    """No cell of a CSV file is run as a formula."""

    @pytest.mark.parametrize("text", FORMULAS)
    def test_text_that_looks_like_a_formula(self, tmp_path, text):
        cells = [[text, -1.5], ["-1.5", "+2e3"], ["a=b", "'q"], ["", None]]
        write_csv([{"id": first, text: second} for first, second in cells], tmp_path / "x.csv")
        with open(tmp_path / "x.csv", newline="") as file:
            assert list(csv.reader(file)) == [
                ["id", f"'{text}"], [f"'{text}", "-1.5"], ["-1.5", "+2e3"], ["a=b", "'q"], ["", ""],
            ]  # fmt: skip

    def test_predict(self, tmp_path, model):
        new = tmp_path / "new.fa"
        new.write_text(">=1+2\nACGTACGTAC\n>-b\nACGGACGTAC\n>-7\nACGGACGTAC\n")
        for arguments in ((), ("-o", str(tmp_path / "x.csv"))):
            result = run("predict", str(model), str(new), *arguments)
            content = (tmp_path / "x.csv").read_text() if arguments else result.stdout
            assert [line.split(",")[0] for line in content.splitlines()] == ["id", "'=1+2", "'-b", "-7"]
        exact = json.loads(run("predict", str(model), str(new), "--json", "-").stdout)
        assert [row["id"] for row in exact] == ["=1+2", "-b", "-7"]

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_full_disk(self, genes, model):
        result = run("predict", str(model), str(genes), "--quiet", "-o", "/dev/full")
        assert result.exit_code == 1
        assert "/dev/full was not written because the disk is full" in said(result)


class TestBadInput:
    def test_one_of_kernel_and_best(self, genes, tmp_path):
        for arguments in ((), ("--best", "--kernel", "spectrum")):
            result = run("fit", str(genes), "--label", "1", "-o", str(tmp_path / "m"), *arguments)
            assert result.exit_code == 2
            assert "exactly one of them" in said(result)

    @pytest.mark.parametrize(
        ("kernel", "sentence"),
        [
            ("spectrums", "--kernel must be one of .*spectrum, .* or code such as"),
            ("Spectrum(k=", "--kernel is not valid code"),
            ("Spectrum(k=open('x'))", "mercer has no estimator called 'open'"),
            ("__import__('os').system('true')", "mercer has no estimator called"),
            ("Spectrum(k=().__class__)", "--kernel may contain calls of mercer, numbers and strings"),
            ("HMM(n_states=2)", "--kernel must be a kernel of mercer"),
            ("Spectrum(q=2)", "the parameters of Spectrum are k, .*; got Spectrum.q=2."),
            ("Spectrum(**{})", "write the parameters of Spectrum one by one"),
            ("Spectrum(k=0)", "k must be"),
            ("Fisher(" * 20 + "HMM()" + ")" * 20, "--kernel is nested more than 10 times"),
            ("Spectrum(k=" + "(" * 300 + "1" + ")" * 300 + ")", r"--kernel is not valid code: '.{,60}'\. Write"),
        ],
    )
    def test_kernels(self, genes, tmp_path, kernel, sentence):
        result = run("fit", str(genes), "--label", "1", "--kernel", kernel, "-o", str(tmp_path / "m.mercer"))
        assert result.exit_code == 2
        assert re.search(sentence, said(result)), result.stderr

    def test_models(self, genes, model, tmp_path):
        broken = tmp_path / "broken.mercer"
        broken.write_bytes(model.read_bytes()[:200])
        other = tmp_path / "gram.npz"
        mc.gram.save(other, np.eye(2))
        bare = tmp_path / "bare.mercer"
        mc.save(mc.Spectrum(2).fit(["ACGT", "GGTA"]), bare)
        for path, sentence in (
            (tmp_path / "none.mercer", "none.mercer"),
            (broken, "is not a mercer file"),
            (genes, "is not a mercer file"),
            (other, "contains a gram, not a fitted model"),
            (bare, "contains a Spectrum, which does not predict; save a whole pipeline"),
        ):
            result = run("predict", str(path), str(genes))
            assert result.exit_code == 2
            assert sentence in said(result)

    def test_probabilities_that_were_not_asked_for(self, genes, tmp_path):
        path = tmp_path / "plain.mercer"
        run("fit", str(genes), "--label", "1", "--kernel", "Spectrum(k=2)", "-o", str(path))
        result = run("predict", str(path), str(genes), "--proba")
        assert result.exit_code == 2
        assert said(result).endswith("does not predict probabilities; fit it again with mercer fit --proba.")

    def test_data_of_another_kind(self, model, tmp_path):
        table = tmp_path / "t.csv"
        table.write_text("id,time,v\na,0,1\na,1,2\n")
        assert "the model was fitted to FASTA or FASTQ" in said(run("predict", str(model), str(table)))

    def test_outputs_that_are_folders_or_the_data(self, genes, model, tmp_path):
        for arguments in (("predict", str(model), str(genes), "--json"), ("predict", str(model), str(genes), "-o")):
            assert "is a folder; pass the name of a file" in said(run(*arguments, str(tmp_path)))
        result = run("fit", str(genes), "--label", "1", "--kernel", "spectrum", "-o", str(genes))
        assert result.exit_code == 2
        assert "would be replaced" in said(result)

    def test_code_in_all_its_forms(self):
        made = _fitting.kernel_of("mc.ProbabilityProduct(HMM(3, random_state=0), length=Discounted(0.9))")
        assert repr(made) == repr(mc.ProbabilityProduct(mc.HMM(3, random_state=0), length=mc.Discounted(0.9)))
