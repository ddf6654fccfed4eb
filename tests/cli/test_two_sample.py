"""``mercer test``."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from tests.cli import command

import mercer as mc


def run(*arguments):
    return command.run("test", *map(str, arguments))


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, letters in (("old", "AACGT"), ("new", "ACGGT"), ("same", "AACGT")):
        lines = [f">{name}{i} subject={name}{i // 2}\n{''.join(rng.choice(list(letters), 30))}" for i in range(12)]
        (tmp_path / f"{name}.fasta").write_text("\n".join(lines))
    return tmp_path


def test_two_files(files):
    result = run(files / "old.fasta", files / "new.fasta", "--kernel", "Spectrum(k=1)")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "The two samples differ (p = 0.001 +/- 0.001; 999 random permutations of objects, seed 0)" in said
    assert "Most typical of new: new" in result.output
    assert "No difference" in run(files / "old.fasta", files / "same.fasta", "-k", "Spectrum(k=1)", "-q").output


def test_the_numbers_are_those_of_the_library(files):
    result = run(
        files / "old.fasta", files / "new.fasta", "--kernel", "Spectrum(k=2)", "--json", "-", "--permutations", 99
    )
    found = json.loads(result.stdout)
    X, Y = (mc.read_fasta(files / f"{name}.fasta").X for name in ("old", "new"))
    expected = mc.stats.two_sample_test(X, Y, mc.Spectrum(k=2), n_permutations=99)
    assert found["p_value"] == expected.p_value
    assert found["effect_size"] == pytest.approx(expected.effect_size)
    assert found["most_different"]["old"][0] == X.ids[expected.most_different(1)[0][0]]
    assert found["groups"] == {"old": 12, "new": 12}


def test_groups_and_classes_of_one_file(files):
    both = files / "both.fasta"
    text = [(files / f"{name}.fasta").read_text().replace(" subject", f" {name} subject") for name in ("old", "new")]
    both.write_text("\n".join(text))
    result = run(both, "--label", "1", "--groups", r"subject=(\w+)", "-k", "Spectrum(k=1)")
    assert result.exit_code == 0, result.output
    assert "924 permutations of groups" in " ".join(result.output.split())
    two = run(files / "old.fasta", files / "new.fasta", "--groups", r"subject=(\w+)", "-k", "Spectrum(k=1)")
    assert "924 permutations of groups" in " ".join(two.output.split())


def test_copies_are_no_matter_of_folds(files):
    text = (files / "old.fasta").read_text()
    (files / "twice.fasta").write_text(text + "\n" + text.replace(">old", ">again"))
    result = run(files / "twice.fasta", files / "new.fasta", "-k", "Spectrum(k=1)")
    said = " ".join(result.output.split())
    assert "24 of 24 samples are identical to another one, and a test counts copies as independent samples" in said
    assert "fold" not in said
    assert "leak" not in said


def test_confounds_are_columns_of_tables(files):
    rng = np.random.default_rng(1)
    for name, mean in (("young", 30), ("old", 60)):
        ages = rng.normal(mean, 20, size=15)
        rows = [f"{name}{i},{t},{a / 10 + rng.normal()},{a}" for i, a in enumerate(ages) for t in range(8)]
        (files / f"{name}.csv").write_text("\n".join(["id,time,x,age", *rows]))
    paths = files / "young.csv", files / "old.csv"
    kernel = ("-k", "EmpiricalMeanMap(gamma=0.05)", "-q", "--values", "x")
    plain, adjusted = run(*paths, *kernel), run(*paths, *kernel, "--confounds", "age")
    assert adjusted.exit_code == 0, adjusted.output
    assert "The two samples differ" in plain.output
    assert "No difference was found" in adjusted.output
    assert "999 random signs of residuals of objects" in " ".join(adjusted.output.split())


def test_confounds_that_are_text_are_strata(files):
    """Ages and sites: the example of the help. The sites explain the difference, and are one column of text."""
    rng = np.random.default_rng(3)
    for name, sites in (("ill", "AAABC"), ("well", "ABCCC")):
        rows = []
        for i in range(30):
            site, age = sites[i % 5], rng.normal(50, 10)
            level = 3 * "ABC".index(site) + rng.normal()
            rows += [f"{name}{i},{t},{level + rng.normal()},{age},{site}" for t in range(6)]
        (files / f"{name}.csv").write_text("\n".join(["id,time,x,age,site", *rows]))
    paths = files / "ill.csv", files / "well.csv"
    kernel = ("-k", "EmpiricalMeanMap(gamma=0.1)", "-q", "--values", "x", "--ignore", "age,site")
    given = ("-k", "EmpiricalMeanMap(gamma=0.1)", "--values", "x")
    assert "The two samples differ" in run(*paths, *kernel).output
    strata = run(*paths, *given, "--ignore", "age", "--confounds", "site")
    assert strata.exit_code == 0, strata.output
    said = " ".join(strata.output.split())
    assert "No difference was found" in said
    assert "permutations of objects within strata" in said
    both = run(*paths, *given, "--confounds", "age,site", "--json", "-", "--permutations", 99)
    assert both.exit_code == 0, both.output
    read = [mc.read_table(path, values="x", covariates=["age", "site"]) for path in paths]
    confounds = [list(zip(one.covariates["age"], one.covariates["site"], strict=True)) for one in read]
    expected = mc.stats.two_sample_test(
        read[0].X, read[1].X, mc.EmpiricalMeanMap(gamma=0.1), confounds=confounds[0] + confounds[1], n_permutations=99
    )
    assert json.loads(both.stdout)["p_value"] == expected.p_value


def test_a_kernel_without_a_width_takes_it_from_the_data(files):
    rng = np.random.default_rng(2)
    rates = 1000 * np.array([[30, 30], [33, 30]])
    lines = [f"{c} 1:{rng.poisson(rates[c, 0])} 2:{rng.poisson(rates[c, 1])}" for c in (0, 1) * 10]
    (files / "counts.svm").write_text("\n".join(lines))
    result = run(files / "counts.svm", "-k", "RBF()", "-q")
    assert "The two samples differ (p = 0.00" in " ".join(result.output.split()), result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["old.fasta"], "requires --label"),
        (["table.csv"], "no classes.*second file|requires --label"),
        (["old.fasta", "--label", "0"], "has 12 classes"),
        (["old.fasta", "absent.fasta"], "absent.fasta"),
        (["old.fasta", "new.fasta", "-k", "Spectrum("], "not valid code"),
        (["old.fasta", "new.fasta", "-k", "nothing"], "--kernel must be one of"),
        (["old.fasta", "table.csv"], "different formats"),
        (["one.fasta", "new.fasta", "-k", "Spectrum(k=1)"], "one group|at least 2"),
    ],
)
def test_bad_input_gets_one_sentence(files, arguments, sentence):
    (files / "table.csv").write_text("id,time,x\na,0,1\na,1,2\nb,0,1\nb,1,3\n")
    (files / "one.fasta").write_text(">a\nACGT\n")
    paths = [str(files / a) if a.endswith((".fasta", ".csv")) else a for a in arguments]
    result = run(*paths)
    assert result.exit_code == 2, result.output
    message = " ".join(result.stderr.split())
    assert re.search(sentence, message), message
    assert "Traceback" not in result.output
