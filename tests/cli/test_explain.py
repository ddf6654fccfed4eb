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
    assert found.outputs == ("b",)
    assert found.predicted == ("a", "b")
    assert lines[0].startswith(  # of two classes, the first one is the opposite of the second
        f"one: a {-found.decision[0]:+.4g} (bias {-found.bias[0]:+.3g}); "
        f"{first.position + 1} {first.name} {-first.value:+.3g}"
    )
    assert lines[1].startswith(f"two: b {found.decision[1]:+.4g} (bias {found.bias[1]:+.3g}); ")
    rows = list(csv.DictReader(table.open()))
    assert [row["sample"] for row in rows] == ["one"] * 5 + ["two"] * 5
    assert [row["position"] for row in rows] == list("12345") * 2  # as residues are counted
    assert {row["output"] for row in rows} == {"b"}
    np.testing.assert_allclose([float(row["contribution"]) for row in rows], np.concatenate(found.contributions))
    samples = json.loads(content.read_text())["samples"]
    assert [sample["id"] for sample in samples] == ["one", "two"]
    assert len(samples[0]["top"]) == 2
    assert samples[0]["top"][0]["position"] == first.position + 1
    against = run("explain", str(model), str(new), "--class", "a")
    assert against.stdout.splitlines()[1].startswith(f"two: a {-found.decision[1]:+.4g}")


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


@pytest.mark.slow
def test_series_are_drawn_over_their_contributions_to_the_predicted_class(tmp_path):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    speeds = {"slow": 0.3, "medium": 0.7, "fast": 1.2}
    lines = ["walk,label,acc,temperature"]
    for i in range(30):
        label = list(speeds)[i % 3]
        wave = np.sin(speeds[label] * np.arange(30) + rng.uniform(0, 6)) + 0.2 * rng.normal(size=30)
        lines += [f"w{i},{label},{value:.4f},{36 + rng.normal():.4f}" for value in wave]
    train, model, picture = (tmp_path / name for name in ("walks.csv", "walks.mercer", "why.png"))
    train.write_text("\n".join(lines) + "\n")
    columns = ["--id", "walk", "--label", "label"]
    kernel = ["--kernel", "Fisher(HMM(n_states=3,n_iter=5))", "--proba", "-q"]  # a calibrated classifier
    fitted = run("fit", str(train), *columns, *kernel, "-o", str(model))
    assert fitted.exit_code == 0, fitted.output
    result = run("explain", str(model), str(train), "--plot", str(picture), "--top", "1")
    assert result.exit_code == 0, result.output
    assert "first 12 of 30 series" in result.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    predicted = mc.load(model).predict(mc.read_table(train, id="walk", label="label").X)
    rows = result.stdout.splitlines()
    assert [row.split()[1] for row in rows] == predicted.tolist()
    places = [row.partition("; ")[2].split() for row in rows]
    assert {place[1] for place in places} <= {"acc", "temperature"}
    assert all(1 <= int(place[0]) <= 30 for place in places)


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
