"""Columns of a table with one number per sample: confounds, weights."""

from __future__ import annotations

import io

import pytest

import mercer as mc

LONG = "id,time,v,age,label\na,0,1,30,x\na,1,2,30,x\nb,0,3,41.5,y\nb,1,4,,y\n"


def test_they_are_no_values_and_one_per_sample():
    read = mc.read_table(io.StringIO(LONG), covariates="age")
    assert read.channels == ("v",)
    assert {name: column.tolist() for name, column in read.covariates.items()} == {"age": [30.0, 41.5]}


def test_wide():
    read = mc.read_table(io.StringIO("t0,t1,w,age\n1,2,.5,9\n3,4,1,8\n"), covariates=["w", "age"])
    assert read.X.lengths.tolist() == [2, 2]
    assert read.covariates["w"].tolist() == [0.5, 1.0]
    assert "covariates='w, age'" in read.description
    assert "ignored" not in read.description


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LONG.replace("a,1,2,30", "a,1,2,31"), "has the covariates '30' .* and '31' .*, but needs one"),
        (LONG.replace("30", "old"), "has the covariate 'old' in the column 'age', which is not a number"),
        (LONG.replace("30", "inf"), "has the covariate 'inf' in the column 'age', which is not finite"),
    ],
)
def test_what_is_wrong(text, message):
    with pytest.raises(ValueError, match=message):
        mc.read_table(io.StringIO(text), covariates="age")


def test_text_is_kept():
    text = "id,time,v,site\na,0,1,\na,1,2,north\nb,0,3,2b\nb,1,4,2b\n"
    read = mc.read_table(io.StringIO(text), covariates="site")
    assert read.covariates["site"].tolist() == ["north", "2b"]
    with pytest.raises(ValueError, match=r"has the covariates 'south' .* and 'north' .*, but needs one"):
        mc.read_table(io.StringIO(text.replace("a,0,1,", "a,0,1,south")), covariates="site")
    with pytest.raises(ValueError, match="has no covariate, column 'site'"):
        mc.read_table(io.StringIO(text.replace("north", "")), covariates="site")
    kept = mc.read_table(io.StringIO(text.replace("north", "")), covariates="site", invalid="mask")
    assert kept.covariates["site"].tolist() == ["2b"]


def test_unknown_column():
    with pytest.raises(ValueError, match="covariates='size' is not a column of"):
        mc.read_table(io.StringIO(LONG), covariates=["size"])


def test_columns_of_the_table_of_labels():
    labels = {"id": ["b", "a"], "label": ["v", "u"], "weight": [2.5, 1.0]}
    read = mc.read_table(io.StringIO(LONG), labels=labels, covariates=["age", "weight"])
    assert {name: column.tolist() for name, column in read.covariates.items()} == {
        "age": [30, 41.5],
        "weight": [1, 2.5],
    }
    assert read.y.tolist() == ["u", "v"]
    only = {"id": ["b", "a"], "state": ["v", "u"], "weight": [2.5, 1.0]}
    assert mc.read_table(io.StringIO(LONG), labels=only, covariates="weight").y.tolist() == ["u", "v"]
    with pytest.raises(ValueError, match="covariates='size' is not a column of labels; its columns are 'id', 'label'"):
        mc.read_table(io.StringIO(LONG), labels=labels, covariates=["size"])
