"""Times and groups of tables whose columns have unknown names: they are found, and advice never drops them."""

from __future__ import annotations

import datetime
import io
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.data import columns

N, T = 24, 12
RNG = np.random.default_rng(0)


def messy(when="when", kind="datetime", **columns):
    """Return recordings of two activities that differ in their order only, with the rows shuffled."""
    parts = []
    for i in range(N):
        stamps = pd.date_range("2024-10-26 23:00", periods=T, freq="15min", tz="Europe/Berlin") + i * pd.Timedelta("1h")
        rising = np.arange(T) if i % 2 else np.arange(T)[::-1]
        x = rising + RNG.normal(0, 0.1, size=T)
        parts.append(pd.DataFrame({"recording": f"r{i}", "patient": f"p{i // 4}", when: stamps, "acc": x}))
        parts[-1]["activity"] = ["fall", "rise"][i % 2]
    frame = pd.concat(parts).assign(**columns)
    if kind == "text":
        frame[when] = [x.isoformat() for x in frame[when]]
    return frame.sample(frac=1, random_state=1).reset_index(drop=True)


RIGHT = {"id": "recording", "label": "activity", "group": "patient"}


def advised(sentence):
    """Return the options that a message advises, as pasted."""
    return eval(f"dict({sentence.split('for example: ')[1].removesuffix('.')})")


def accuracy(read):
    """Return the accuracy of the sign of the slope, which shuffled rows destroy."""
    slope = np.array([np.nanmean(np.diff(x[:, 0])) for x in read.X])
    return max(np.mean((slope > 0) == (read.y == name)) for name in ("fall", "rise"))


class TestDates:
    @pytest.mark.parametrize("kind", ["datetime", "text"])
    @pytest.mark.parametrize("name", ["when", "Beobachtet am", "xyz", "ts", "created_at", "zeit"])
    def test_they_are_the_time_whatever_their_name(self, name, kind):
        read = mc.read_table(messy(name, kind), label="activity")
        assert read.columns["time"] == [name]
        assert read.step == 900
        order = mc.read_table(messy(name, kind).sort_values(["recording", name]), time=name, **RIGHT)
        assert accuracy(read) == accuracy(order) == 1

    def test_dates_of_python_and_periods(self):
        days = [datetime.date(2024, 1, d) for d in (3, 1, 2)]
        for dates in (days, pd.Series(pd.PeriodIndex(days, freq="D"))):
            read = mc.read_table(pd.DataFrame({"id": "a", "zzz": dates, "x": [3.0, 1.0, 2.0]}))
            assert read.X[0].ravel().tolist() == [1, 2, 3]

    def test_only_those_that_vary_within_samples(self):
        frame = messy().assign(born=[f"19{p[1:]:>02}-01-01" for p in messy().patient], admitted=pd.Timestamp("2024"))
        read = mc.read_table(frame, label="activity")
        assert read.columns["time"] == ["when"]
        assert "ignored: 'born', 'admitted'" in read.description
        named = frame.rename(columns={"admitted": "date"})  # a known name, but the same in all rows
        assert mc.read_table(named, label="activity").columns["time"] == ["when"]

    def test_two_ask_for_the_time(self):
        frame = messy("seen").assign(logged=lambda x: x.seen + pd.Timedelta("1s"))
        with pytest.raises(
            ValueError, match=r"'seen' and 'logged' could all be the time; pass time='seen', or time='log"
        ):
            mc.read_table(frame, label="activity")
        read = mc.read_table(frame, label="activity", time="logged")
        assert accuracy(read) == 1
        assert "ignored: 'seen'" in read.description

    def test_a_name_is_stronger_than_a_type(self):
        frame = messy().assign(time=lambda x: x.groupby("recording").when.rank())
        assert mc.read_table(frame, label="activity").columns["time"] == ["time"]
        frame = frame.rename(columns={"time": "hour"})  # a weak name
        assert mc.read_table(frame, label="activity").columns["time"] == ["when"]

    def test_a_wrong_stamp_among_dates(self):
        frame = messy(kind="text")
        frame.loc[5, "when"] = "yesterday"
        wrong = (
            r"has the time 'yesterday', which is neither a number nor an ISO date.*if the rows are already in order, "
        )
        with pytest.raises(ValueError, match=wrong):
            mc.read_table(frame, label="activity")

    def test_they_are_not_used_in_wide_tables(self):
        wide = {"id": ["a", "b"], "t0": [1.0, 2.0], "t1": [3.0, 4.0], "measured on": ["2024-01-01", "2024-01-02"]}
        read = mc.read_table(wide)
        assert read.X.lengths.tolist() == [2, 2]
        assert "ignored: 'measured on'" in read.description
        del wide["id"]
        with pytest.raises(ValueError, match=r"pass id= .*, or form='wide' if every row is a series"):
            mc.read_table(wide)
        assert len(mc.read_table(wide, form="wide").X) == 2


