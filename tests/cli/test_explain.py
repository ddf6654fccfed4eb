"""`mercer explain`: from a saved model and new data to the positions that made the decisions."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from tests.cli.command import run

import mercer as mc

X = ["ACGTACGG", "TTTTACAA", "ACGGACGT", "TTACTTTT", "GACGACGA", "ATTTATTT"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of two classes, saved as `mercer fit` does."""
    path = tmp_path_factory.mktemp("explain") / "model.mercer"
    strings = mc.Sequences(X, alphabet="dna")
    pipeline = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed")).fit(strings, ["a", "b"] * 3)
    known = {"reader": "fasta", "alphabet": strings.alphabet.to_header()}
    mc.save(pipeline, path, metadata={"reading": {}, "known": known})
    path.with_name("new.fa").write_text(">one\nACGTA\n>two\nTTTTA\n")
    return path


def test_positions_are_printed_and_written(model, tmp_path):
    new, table, content = model.with_name("new.fa"), tmp_path / "all.csv", tmp_path / "some.json"
    result = run("explain", str(model), str(new), "--top", "2", "-o", str(table), "--json", str(content))
    assert result.exit_code == 0, result.output
    found = mc.explain(mc.load(model), mc.Sequences(["ACGTA", "TTTTA"], alphabet="dna"))
    lines = result.stdout.splitlines()
    first = found.top(1)[0][0]
    assert lines[0].startswith(
        f"one: b {found.decision[0]:+.4g} (bias {found.bias[0]:+.3g}); {first.position} {first.name}"
    )
    rows = list(csv.DictReader(table.open()))
    assert [row["sample"] for row in rows] == ["one"] * 5 + ["two"] * 5
    np.testing.assert_allclose([float(row["contribution"]) for row in rows], np.concatenate(found.contributions))
    samples = json.loads(content.read_text())["samples"]
    assert [sample["id"] for sample in samples] == ["one", "two"]
    assert len(samples[0]["top"]) == 2


def test_the_predicted_class_is_explained(tmp_path):
    rng = np.random.default_rng(1)  # the largest sum of decisions is not the class with most votes for some of these
    strings = mc.Sequences(["".join(rng.choice(list("ACGT"), size=12)) for _ in range(60)], alphabet="dna")
    pipeline = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed", C=10)).fit(strings[:20], list("abcd") * 5)
    predicted = pipeline.predict(strings[20:]).tolist()
    assert predicted != ["abcd"[k] for k in mc.explain(pipeline, strings[20:]).decision.argmax(axis=1)]
    known = {"reader": "fasta", "alphabet": strings.alphabet.to_header()}
    mc.save(pipeline, tmp_path / "m.mercer", metadata={"reading": {}, "known": known})
    lines = [f">s{i}\n{''.join(strings[i])}\n" for i in range(20, 60)]
    (tmp_path / "new.fa").write_text("".join(lines))
    result = run("explain", str(tmp_path / "m.mercer"), str(tmp_path / "new.fa"), "--json", "-")
    assert [sample["output"] for sample in json.loads(result.stdout)["samples"]] == predicted


@pytest.mark.slow
def test_pictures(model, tmp_path):
    pytest.importorskip("matplotlib")
    for lines in (">one\nACGTA\n", ">one\nACGTA\n>two\nTTTTA\n"):
        new, picture = tmp_path / "new.fa", tmp_path / "why.png"
        new.write_text(lines)
        result = run("explain", str(model), str(new), "--plot", str(picture))
        assert result.exit_code == 0, result.output
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_explained_is_one_sentence(model, tmp_path):
    new = str(model.with_name("new.fa"))
    for options, sentence in [
        (["--method", "exact"], "method must be one of"),
        (["--class", "c"], "--class must be one of b; got 'c'"),
        (["--plot", str(tmp_path / "why.txt")], "Format 'txt' is not supported"),
        (["--window", "3", "--method", "additive"], "method='marginal'"),
    ]:
        result = run("explain", str(model), new, *options)
        assert result.exit_code == 2
        assert sentence in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
