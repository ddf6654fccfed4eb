"""DataFrames in place of sequences: a MultiIndex of series and time, series in cells, and recordings with a time."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

N, T = 8, 9
RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=(T, 2)) * (1 + 3 * (i % 2)) for i in range(N)]
X = mc.Sequences(ARRAYS, channels=["a", "b"])
Y = np.arange(N) % 2
DAYS = pd.date_range("2024-02-25", periods=T, tz="Europe/Berlin")
ORDER = RNG.permutation(T)


def frames(**columns):
    return [pd.DataFrame(x, columns=["a", "b"]).assign(**columns) for x in ARRAYS]


def panel(names=(None, None), time=range(T)):
    index = pd.MultiIndex.from_product([[f"r{i}" for i in range(N)], time], names=names)
    return pd.DataFrame(np.concatenate(ARRAYS), columns=["a", "b"], index=index)


def nested():
    return pd.DataFrame({"a": [pd.Series(x[:, 0]) for x in ARRAYS], "b": [pd.Series(x[:, 1]) for x in ARRAYS]})


class TestMultiIndex:
    @pytest.mark.parametrize(
        "names",
        [
            ("instances", "timepoints"),
            ("id", "time"),
            ("case", "step"),
            ("foo", "bar"),
            (None, None),
            ("h0", None),
            (None, "time"),
        ],
    )
    @pytest.mark.parametrize("shuffled", [False, True])
    def test_its_levels_are_the_series_and_the_time(self, names, shuffled):
        frame = panel(names)
        if shuffled:
            rows = np.concatenate([T * i + RNG.permutation(T) for i in range(N)])
            frame = frame.iloc[rows]
        read = mc.read_table(frame)
        assert read.ids == tuple(f"r{i}" for i in range(N))
        for found in (read.X, mc.Sequences(frame)):
            assert found.digests() == X.digests()
            assert found.channels == ("a", "b")

    @pytest.mark.parametrize(
        "time",
        [DAYS, pd.period_range("2024-01", periods=T, freq="M"), np.arange(T) / 4, pd.timedelta_range(0, periods=T)],
    )
    def test_times_of_any_kind(self, time):
        frame = panel(time=time).sample(frac=1, random_state=0).sort_index(level=0, sort_remaining=False)
        assert mc.Sequences(frame).digests() == mc.read_table(frame).X.digests() == X.digests()

    def test_other_columns_have_their_roles(self):
        frame = panel(("instances", "timepoints")).assign(label=np.repeat(Y, T), age=np.repeat(np.arange(N), T))
        read = mc.read_table(frame)
        assert read.y.tolist() == Y.tolist()
        assert read.channels == ("a", "b")
        with pytest.raises(ValueError, match=r"'label', which looks like a label.*read_table\(df, label='label'\)"):
            mc.Sequences(frame)

    def test_names_may_tell_other_roles(self):
        swapped = panel(("id", "time")).swaplevel()
        assert mc.read_table(swapped).X.digests() == X.digests()
        with pytest.raises(ValueError, match=r"the trial '0' occurs with the subject .*id=\['subject', 'trial'\]"):
            mc.read_table(panel(("subject", "trial")))

    def test_frames_that_are_joined_by_pandas(self):
        """The second level only numbers the rows, in the order of each frame."""
        parts = frames(when=DAYS)
        joined = pd.concat([part.iloc[ORDER] for part in parts], keys=range(N))
        joined.index = pd.MultiIndex.from_tuples([(i, k % T) for k, (i, _) in enumerate(joined.index)])
        assert mc.read_table(joined).X.digests() == mc.Sequences(joined).digests() == X.digests()

    def test_three_levels(self):
        frame = panel().assign(g="g").set_index("g", append=True).reorder_levels([2, 0, 1])
        frame.index.names = ["g", "r", "t"]
        cure = r"MultiIndex of 3 levels, 'g', 'r', 't';.*mc.read_table\(df, id=\['g', 'r'\], time='t'\)\.$"
        for reader in (mc.read_table, mc.Sequences, mc.HMM(2).fit):
            with pytest.raises(ValueError, match=cure):
                reader(frame)
        assert mc.read_table(frame, id=["g", "r"], time="t").X.digests() == X.digests()

    def test_a_level_with_the_name_of_a_column(self):
        with pytest.raises(ValueError, match="The index of the table and a column are both named 'a'; rename one"):
            mc.read_table(panel(("a", "t")))


class TestNested:
    def test_cells_are_series(self):
        assert mc.read_table(nested()).X.digests() == mc.Sequences(nested()).digests() == X.digests()
        assert mc.Sequences(nested()).channels == ("a", "b")
        assert mc.read_table(nested().assign(label=Y)).y.tolist() == Y.tolist()
        assert mc.Sequences(nested()[["a"]]).dimension == 1

    def test_what_is_refused(self):
        uneven = nested()
        uneven.at[2, "b"] = pd.Series([1.0])
        with pytest.raises(ValueError, match=r"sequence 2 \(row 2\) has lists of the lengths \[1, 9\]"):
            mc.Sequences(uneven)
        dated = pd.DataFrame({"a": [pd.Series([1.0, 2.0], index=DAYS[:2])] * 2})
        for reader in (mc.read_table, mc.Sequences):
            with pytest.raises(ValueError, match="has a Series with its own time stamps; use one row per time step"):
                reader(dated)


FORMS = {
    "MultiIndex": lambda: (panel(), panel()[["b", "a"]]),
    "cells": lambda: (nested(), nested()[["b", "a"]]),
    "list": lambda: (frames(), [x[["b", "a"]] for x in frames()]),
    "time": lambda: (frames(when=DAYS), [x[["b", "when", "a"]].iloc[ORDER] for x in frames(when=DAYS)]),
}


class TestEstimators:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_channels_go_by_name(self, form):
        old, turned = FORMS[form]()
        model = make_pipeline(mc.Fisher(mc.HMM(2, n_iter=3, random_state=0)), SVC(kernel="precomputed"))
        expected = model.fit(X, Y).decision_function(X)
        assert model.fit(old, Y).feature_names_in_.tolist() == ["a", "b"]
        for new in (old, turned, X):
            np.testing.assert_allclose(model.decision_function(new), expected, rtol=1e-9)
        with pytest.raises(ValueError, match="missing: 'b'"):
            model.predict(
                turned.drop(columns="b") if form in ("MultiIndex", "cells") else [turned[0].drop(columns="b")]
            )


class TestRecordings:
    @pytest.mark.parametrize(
        "timed",
        [
            lambda x: x.assign(time=np.arange(T)),
            lambda x: x.assign(time=np.arange(T) / 4).set_index("time"),
            lambda x: x.assign(xyz=DAYS),
            lambda x: x.assign(xyz=DAYS.strftime("%Y-%m-%dT%H:%M")),
            lambda x: x.set_index(DAYS),
            lambda x: x.set_index(pd.timedelta_range(0, periods=T)),
            lambda x: x.set_index(pd.period_range("2024", periods=T, freq="D")),
            lambda x: pd.DataFrame(x.to_numpy(), index=DAYS),
        ],
    )
    def test_a_time_orders_the_rows_and_is_no_channel(self, timed):
        shuffled = mc.Sequences([timed(x).iloc[RNG.permutation(T)] for x in frames()])
        assert shuffled.digests() == X.digests()

    @pytest.mark.parametrize("library", ["polars", "arrow"])
    def test_other_libraries(self, library):
        items = [x.assign(when=DAYS.tz_localize(None)).iloc[ORDER] for x in frames()]
        if library == "arrow":
            items = [pa.Table.from_pandas(x, preserve_index=False) for x in items]
        else:
            items = list(map(pytest.importorskip("polars").from_pandas, items))
        found = mc.Sequences(items)
        assert found.digests() == X.digests()
        assert found.channels == ("a", "b")

    def test_absent_steps_are_missing(self):
        items = [x.set_index(DAYS) for x in frames()]
        items[3] = items[3].drop(DAYS[4])
        found = mc.Sequences(items)
        assert found.lengths.tolist() == [T] * N
        assert np.isnan(found[3][4]).all()
        assert np.isnan(found.values).sum() == 2

    def test_irregular_times_warn(self):
        items = frames(time=[0, 1, 2, 3, 4, 5, 6, 7, 8.4])
        with pytest.warns(
            UserWarning, match=r"are irregular.*read_table\(pd.concat\(frames, keys=range\(len\(frames\)"
        ):
            assert mc.Sequences(items).digests() == X.digests()
        read = mc.read_table(pd.concat(items, keys=range(len(items))), resample="auto")
        assert read.X.channels == ("a", "b")
        assert read.ids == tuple(map(str, range(N)))

    def test_groups_of_a_multiindex(self):
        assert mc.Sequences([part for _, part in panel().iloc[::-1].groupby(level=0)]).digests() == X.digests()

    def test_rows_are_counted_in_their_recording(self):
        items = frames(time=range(T))
        items[2].loc[4, "time"] = np.nan
        with pytest.raises(
            ValueError, match=r"sequence 2 \(row 4\) has no time, column 'time'; add it, or drop the time"
        ):
            mc.Sequences(items)
        masked = mc.Sequences(items, invalid="mask")
        assert list(masked.problems) == [2]
        assert masked.digests() == X[[0, 1, 3, 4, 5, 6, 7]].digests()

    def test_an_empty_one(self):
        items = frames(time=range(T))
        items.insert(1, items[0].iloc[:0])
        assert mc.Sequences(items).lengths.tolist() == [T, 0] + [T] * (N - 1)
        assert mc.Sequences([items[1]]).lengths.tolist() == [0]

    @pytest.mark.parametrize(
        ("items", "sentence"),
        [
            (lambda: frames(time=range(T), xyz=DAYS), "columns 'time' and 'xyz' could all be the time; drop"),
            (lambda: [x.set_index(DAYS) for x in frames(time=range(T))], "the time 'time' in the index and in a"),
            (lambda: [*frames(time=range(T))[:2], frames()[2]], "sequence 2 has no time 'time', unlike other"),
            (lambda: [*frames(time=range(T))[:2], ARRAYS[2]], "sequence 2 has no names of channels"),
            (lambda: frames(time=0), r"sequence 0 has two rows at the time 0 \(row 0 and row 1\); remove one\.$"),
            (lambda: frames(time=[*range(T - 1), 1e19]), r"span 1e\+19 steps of 1; check them, or drop the time"),
            (lambda: frames(mode=["idle", "run", "run"] * 3), r"'mode' \('idle'\), .*get_dummies\(df, columns=\['mo"),
            (lambda: frames(day=["Mon"] * T, time=range(T)), r"'day' \('Mon'\), .*get_dummies\(df, columns=\['day'\]"),
        ],
    )
    def test_what_is_refused(self, items, sentence):
        with pytest.raises(ValueError, match=sentence):
            mc.Sequences(items())

    def test_the_cure_of_text(self):
        items = [pd.get_dummies(x, columns=["mode"]) for x in frames(mode=["idle", "run", "run"] * 3)]
        assert mc.Sequences(items).channels == ("a", "b", "mode_idle", "mode_run")

    def test_the_hour_may_be_a_channel(self):
        assert mc.Sequences(frames(hour=np.arange(T) % 3)).channels == ("a", "b", "hour")
        assert mc.Sequences([x.set_axis(range(100, 100 + T)) for x in frames()]).digests() == X.digests()


class TestChannelsFirst:
    """Arrays of aeon have the time last."""

    def test_lists_warn(self):
        turned = [x.T for x in ARRAYS]
        with pytest.warns(UserWarning, match=r"arrays of shape \(2, 9\).* use Sequences.from_aeon"):
            mc.Sequences(turned)
        with pytest.warns(UserWarning, match=r"use Sequences.from_aeon"):
            mc.Gaussian().fit(turned)

    @pytest.mark.filterwarnings("ignore:X is a list of arrays")
    def test_unequal_lengths_are_an_error_with_a_hint(self):
        hint = r"sequence 1 has dimension 8, .* dimension 9; .* All arrays have 2 rows; if a row is a channel, use Sequ"
        with pytest.raises(ValueError, match=hint):
            mc.Sequences([ARRAYS[0].T, ARRAYS[1].T[:, :8]])
        with pytest.raises(ValueError, match=r"they must be equal\.$"):
            mc.Sequences([ARRAYS[0], ARRAYS[1][:5, :1]])

    @pytest.mark.parametrize(
        "quiet",
        [
            lambda: mc.Sequences(ARRAYS),
            lambda: mc.Sequences([*ARRAYS, ARRAYS[0][:1]]),
            lambda: mc.Sequences([np.zeros((2, 5)), np.zeros((3, 5))]),
            lambda: mc.Sequences([ARRAYS[0].T], channels=[f"c{i}" for i in range(T)]),
            lambda: mc.Sequences([pd.DataFrame(np.zeros((2, 5)), columns=list("abcde"))]),
            lambda: mc.Sequences([[[1.0, 2.0, 3.0]]]),
            lambda: mc.Sequences.from_aeon(ARRAYS),
        ],
    )
    def test_others_do_not(self, quiet):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quiet()