class TestAdvice:
    """What is advised can be pasted, and gives the same samples as the right call."""

    @pytest.mark.parametrize("kind", ["datetime", "text"])
    @pytest.mark.parametrize(
        ("dropped", "expected"),
        [
            ([], {"label": "activity", "ignore": ["notes", "mode"]}),
            (["mode"], {"label": "activity", "ignore": ["notes"]}),
            (["notes", "mode"], {"label": "activity"}),
        ],
    )
    def test_shuffled_rows_are_read_as_sorted_ones(self, kind, dropped, expected):
        mode = RNG.choice(["idle", "run"], N * T)
        frame = messy(kind=kind, notes=[f"note {i}" for i in range(N * T)], mode=mode).drop(columns=dropped)
        with pytest.raises(ValueError, match="no name among them tells a role") as error:
            mc.read_table(frame)
        assert advised(str(error.value)) == expected
        ordered = frame.sort_values(["recording", "when"])
        read, right = mc.read_table(frame, **expected), mc.read_table(ordered, time="when", values="acc", **RIGHT)
        assert accuracy(read) == accuracy(right) == 1
        assert dict(zip(read.ids, read.X.digests(), strict=True)) == dict(
            zip(right.ids, right.X.digests(), strict=True)
        )
        assert dict(zip(read.ids, read.groups, strict=True)) == dict(zip(right.ids, right.groups, strict=True))

    @pytest.mark.slow
    def test_the_classifier_learns_from_what_is_advised(self):
        from sklearn.model_selection import GroupKFold, cross_val_score

        frame = messy()
        with pytest.raises(ValueError, match="for example") as error:
            mc.read_table(frame)
        read = mc.read_table(frame, **advised(str(error.value)))
        model = mc.SeriesClassifier("fast")
        assert cross_val_score(model, read.X, read.y, groups=read.groups, cv=GroupKFold(3)).mean() == 1

    def test_columns_that_may_be_groups_are_not_ignored(self):
        frame = messy(site=None).assign(site=lambda x: "s" + x.recording.str[-1], notes="none")
        with pytest.raises(
            ValueError, match="the values of 'activity' and 'site' are constant in every sample"
        ) as error:
            mc.read_table(frame)
        assert str(error.value).endswith(
            "pass label= for what is used, and ignore= for what is not, such as ignore=['notes']."
        )
        found = {}
        for group in (None, False):
            with pytest.raises(ValueError, match="tells a role") as error:
                mc.read_table(frame.drop(columns="patient"), label="activity", group=group)
            found[group] = advised(str(error.value))
        assert found[None] == {"group": "site", "ignore": ["notes"]}
        assert found[False] == {"ignore": ["site", "notes"]}

    def test_an_id_of_unknown_name(self):
        frame = messy().drop(columns="patient").rename(columns={"recording": "specimen"})
        with pytest.raises(ValueError, match="tells a role") as error:
            mc.read_table(frame)
        assert advised(str(error.value)) == {"id": "specimen", "label": "activity"}
        both = frame.assign(sweep=frame.specimen.str[1:], specimen="rat " + frame.specimen.str[-1])
        both["sweep"] = "s" + (both.sweep.astype(int) % 7).astype(str)
        with pytest.raises(
            ValueError, match=r"the values of .*'sweep' repeat, so they may name the series: pass id= for"
        ):
            mc.read_table(both)

    @pytest.mark.parametrize("restarts", [True, False])
    def test_parts_of_a_subject_are_not_ignored(self, restarts):
        rows = [
            {"subject": f"s{i}", "sweep": f"w{k}", "time": t + (0 if restarts else 10 * k), "x": i + k + t}
            for i in range(3)
            for k in range(2)
            for t in range(5)
        ]
        frame = pd.DataFrame(rows).assign(notes=[f"note {i}" for i in range(30)]).sample(frac=1, random_state=0)
        question = "'sweep' change within 'subject', so they may name the series together with it: pass id= for what is"
        with pytest.raises(ValueError, match=question) as error:
            mc.read_table(frame)
        assert str(error.value).endswith("ignore= for what is not, such as ignore=['notes'].")
        assert len(mc.read_table(frame, id=["subject", "sweep"], ignore="notes").X) == 6
        with pytest.raises(ValueError, match="tells a role") as error:  # the user has decided
            mc.read_table(frame, id="subject")
        assert advised(str(error.value)) == {"ignore": ["sweep", "notes"]}

    def test_what_is_ignored_already_stays_so(self):
        frame = messy(notes=[f"note {i}" for i in range(N * T)])
        with pytest.raises(ValueError, match="tells a role") as error:
            mc.read_table(frame, ignore="notes")
        assert advised(str(error.value)) == {"label": "activity", "ignore": ["notes"]}

    def test_rows_without_a_time(self):
        rows = {"machine": ["u", "u", "v", "v"], "speed": [1.0, 2.0, 3.0, 4.0], "heat": [1.0, 2.0, 3.0, 4.0]}
        with pytest.raises(
            ValueError, match=r"'machine' repeat, so they may name the series or be labels: pass id= or la"
        ):
            mc.read_table(rows)
        wide = {"specimen": ["u", "v"], "notes": ["as usual", "cracked"], "t0": [1, 2], "t1": [2, 3]}
        with pytest.raises(ValueError, match=r"for example: id='specimen', ignore=\['notes'\]\.$"):
            mc.read_table(wide)

    @pytest.mark.parametrize("form", ["%d/%m/%Y %H:%M", "%d.%m.%Y, %H:%M", "%H:%M:%S"])
    def test_dates_of_other_forms_are_converted(self, form):
        frame = messy("moment")
        frame["moment"] = frame.moment.dt.strftime(form)
        with pytest.raises(ValueError, match=r"if 'moment' is the time, write ISO dates .*to_datetime") as error:
            mc.read_table(frame, label="activity")
        assert "ignore" not in str(error.value)

    def test_text_that_varies_may_become_channels(self):
        frame = messy(mode=["idle", "run", "run"] * (N * T // 3))
        cure = r"pd.get_dummies\(df, columns=\['mode'\]\) makes channels"
        with pytest.raises(ValueError, match=cure):
            mc.read_table(frame, label="activity")
        read = mc.read_table(pd.get_dummies(frame, columns=["mode"]), label="activity")
        assert read.channels == ("acc", "mode_idle", "mode_run")


FAR = {"id": ["a"] * 3 + ["b"] * 2, "x": [1.0, 2, 3, 4, 5]}


class TestFarTimes:
    @pytest.mark.parametrize("far", [1e19, -1e19, 1e300, 1e308])
    def test_they_are_one_sentence(self, far):
        with pytest.raises(ValueError, match=r"sequence 'a' has 3 rows, .* span 1e\+\d+ steps of 1; check them"):
            mc.read_table({**FAR, "time": [0.0, 1.0, far, 0.0, 1.0]})
        with pytest.raises(ValueError, match=r"resample=1.0 would make 1e\+\d+ steps of 5 rows"):
            mc.read_table({**FAR, "time": [0.0, 1.0, far, 0.0, 1.0]}, resample=1.0)

    def test_infinity(self):
        rows = {**FAR, "time": [0.0, 1.0, np.inf, 0.0, 1.0]}
        with pytest.raises(ValueError, match=r"'a' \(row 2\) has the time inf, column 'time', which is not finite"):
            mc.read_table(rows)
        for options in ({}, {"resample": 1.0}, {"time_channel": True}):
            assert mc.read_table(rows, invalid="mask", **options).ids == ("b",)

    def test_series_that_are_far_apart(self):
        read = mc.read_table({**FAR, "time": [0.0, 1.0, 2.0, 2.0**62, 2.0**62 + 1024]}, time_channel=True)
        assert read.X.lengths.tolist() == [3, 2]
        assert mc.read_table({**FAR, "time": [0.0, 1.0, 2.0, 1e15, 1e15 + 1]}).X.lengths.tolist() == [3, 2]

    def test_numbers_in_names_of_columns(self):
        with pytest.warns(UserWarning, match="not numbered"):
            assert mc.read_table({"1e400": [1.0], "2": [3.0]}).X.lengths.tolist() == [2]


class Counted(str):
    """A name that counts its comparisons."""

    __slots__ = ()
    n = 0

    def __eq__(self, other):
        Counted.n += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_of_columns_are_not_compared_in_pairs(monkeypatch):
    shim = SimpleNamespace(sub=lambda pattern, new, text: Counted(re.sub(pattern, new, text)), fullmatch=re.fullmatch)
    monkeypatch.setattr(columns, "re", shim)
    n = 300
    table = columns.table_of(io.StringIO(",".join(f"n{i}" for i in range(n)) + f"\n1{',1' * (n - 1)}\n"))
    assert len(table.columns) == n
    assert Counted.n < 20 * n
