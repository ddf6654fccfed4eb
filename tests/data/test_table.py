"""Tables: every form of people's own data becomes sequences, and one line says what it was taken for."""

from __future__ import annotations

import datetime
import gzip
import io
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import mercer as mc

LONG = "id,time,x,y,label\na,0,1,5,up\na,1,2,6,up\nb,0,3,7,down\nb,2,4,8,down\n"
ROWS = {
    "id": ["a", "a", "b", "b"],
    "time": [0, 1, 0, 2],
    "x": [1.0, 2.0, 3.0, 4.0],
    "y": [5, 6, 7, 8],
    "label": ["up", "up", "down", "down"],
}


def text(*lines):
    return io.StringIO("\n".join(lines))


def read(*lines, **options):
    return mc.read_table(text(*lines), **options)


def check_long(found):
    assert found.ids == found.X.ids == ("a", "b")
    assert found.channels == ("x", "y")
    assert found.y.tolist() == ["up", "down"]
    np.testing.assert_array_equal(found.X[0], [[1, 5], [2, 6]])
    np.testing.assert_array_equal(found.X[1], [[3, 7], [np.nan, np.nan], [4, 8]])
    assert found.step == 1
    assert found.groups is None
    assert not found.problems


class TestSources:
    def test_text(self, tmp_path):
        for name, content in {
            "a.csv": LONG,
            "a.tsv": LONG.replace(",", "\t"),
            "b.csv": LONG.replace(",", ";"),
            "a.txt": LONG.replace(",", "  "),
            "c.csv": "# made by hand\n\n" + LONG.replace("\n", "\r\n"),
            "d.csv": '"id","time","x","y","label"\n' + LONG.split("\n", 1)[1],
            "e.csv": LONG.replace("\n", ",\n"),
        }.items():
            (tmp_path / name).write_text(content)
            check_long(mc.read_table(tmp_path / name))
        (tmp_path / "f.csv.gz").write_bytes(gzip.compress(LONG.encode()))
        check_long(mc.read_table(str(tmp_path / "f.csv.gz")))
        check_long(mc.read_table(io.BytesIO(b"\xef\xbb\xbf" + LONG.encode())))
        check_long(mc.read_table(io.StringIO(LONG.replace(",", "|")), separator="|"))

    def test_tables_in_memory(self):
        frame = pd.DataFrame(ROWS)
        for source in (ROWS, frame, frame.set_index(["id", "time"]), frame.convert_dtypes(), pa.table(ROWS)):
            check_long(mc.read_table(source))
        check_long(mc.read_table(frame.convert_dtypes(dtype_backend="pyarrow")))

    def test_an_index_without_a_name(self):
        frame = pd.DataFrame(
            {"id": "a", "x": [1.0, 2.0, 3.0]}, index=pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-04"])
        )
        assert mc.read_table(frame).X.lengths.tolist() == [4]
        wide = pd.DataFrame({"t0": [1.0, 2.0], "t1": [3.0, 4.0]}, index=["p", "q"])
        assert mc.read_table(wide).ids == ("p", "q")
        assert len(mc.Sequences(wide.rename_axis("id"))) == 2
        indexed = pd.DataFrame(ROWS)[["id", "time", "x"]].set_index(["id", "time"])
        assert mc.Sequences(indexed).digests() == mc.read_table(indexed).X.digests()

    def test_an_index_that_pandas_wrote_is_no_channel(self, tmp_path):
        frame = pd.DataFrame(ROWS).sample(frac=1.0, random_state=0)[1:]
        frame.to_csv(tmp_path / "a.csv")
        frame.to_parquet(tmp_path / "a.parquet")
        for name in ("a.csv", "a.parquet"):
            assert mc.read_table(tmp_path / name).channels == mc.read_table(frame).channels
        named = frame.rename(columns={"x": "column 1"}).assign(**{"column 2": 1.0})
        assert "column 1" in mc.read_table(named.reset_index(drop=True)).channels

    def test_polars(self):
        pl = pytest.importorskip("polars")
        check_long(mc.read_table(pl.DataFrame(ROWS)))
        check_long(mc.read_table(pl.DataFrame(ROWS).lazy()))

    def test_columnar_files(self, tmp_path):
        pa.parquet.write_table(pa.table(ROWS), tmp_path / "a.parquet")
        pa.feather.write_feather(pa.table(ROWS), str(tmp_path / "a.feather"))
        check_long(mc.read_table(tmp_path / "a.parquet"))
        check_long(mc.read_table(tmp_path / "a.feather"))
        raw = (tmp_path / "a.parquet").read_bytes()
        (tmp_path / "cut.parquet").write_bytes(raw[: len(raw) // 2])
        with pytest.raises(ValueError, match=r"cut.parquet is damaged .* copy it again"):
            mc.read_table(tmp_path / "cut.parquet")

    def test_without_pandas(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"need pandas, .* pip install pandas"):
            mc.read_table(io.StringIO(LONG))

    def test_parquet_without_pyarrow(self, tmp_path, monkeypatch):
        (tmp_path / "a.parquet").write_bytes(b"PAR1....")
        for name in ("pyarrow", "pyarrow.parquet"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match="pip install pyarrow"):
            mc.read_table(tmp_path / "a.parquet")

    @pytest.mark.parametrize("library", ["pandas", "arrow", "polars", "csv"])
    def test_nulls_are_missing_values(self, library):
        rows = {"id": ["a", "a", "b"], "time": [0, 1, 0], "x": [1, None, 3], "label": ["u", None, "v"]}
        if library == "csv":
            source = text("id,time,x,label", "a,0,1,u", "a,1,,NA", "b,0,3,v")
        elif library == "polars":
            source = pytest.importorskip("polars").DataFrame(rows)
        else:
            source = pa.table(rows) if library == "arrow" else pd.DataFrame(rows).convert_dtypes()
        found = mc.read_table(source)
        np.testing.assert_array_equal(found.X[0], [[1], [np.nan]])
        assert found.y.tolist() == ["u", "v"]

    def test_no_table(self, tmp_path):
        with pytest.raises(TypeError, match="a table of pandas, polars or pyarrow; got an object of type int"):
            mc.read_table(3)
        for wrong in (1, "a", np.array(1.0)):
            with pytest.raises(TypeError, match="The column 'x' must be a list or an array; got"):
                mc.read_table({"x": wrong})
        (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04....")
        with pytest.raises(ValueError, match=r"save it as CSV, or pass pandas.read_excel"):
            mc.read_table(tmp_path / "a.xlsx")


class TestRoles:
    def test_blanks_around_ids_are_ignored(self):
        found = read("id,time,x", "a,0,1", " a,1,2", "b ,0,3", "b ,1,5")
        assert found.ids == ("a", "b")
        with pytest.raises(ValueError, match="the id 'a' occurs also in line 2"):
            read("id,x0,x1", "a,0,1", " a,1,2", form="wide")

    def test_synonyms(self):
        found = read("Subject,Trial ID,Timestamp,acc x,Class", "s,1,0,5,u", "s,1,1,6,u", "t,2,0,7,v", "t,2,1,8,v")
        assert found.ids == ("1", "2")
        assert found.groups.tolist() == ["s", "t"]
        assert found.y.tolist() == ["u", "v"]
        assert found.channels == ("acc x",)
        for part in ("id='Trial ID'", "time='Timestamp'", "group='Subject'", "label='Class' (2 classes)", "pass id="):
            assert part in found.description
        assert "\n" not in found.description

    def test_false_is_none(self):
        found = mc.read_table(io.StringIO(LONG), label=False, time=False, values=["x"])
        assert found.y is None
        assert found.X.lengths.tolist() == [2, 2]
        assert "ignored: 'time', 'y', 'label'" in found.description

    def test_y_next_to_x_is_a_coordinate(self):
        assert read("id,x,y", "a,1,2", "a,2,3", "b,1,2", "b,3,4").channels == ("x", "y")
        assert read("id,t0,t1,y", "a,1,2,0", "b,2,3,1").y.tolist() == [0, 1]

    def test_numbers_of_rows_are_no_values(self):
        assert read(",id,x", "0,a,1", "1,a,2", "2,b,1", "3,b,2").channels == ("x",)

    def test_several_columns_name_a_series(self):
        lines = "subject,trial,time,x", "s,1,0,1", "s,1,1,2", "t,1,0,1", "t,1,1,3"
        with pytest.raises(ValueError, match=r"line 2 and line 4.*pass id=\['subject', 'trial'\]"):
            read(*lines)
        assert read(*lines, id=["subject", "trial"]).ids == ("s/1", "t/1")

    def test_an_id_that_repeats_in_another(self):
        lines = "person_id,trial,x,label", "1,1,1,u", "1,1,2,u", "2,1,4,u", "2,1,5,u", "1,2,2,v", "1,2,2,v"
        with pytest.raises(ValueError, match=r"'1' and '2' \(line 2 and line 4\).*id=\['person_id', 'trial'\]"):
            read(*lines)
        assert read(*lines, id=["person_id", "trial"]).X.lengths.tolist() == [2, 2, 2]
        assert read(*lines, id="trial", group=False).X.lengths.tolist() == [4, 2]
        with pytest.raises(ValueError, match=r"pass id=\['id', 'device'\]"):
            read("id,time,x,device", "a,0,1,watch", "a,1,2,phone")
        nested = "subject,trial,x", "s,1,1", "s,1,2", "s,2,4", ",2,5", "t,3,1", "t,3,2"
        assert read(*nested).groups.tolist() == ["s", "s", "t"]

    @pytest.mark.parametrize(
        ("header", "sentence"),
        [
            ("id,ID ,x", "could all be the id; pass id='id'"),
            ("id,date,timestamp,x", "could all be the time; pass time='date'"),
            ("id,time,x,label,target", r"could both be y; pass label='label' or target='target'"),
            ("id,x,class,category", "could all be the label; pass label='class'"),
            ("id,time,label", "has no column of values"),
        ],
    )
    def test_ambiguous(self, header, sentence):
        with pytest.raises(ValueError, match=sentence):
            read(header, *[",".join(["1"] * len(header.split(",")))] * 2)

    def test_text_of_unknown_role(self):
        with pytest.raises(
            ValueError, match=r"column 'place' \('watch'\) contains text.* example: ignore=\['place'\]\.$"
        ):
            read("id,time,x,place", "a,0,1,watch", "a,1,2,phone")

    def test_all_columns_of_unknown_role_are_named_at_once(self):
        lines = "id,time,x,notes,activity", "a,0,1,ok,walk", "a,1,2,-,walk", "b,0,3,ok,run", "c,0,3,ok,run"
        both = r"columns 'notes' \('ok'\), 'activity' \('walk'\) contain text"
        with pytest.raises(ValueError, match=rf"{both}.* example: ignore=\['notes', 'activity'\]\.$"):
            read(*lines, label=False)
        with pytest.raises(ValueError, match=rf"{both}.* example: ignore=\['notes', 'activity'\]\.$"):
            read(*lines)  # two classes of one series each: not classes
        more = "d,0,3,ok,walk", "e,0,1,,run"
        with pytest.raises(ValueError, match=r" example: label='activity', ignore=\['notes'\]\.$"):
            read(*lines, *more)
        assert read(*lines, label="activity", ignore=["notes"]).y.tolist() == ["walk", "run", "run"]

    def test_ends_of_names(self):
        found = read("machine_id,date,x", "a,2024-01-01,1", "a,2024-01-02,2", "b,2024-01-01,3", "b,2024-01-02,4")
        assert found.ids == ("a", "b")
        assert found.step == 86400
        assert read("valid,paid,acid", "1,2,3").ids is None

    def test_columns_of_other_names_are_not_guessed(self):
        rows = {"machine": [1, 1, 1, 2, 2], "cycle": [1, 2, 3, 1, 2], "s1": [3.5, 4, 5, 6, 7]}
        with pytest.warns(UserWarning, match=r"but not numbered.* or id= if a row is one time step"):
            assert len(mc.read_table(rows).X) == 5
        assert mc.read_table(rows, id="machine", time="cycle").X.lengths.tolist() == [3, 2]
        with pytest.raises(ValueError, match="are not the numbered time steps of one channel"):
            mc.Sequences(pd.DataFrame(rows))
        assert len(mc.Sequences(pd.DataFrame(np.random.default_rng(0).integers(0, 2, size=(50, 4))))) == 50

    def test_runs_and_epochs(self):
        rows = pd.DataFrame({"run": [1, 1, 2, 2], "epoch": [0, 1, 0, 1], "x": [3.5, 4, 5, 6]})
        assert mc.read_table(rows).X.lengths.tolist() == [2, 2]
        with pytest.raises(ValueError, match=r"mc.read_table\(df, id='run', time='epoch'\)"):
            mc.Sequences(rows)

    def test_no_such_column(self):
        with pytest.raises(ValueError, match="id='name' is not a column of the file; its columns are 'id', 'x'"):
            read("id,x", "a,1", id="name")
        with pytest.raises(ValueError, match="cannot both be y"):
            mc.read_table(io.StringIO(LONG), label="x", target="y")

    def test_another_answer_is_no_value(self):
        assert read("id,t0,t1,label,target", "a,1,2,u,5", "b,3,4,v,6", target="target").channels == ("t",)

    @pytest.mark.parametrize(
        "header", ["label,class", "target,outcome", "label,y", "label,class_id", "label,class_2", "class,true_label"]
    )
    def test_another_answer_is_no_value_when_y_is_guessed(self, header):
        best, other = header.split(",")
        found = read(f"id,t0,t1,{header}", "a,1,2,0,1", "b,3,4,1,0")
        assert found.channels == ("t",)
        assert found.y.tolist() == [0, 1]
        assert f"{best!r} (" in found.description
        assert f"ignored: {other!r}" in found.description

    def test_all_other_answers_are_ignored(self):
        lines = "id,t0,t1,label,class,gait", "a,1,2,0,1,3", "b,3,4,1,0,4"
        assert "ignored: 'label', 'class'" in read(*lines, label="gait").description
        assert read(*lines, label="gait").X.lengths.tolist() == [2, 2]
        assert "ignored: 'label', 'class', 'gait'" in read(*lines, label=False, target=False).description

    @pytest.mark.parametrize("name", ["person_id", "Sample", "hour"])
    def test_other_ids_and_times_are_no_values(self, name):
        found = read(f"id,time,x,{name}", "a,0,1,5", "a,1,2,5", "b,0,2,6", "b,1,3,6")
        assert found.channels == ("x",)

    def test_a_constant_of_every_series_is_no_channel(self):
        lines = "id,time,x,age,sex,one", "a,0,1,30,0,1", "a,1,2,,0,1", "b,0,1,41,1,1", "b,1,3,41,1,1"
        found = read(*lines)
        assert found.channels == ("x", "one")
        assert found.columns["values"] == ["x", "one"]
        assert "ignored: 'age', 'sex'" in found.description
        assert "'age', 'sex' are constant in every series" in found.description
        assert read(*lines, values=["x", "age"]).channels == ("x", "age")
        assert read(*lines, covariates="age").covariates["age"].tolist() == [30, 41]
        assert read("id,time,x", "a,0,1", "a,1,1", "b,0,2", "b,1,2").channels == ("x",)


class TestTime:
    def test_dates(self):
        days = "id,date,x", "a,2024-02-28,1", "a,2024-02-29,2", "a,2024-03-02,3"
        found = read(*days)
        np.testing.assert_array_equal(found.X[0].ravel(), [1, 2, np.nan, 3])
        assert found.step == 86400
        assert "regular steps of 1 d, missing values at 1 absent step" in found.description

    def test_time_zones(self):
        found = read("id,time,x", "a,2024-01-01T00:00:00Z,1", "a,2024-01-01T02:00:00+01:00,2", "a,2024-01-01 02:00,3")
        assert found.step == 3600
        moments = [datetime.datetime(2024, 1, 1, h, tzinfo=datetime.UTC) for h in (0, 1, 2)]
        for source in (pd.DataFrame, pa.table):
            assert mc.read_table(source({"id": ["a"] * 3, "time": moments, "x": [1, 2, 3]})).step == 3600

    def test_months(self):
        found = read("id,date,x", "a,2024-01-01,1", "a,2024-02-01,2", "a,2024-04-01,3")
        assert len(found.X[0]) == 4
        assert "regular steps of 1 month" in found.description
        assert len(read("id,date,x", "a,2024-01,1", "a,2024-02,2", "a,2024-04,3").X[0]) == 4

    def test_rows_in_any_order(self):
        found = read("id,time,x", "b,1,4", "a,1,2", "b,0,3", "a,0,1")
        assert found.ids == ("b", "a")
        assert [x.ravel().tolist() for x in found.X] == [[3, 4], [1, 2]]
        assert "rows sorted by time" in found.description

    def test_rounded_stamps_are_regular(self):
        stamps = np.round(np.arange(100) / 30, 3)
        frame = pd.DataFrame({"id": "a", "time": np.delete(stamps, [5, 50, 51]), "x": 1.0})
        found = mc.read_table(frame)
        assert len(found.X[0]) == 100
        assert np.flatnonzero(np.isnan(found.X[0])).tolist() == [5, 50, 51]
        assert found.step == pytest.approx(1 / 30, rel=1e-3)

    IRREGULAR = "id,time,x", "a,0,0", "a,1,1", "a,1.3,1.3", "b,0,0", "b,2.7,2.7"

    def test_irregular_stamps_are_reported(self):
        with pytest.warns(UserWarning, match=r"irregular, 0.3 to 2.7 apart.*resample='auto'.*time_channel=True"):
            found = read(*self.IRREGULAR)
        assert found.X.lengths.tolist() == [3, 2]
        assert found.step is None

    @pytest.mark.parametrize("step", [0.5, "auto"])
    def test_resampled(self, step):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = read(*self.IRREGULAR, resample=step)
        size = 0.5 if step == 0.5 else 1.0
        for x, end in zip(found.X, (1.3, 2.7), strict=True):
            np.testing.assert_allclose(x.ravel(), np.arange(0, end, size))
        assert found.step == size

    def test_the_last_step_survives_rounding(self):
        rows = [f"a,{t!r},{t!r}" for t in (0.1 * np.arange(8)).tolist()]
        x = read("id,time,x", *rows, resample=0.1).X[0].ravel()
        np.testing.assert_allclose(x, 0.1 * np.arange(8))

    def test_resampling_keeps_what_is_missing_at_the_ends(self):
        found = read("id,time,x,z", "a,0,,1", "a,1,2,", "a,2,4,3", resample=1)
        np.testing.assert_array_equal(found.X[0], [[np.nan, 1], [2, 2], [4, 3]])

    def test_durations(self):
        rows = "id,time,x", "a,2024-01-01T00:00:00,0", "a,2024-01-01T00:01:30,90"
        assert read(*rows, resample="30s").X[0].ravel().tolist() == [0, 30, 60, 90]
        assert read(*rows, resample=45).X.lengths.tolist() == [3]
        for wrong in ("fast", "1y", 0, -1, True, np.nan):
            with pytest.raises(ValueError, match="resample must be a positive number"):
                read(*rows, resample=wrong)
        with pytest.raises(ValueError, match="resample must be a positive number"):
            read(*self.IRREGULAR, resample="10s")

    def test_the_time_as_a_channel(self):
        found = read(*self.IRREGULAR, time_channel=True)
        assert found.channels == ("x", "time")
        np.testing.assert_allclose(found.X[0][:, 1], [0, 1, 1.3])
        both = read(*self.IRREGULAR, time_channel=True, resample=1.0)
        np.testing.assert_allclose(both.X[1][:, 1], [0, 1, 2])

    def test_a_gap_that_cannot_be(self):
        rows = [f"a,{t},1" for t in (*range(10), 10**9)]
        with pytest.raises(ValueError, match=r"'a' has 11 rows, but .* span 1000000001 steps of 1; check them"):
            read("id,time,x", *rows)
        with pytest.raises(ValueError, match="pass a larger step"):
            read("id,time,x", *rows, resample=1)

    @pytest.mark.parametrize(
        ("stamp", "sentence"),
        [
            ("05/01/2024", "'05/01/2024', which is neither a number nor an ISO date"),
            ("", "has no time, column 'time'"),
            ("0", "two rows at the time 0 .line 2 and line 3"),
        ],
    )
    def test_bad_stamps(self, stamp, sentence):
        rows = "id,time,x", "a,0,1", f"a,{stamp},2", "a,2,3", "b,0,1", "b,1,1"
        with pytest.raises(ValueError, match=f"sequence 'a' .*{sentence}"):
            read(*rows)
        found = read(*rows, invalid="mask")
        assert found.ids == ("b",)
        assert list(found.problems) == ["a"]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_is_read(seed):
    """Series with missing values, written as rows in any order, come back to the last bit."""
    rng = np.random.default_rng(seed)
    series = [rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-8, 9) for n in rng.integers(2, 9, size=6)]
    rows = []
    for i, x in enumerate(series):
        x[1:-1][rng.random(len(x) - 2) < 0.2] = np.nan  # absent steps, but for the first two of a series
        steps = [t for t in range(len(x)) if not np.isnan(x[t]).all()]
        rows += [(f"s{i}", 10.0 + 0.25 * t, *x[t], i % 2) for t in steps]
    rows += [("grid", 0.25 * t, 1.0, 1.0, 0) for t in range(3)]
    order = rng.permutation(len(rows))
    frame = pd.DataFrame([rows[i] for i in order], columns=["id", "time", "u", "v", "label"])
    for source in (frame, io.StringIO(frame.to_csv(index=False)), pa.Table.from_pandas(frame, preserve_index=False)):
        found = mc.read_table(source)
        for name, x, y in zip(found.ids, found.X, found.y, strict=True):
            if name != "grid":
                np.testing.assert_array_equal(x, series[int(name[1:])])
                assert y == int(name[1:]) % 2


class TestValues:
    def test_wide(self):
        found = read("id,t0,t1,t2,label", "a,1,2,3,0", "b,1,,3,1", "c,1,2,,1")
        assert found.X[0].ravel().tolist() == [1, 2, 3]
        assert found.X.lengths.tolist() == [3, 3, 2]
        assert found.y.tolist() == [0, 1, 1]

    def test_wide_columns_are_stamps(self):
        found = read("label,t10,t8,t9,t12", "a,3,1,2,5")
        np.testing.assert_array_equal(found.X[0].ravel(), [1, 2, 3, np.nan, 5])
        assert read("0.0,0.5,1.5,label", "1,2,3,a").X.lengths.tolist() == [4]
        with pytest.warns(UserWarning, match="irregular"):
            assert read("label,t0,t10,t13,t30", "a,1,2,3,4").X.lengths.tolist() == [4]

    def test_wide_channels(self):
        found = read("acc_x_0,acc_x_1,acc_y_0,acc_y_1", "1,2,3,4")
        assert found.channels == ("acc_x", "acc_y")
        assert found.X[0].tolist() == [[1, 3], [2, 4]]

    def test_columns_next_to_time_steps_are_left_out(self):
        found = read("t0,t1,age,t2,label", "1,2,30,3,a", "1,2,31,3,b")
        assert [x.ravel().tolist() for x in found.X] == [[1, 2, 3], [1, 2, 3]]
        assert "ignored: 'age'; columns are time steps 0 to 2, 1 apart" in found.description
        assert found.columns["values"] == ["t0", "t1", "t2"]
        assert read("0,0.5,1,age", "1,2,3,30").X[0].ravel().tolist() == [1, 2, 3]
        doses = "dose1,dose2,x0,x1,x2,x3,x4,y0,y1,y2,y3", "9,9,1,2,3,4,5,1,2,3,4"
        assert read(*doses).channels == ("x", "y")
        assert read(*doses, values=doses[0].split(",")).channels == ("dose", "x", "y")  # as asked for
        assert read("t0,t1,age,t2", "1,2,30,3", values=["t0", "t1", "age"]).X[0].ravel().tolist() == [1, 2, 30]
        assert read("t0,t1,age,t2", "1,2,30,3", covariates="age").X.lengths.tolist() == [3]

    @pytest.mark.parametrize("values", ["t*", "t0:t2", "t0-t2", ["t0", "t1:t2"], "t?"])
    def test_patterns_and_ranges(self, values):
        found = read("id,t0,t1,t2,age,u3", "a,1,2,3,40,4", values=values)
        assert found.columns["values"] == ["t0", "t1", "t2"]
        assert found.X[0].ravel().tolist() == [1, 2, 3]

    def test_patterns_leave_columns_with_a_role(self):
        lines = "trial,t0,t1,t-1,target", "a,1,2,3,40"
        assert read(*lines, id="trial", target="target", values="t*").columns["values"] == ["t0", "t1", "t-1"]
        assert read(*lines, values="t-1").columns["values"] == ["t-1"]
        assert read("id,time,x", "a,0,1", "a,1,2", time="time", values=["time", "x"]).channels == ("time", "x")
        with pytest.raises(ValueError, match=r"values='q\*' is not a column"):
            read(*lines, values="q*")

    def test_ignored_columns(self):
        lines = "id,t0,t1,t2,t3", "a,1,2,3,40"
        for ignore in ("t2:t3", ["t2", "t3"], "t[23]"):
            found = read(*lines, ignore=ignore)
            assert found.columns["values"] == ["t0", "t1"]
            assert "ignored: 't2', 't3'" in found.description
        assert read(*lines, values="t*", ignore="t3").columns["values"] == ["t0", "t1", "t2"]
        assert read(*lines, ignore="id").ids is None
        with pytest.raises(ValueError, match="all columns of values='t3' are ignored"):
            read(*lines, values="t3", ignore="t3")
        with pytest.raises(ValueError, match="ignore='age' is not a column"):
            read(*lines, ignore="age")

    def test_columns_without_numbers_are_in_their_order(self):
        with pytest.warns(UserWarning, match="taken as time steps, but not numbered"):
            found = read("mon,tue,wed", "1,2,3")
        assert found.X[0].ravel().tolist() == [1, 2, 3]
        assert "the 3 columns 'mon', 'tue', 'wed' are time steps" in found.description
        assert "the column 'mon' is the only time step" in read("mon", "1", "2").description
        assert "label=, target=, group= (a column, or False for none), ignore= or form=." in found.description

    def test_strings(self):
        found = read("id,sequence,class", "a,ACGT,u", "b,GGA,v", alphabet="dna")
        assert list(found.X) == ["ACGT", "GGA"]
        assert found.X.alphabet == mc.data.Alphabet.of("dna")
        masked = read("id,sequence", "a,ACGT", "b,", "c,AXA", alphabet="dna", invalid="mask")
        assert masked.ids == ("a",)
        assert [*masked.problems] == ["b", "c"]
        long = "A" * 200_000
        assert len(read('id,sequence,"label"', f"a,{long},u").X[0]) == len(long)

    def test_line_breaks_in_quotes(self):
        lines = "id,text,label", 'a,"hello, big', 'world here",u', 'b,"bye my friend",v'
        for ends in ("\n", "\r\n"):
            found = mc.read_table(io.StringIO(ends.join(lines)))
            assert found.channels == ("big", "bye", "friend", "hello", "here", "my", "world")
        assert read('id,"acc', ' x",time', "a,1,0", "a,2,1").channels == ("acc x",)
        with pytest.raises(ValueError, match="line 4: the line has 2 fields"):
            read(*lines[:3], "b,1")

    def test_events(self):
        found = read("id,time,event", "a,0,on", "a,2,off", "b,0,off", "b,1,on")
        assert found.X[0].tolist() == ["on", None, "off"]
        codes = read("id,time,code", "a,0,3", "a,1,5", "a,2,3", kind="symbols")
        assert codes.X[0].tolist() == [3, 5, 3]

    def test_lists(self):
        found = mc.read_table({"id": ["a", "b"], "signal": [[1.0, 2.0], [3.0]], "label": [0, 1]})
        assert found.X.lengths.tolist() == [2, 1]
        assert found.channels == ("signal",)
        two = mc.read_table(pa.table({"u": [[1.0, 2.0], [3.0]], "v": [[4.0, 5.0], [6.0]]}))
        assert two.X[0].tolist() == [[1, 4], [2, 5]]
        with pytest.raises(ValueError, match=r"row 1.*lengths \[1, 2\]"):
            mc.read_table({"u": [[1.0], [2.0]], "v": [[1.0], [1.0, 2.0]]})

    def test_targets(self):
        found = read("id,t0,t1,target", "a,1,2,0.5", "b,3,4,2")
        assert found.y.dtype == np.float64
        assert "target='target' (numbers)" in found.description
        assert read("id,t0,t1,target", "a,1,2,yes", "b,3,4,no").y.tolist() == ["yes", "no"]
        with pytest.raises(ValueError, match=r"target 'no'.*pass label='target'"):
            read("id,t0,t1,target", "a,1,2,1", "b,3,4,no", target="target")
        rows = [f"{i},1,2,{i / 7}" for i in range(20)]
        with pytest.raises(ValueError, match="pass target='label' for regression"):
            read("id,t0,t1,label", *rows)

    @pytest.mark.parametrize(
        ("values", "options", "message"),
        [
            (
                '"1,000" "2,000"',
                {},
                r"column 'x' contains '1,000'; write .* thousands, or pass decimal=','",
            ),
            ('1 2 3 "1,000"', {}, r"has '1,000' in the column 'x', which contains '1,000'; write numbers without"),
            ('"1.500,25" "2,5"', {}, r"column 'x' contains '1.500,25'; write numbers without separators"),
            ("1.500 2.500", {"decimal": ","}, r"column 'x' contains '1.500'; .* thousands\.$"),
            ("1.500,25 2,5 3", {"decimal": ","}, r"has '1.500,25' in the column 'x', which contains"),
            ('"1,000" "2,000"', {"values": "x"}, r"column 'x' contains '1,000'; write"),
        ],
    )
    def test_thousands_are_refused(self, values, options, message):
        rows = [f"a;{i};{value}" for i, value in enumerate(values.split())]
        with pytest.raises(ValueError, match=message):
            read("id;time;x", *rows, **options)

    def test_a_target_with_thousands_is_refused(self):
        with pytest.raises(ValueError, match="has the target '1,000', which is not a number; the column contains"):
            read("id;t0;t1;target", "a;1;2;1,000", "b;2;1;2,000")

    def test_decimal_commas(self):
        assert read("id;time;x", "a;0;1,5", "a;0,5;2", decimal=",").X[0].ravel().tolist() == [1.5, 2.0]
        for wrong in ("", "..", "a", 1):
            with pytest.raises(ValueError, match=f"decimal must be one character, '.' or ','; got {wrong!r}"):
                read("id;time;x", "a;0;1,5", "a;0,5;2", decimal=wrong)
        with pytest.raises(ValueError, match=r"column 'x' contains '1,5'; .* pass decimal=','"):
            read("id;time;x;z", "a;0;1,5;1", "a;1;2,5;2")


class TestLabelsOfTheirOwn:
    ROWS = "id,time,x", "a,0,1", "a,1,2", "b,0,3", "b,1,4"

    def test_a_table(self):
        found = read(*self.ROWS, labels=text("id,target,group", "b,2.5,g", "c,3,h", "a,1.5,g"))
        assert found.y.tolist() == [1.5, 2.5]
        assert found.groups.tolist() == ["g", "g"]
        assert read(*self.ROWS, labels=pd.DataFrame({"id": ["a", "b"], "kind": ["u", "v"]})).y.tolist() == ["u", "v"]

    def test_a_mapping(self):
        assert read(*self.ROWS, labels={"b": "v", "a": "u"}).y.tolist() == ["u", "v"]
        with pytest.raises(ValueError, match=r"'b' \(line 4\) has no label"):
            read(*self.ROWS, labels={"a": "u"})
        with pytest.raises(ValueError, match="such as 'a', is in labels, which has 'z'"):
            read(*self.ROWS, labels={"z": "u"})

    def test_a_label_in_the_table_itself_is_ignored(self):
        lines = "id,time,x,label,class", "a,0,1,no,1", "a,1,2,yes,2", "b,0,3,no,3", "b,1,4,no,4"
        found = read(*lines, labels={"b": "v", "a": "u"})
        assert found.y.tolist() == ["u", "v"]
        assert found.channels == ("x",)
        assert "ignored: 'label', 'class'" in found.description

    def test_twice(self):
        with pytest.raises(ValueError, match="line 3: the id 'a' occurs also in line 2"):
            read(*self.ROWS, labels=text("id,label", "a,u", "a,v"))


class TestBadTables:
    @pytest.mark.parametrize("column", [[1j, 2, 3], np.array([1j, 2, 3]), np.array([1j, 2, 3], np.complex64)])
    def test_complex_numbers(self, column):
        table = {"id": ["a", "a", "b"], "x": column}
        for source in (table, pd.DataFrame(table)):
            with pytest.raises(TypeError, match=r"column 'x' has complex numbers; .*two columns"):
                mc.read_table(source)

    @pytest.mark.parametrize(
        ("lines", "sentence"),
        [
            (["id,time,x", "a,0,1", "a,1"], "line 3: the line has 2 fields, but the header has 3"),
            (["id,time,x", 'a,0,"1', "b,0,2"], "line 2: the quotes do not match"),
            (["id,x,x", "a,0,1"], "line 1: the column 'x' occurs twice"),
            (["id,time,x"], "has a header line, but no rows"),
            (["# nothing"], "contains only comments"),
            (["1,2,3", "4,5,6"], "has no header line.*mc.read_ucr"),
            ([">a", "ACGT"], "is not a table; read FASTA and FASTQ with mc.read_fasta"),
            (["time,x", "0,1", "1,2"], "needs a column that tells which series"),
            (["id,t0,t1", "a,1,2", "b,1,2", "a,3,4"], "line 4: the id 'a' occurs also in line 2"),
            (["id,t0,t1", "a,1,2", ",1,2"], "line 3: the id, column 'id', is missing"),
            (["id,time,x", "a,0,1", "a,1,2", "a,2,oops"], r"'a' \(line 4\) has 'oops' in the column 'x'"),
            (["id,time,x", "a,0,1", ",1,2"], "line 3: the id, column 'id', is missing"),
            (["id,t0,label", "a,1,u", "b,2,"], r"'b' \(line 3\) has no label"),
            (["id,time,x,label", "a,0,1,u", "a,1,2,v"], r"labels 'u' \(line 2\) and 'v' \(line 3\)"),
            (["id,t0,t1", "a,1,2", "b,,"], r"'b' \(line 3\) has no values"),
            (["id,time,x", "a,0,1", "a,1,inf"], "the value inf at position 1"),
        ],
    )
    def test_sentences(self, lines, sentence):
        with pytest.raises(ValueError, match=sentence):
            read(*lines)

    def test_a_column_of_labels_without_labels(self):
        for name in ("label", "target", "class"):
            lines = f"id,t0,t1,{name}", "a,1,2,", "b,2,3,NA"
            found = read(*lines)
            assert found.y is None
            assert found.X.lengths.tolist() == [2, 2]
            assert f"no label: the column {name!r} is missing in all rows" in found.description
            with pytest.raises(ValueError, match=f"the label, column {name!r}, is missing in all rows"):
                read(*lines, label=name)
        long = "id,time,x,label", "a,0,1,", "a,1,2,"
        assert read(*long).y is None
        with pytest.raises(ValueError, match="is missing in all rows"):
            read(*long, labels=text("id,label", "a,"))

    def test_a_class_that_is_read_as_missing(self):
        lines = "id,t0,region", "a,1,NA", "b,2,EU", "c,2,"
        with pytest.raises(
            ValueError, match=r"'a' \(line 2\) has no label, column 'region' \('NA' is read as missing\)"
        ):
            read(*lines, label="region")
        problems = read(*lines, label="region", invalid="mask").problems
        assert "'NA' is read as missing" in problems["a"]
        assert "is read as missing" not in problems["c"]
        assert "'NA' is read as missing" in read("id,t0,label", "a,1,NA", "b,2,NA").description
        frame = pd.DataFrame({"id": ["a", "b"], "t0": [1.0, 2.0], "label": ["NA", None]})
        assert "'NA' is read as missing" in mc.read_table(frame).description
        with pytest.raises(ValueError, match=r"in all rows \('NA' is read as missing\); pass label=False"):
            mc.read_table(frame, label="label")

    def test_a_row_that_is_left_out(self):
        found = read("id,time,x", "a,0,1", "a,1", "a,2,3", ",0,1", "b,0,oops", "b,1,2", "b,2,4", invalid="mask")
        assert found.ids == ("a",)
        assert [*found.problems] == ["line 3", "line 5", "b"]
        assert "3 left out (see problems)" in found.description
        with pytest.raises(ValueError, match="no sample can be read; sequence 0 has the value inf"):
            read("t0", "inf", invalid="mask")

    def test_wrong_options(self):
        for wrong in ({"form": "tall"}, {"kind": "blobs"}, {"invalid": "drop"}, {"unknown": "x"}, {"time_channel": 1}):
            with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
                mc.read_table(io.StringIO(LONG), **wrong)
        with pytest.raises(ValueError, match="need a long table"):
            read("id,t0,t1", "a,1,2", resample=1)

    def test_a_separator_that_does_not_occur(self):
        with pytest.raises(
            ValueError, match=r"separator=';' does not occur in the header, 'id,t0'; pass separator=','"
        ):
            read("id,t0", "a,1", separator=";")
        assert list(read("sequence", "ACGT", "GGA", separator=",").X) == ["ACGT", "GGA"]

    def test_a_huge_file(self, tmp_path):
        with open(tmp_path / "huge.csv", "wb") as file:
            file.truncate(10 * 2**30)  # sparse: it takes no space
        with pytest.raises(
            ValueError, match=r"huge.csv has 10.0 GiB, more than .* 1.0 GiB.*mc.config\(max_file_bytes="
        ):
            mc.read_table(tmp_path / "huge.csv")
        (tmp_path / "small.csv").write_text(LONG)
        with mc.config(max_file_bytes=20), pytest.raises(ValueError, match="more than the limit"):
            mc.read_table(tmp_path / "small.csv")

    def test_a_parquet_bomb(self, tmp_path):
        pa.parquet.write_table(pa.table({"id": ["a"] * 10**6}), tmp_path / "a.parquet", use_dictionary=False)
        with mc.config(max_file_bytes=10**6), pytest.raises(ValueError, match="more than the limit"):
            mc.read_table(tmp_path / "a.parquet")
