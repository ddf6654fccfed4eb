"""One file per recording or document: folders, patterns and lists of paths."""

from __future__ import annotations

import gzip
import os

import pandas as pd
import pytest

import mercer as mc


@pytest.fixture
def runs(tmp_path):
    """A folder with one sub-folder per class."""
    for i, (folder, length) in enumerate([("walk", 3), ("walk", 2), ("rest", 4)]):
        (tmp_path / folder).mkdir(exist_ok=True)
        rows = [f"{t},{t + i},{i * t}" for t in range(length)]
        (tmp_path / folder / f"run{i + 9}.csv").write_text("\n".join(["time,x,z", *rows]))
    return tmp_path


def flat(folder, n=3, name="r{}.csv", header="x\n"):
    for i in range(n):
        (folder / name.format(i)).write_text(header + f"{i}\n{i + 1}\n")
    return folder


class TestFolders:
    def test_labels_by_sub_folder(self, runs):
        (runs / "README.md").write_text("notes")
        (runs / ".DS_Store").write_bytes(b"\0")
        found = mc.read_table(runs)
        assert found.ids == ("rest/run11", "walk/run9", "walk/run10")
        assert found.y.tolist() == ["rest", "walk", "walk"]
        assert found.channels == ("x", "z")
        assert found.X[1].tolist() == [[0, 0], [1, 0], [2, 0]]
        assert "label='folder' (2 classes)" in found.description

    def test_patterns_and_lists(self, runs):
        whole = mc.read_table(runs)
        again = mc.read_table(f"{runs}/*/*.csv")
        assert again.ids == whole.ids
        assert again.y.tolist() == whole.y.tolist()
        paths = [runs / "walk/run10.csv", str(runs / "walk/run9.csv")]
        found = mc.read_table(paths)
        assert found.ids == ("run10", "run9")
        assert found.y is None
        assert mc.read_table([*paths, runs / "rest/run11.csv"]).y.tolist() == ["walk", "walk", "rest"]

    def test_labels_by_a_table(self, tmp_path):
        flat(tmp_path)
        (tmp_path / "labels.csv").write_text("file,label,subject\nr2.csv,b,s\nr0.csv,a,s\nr1.csv,b,t\n")
        found = mc.read_table(tmp_path)
        assert found.y.tolist() == ["a", "b", "b"]
        assert found.groups.tolist() == ["s", "t", "s"]
        other = mc.read_table(f"{tmp_path}/r*.csv", labels={"r0": 1.5, "r1": 2, "r2": 3})
        assert other.y.tolist() == ["1.5", "2", "3"]
        frame = pd.DataFrame({"name": ["r0", "r1", "r2"], "age": [30.5, 40, 50]})
        assert mc.read_table(f"{tmp_path}/r*.csv", labels=frame, target="age").y.tolist() == [30.5, 40, 50]

    def test_files_without_a_header(self, tmp_path):
        flat(tmp_path, header="")
        found = mc.read_table(tmp_path)
        assert found.X[1].tolist() == [[1], [2]]
        assert found.channels == ("column 1",)

    def test_other_kinds_of_files(self, tmp_path):
        frame = pd.DataFrame({"time": [0, 1, 3], "x": [1.0, 2, 3]})
        (tmp_path / "p").mkdir()
        frame.to_parquet(tmp_path / "p/a.parquet")
        (tmp_path / "p/b.parquet").write_bytes((tmp_path / "p/a.parquet").read_bytes())
        assert mc.read_table(tmp_path / "p").X.lengths.tolist() == [4, 4]
        (tmp_path / "g").mkdir()
        for name in "ab":
            (tmp_path / f"g/{name}.csv.gz").write_bytes(gzip.compress(b"x\n1\n2\n"))
        assert mc.read_table(tmp_path / "g").ids == ("a", "b")

    def test_a_given_id_joins_the_files(self, tmp_path):
        for name in "ab":
            (tmp_path / f"{name}.csv").write_text(f"id,time,x\n{name}1,0,1\n{name}1,1,2\n{name}2,0,1\n{name}2,1,3\n")
        assert mc.read_table(tmp_path, id="id").ids == ("a1", "a2", "b1", "b2")

    def test_places_name_the_file(self, runs):
        (runs / "walk/run9.csv").write_text("time,x,z\n0,1,2\n1,2,2\n1,3,3\n")
        with pytest.raises(ValueError, match=r"walk/run9.csv, line 3 and walk/run9.csv, line 4"):
            mc.read_table(runs)
        found = mc.read_table(runs, invalid="mask")
        assert [*found.problems] == ["walk/run9"]

    def test_bad_files_are_left_out(self, runs):
        (runs / "walk/run9.csv").write_bytes(b"")
        with pytest.raises(ValueError, match="is empty"):
            mc.read_table(runs)
        (runs / "rest/run12.csv").write_text("time,x\n0,1\n")
        found = mc.read_table(runs, invalid="mask")
        assert found.ids == ("rest/run11", "walk/run10")
        assert {*found.problems} == {"walk/run9", "rest/run12"}
        assert "column 'z' is not in 'run12.csv'" in found.problems["rest/run12"]

    def test_ambiguous_labels(self, runs):
        for path in runs.glob("*/*.csv"):
            path.write_text("time,x,label\n0,1,u\n1,2,u\n")
        with pytest.raises(ValueError, match="pass label='folder' or label='label'"):
            mc.read_table(runs)
        assert mc.read_table(runs, label="label").y.tolist() == ["u", "u", "u"]
        assert mc.read_table(runs, label="folder").channels == ("x",)

    def test_sentences(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"has no files; pass a folder or a pattern"):
            mc.read_table(tmp_path)
        with pytest.raises(FileNotFoundError, match=r"No file matches '.*\*.csv'"):
            mc.read_table(f"{tmp_path}/*.csv")
        with pytest.raises(FileNotFoundError, match=r"'none.csv' does not exist"):
            mc.read_table("none.csv")
        with pytest.raises(FileNotFoundError, match=r"'none.csv' does not exist"):
            mc.read_table(["none.csv"])
        flat(tmp_path)
        (tmp_path / "a.wav").write_bytes(b"RIFF")
        with pytest.raises(ValueError, match=r"'a.wav', which is not a table .*\*.csv' to choose"):
            mc.read_table(tmp_path)
        (tmp_path / "a.wav").rename(tmp_path / "a.tsv")
        with pytest.raises(ValueError, match=r"mixes kinds of files, such as 'a.tsv' and 'r0.csv'"):
            mc.read_table(tmp_path)
        (tmp_path / "a.tsv").unlink()
        (tmp_path / "deep/er").mkdir(parents=True)
        flat(tmp_path / "deep/er")
        with pytest.raises(ValueError, match=r"'deep/er/r0.csv' is at another depth"):
            mc.read_table(tmp_path)

    def test_an_unreadable_folder(self, tmp_path, monkeypatch):
        def refuse(path):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(os, "scandir", refuse)
        with pytest.raises(PermissionError, match="cannot be read; check its permissions"):
            mc.read_table(tmp_path)

    def test_an_unreadable_file(self, tmp_path, monkeypatch):
        flat(tmp_path)

        def refuse(path):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
        with pytest.raises(PermissionError, match=r"r0.csv' cannot be read; check its permissions"):
            mc.read_table(tmp_path / "r0.csv")


class TestDocuments:
    @pytest.fixture
    def letters(self, tmp_path):
        for folder, name, text in [
            ("spam", "a", "Win, win now!"),
            ("ham", "b", "See you\nat noon"),
            ("ham", "c", "you win"),
        ]:
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{name}.txt").write_text(text)
        return tmp_path

    def test_a_folder(self, letters):
        found = mc.read_table(letters)
        assert found.y.tolist() == ["ham", "ham", "spam"]
        assert found.channels == ("at", "noon", "now", "see", "win", "you")
        assert found.X.toarray().tolist() == [[1, 1, 0, 1, 0, 1], [0, 0, 0, 0, 1, 1], [0, 0, 1, 0, 2, 0]]
        assert found.ids == ("ham/b", "ham/c", "spam/a")
        assert "3 documents of 6 different words" in found.description
        K = mc.ProbabilityProduct(mc.Multinomial()).fit_transform(found.X)
        assert K.shape == (3, 3)

    def test_words_and_symbols(self, letters):
        words = mc.read_table(letters, kind="words")
        assert words.X[1].tolist() == ["you", "win"]
        assert mc.read_table(letters, kind="symbols").X[1] == "you win"

    def test_new_documents_have_the_old_words(self, letters):
        old = mc.read_table(letters)
        new = mc.read_table({"text": ["win a car", "you see"]}, alphabet=old.channels)
        assert new.X.shape == (2, 6)
        assert new.X.sum() == 3
        assert "2 words outside the vocabulary" in new.description
        with pytest.raises(ValueError, match=r"sequence 1 \(row 1\) has none of the 6 known words"):
            mc.read_table({"text": ["win a car", "a car"]}, alphabet=old.channels)

    def test_a_table(self):
        rows = {"id": ["a", "b", "c"], "text": ["one two", "...", "two two"], "label": [0, 1, 1]}
        with pytest.raises(ValueError, match=r"'b' \(row 1\) has no words"):
            mc.read_table(rows)
        found = mc.read_table(rows, invalid="mask")
        assert found.ids == ("a", "c")
        assert found.y.tolist() == [0, 1]
        assert [*found.problems] == ["b"]
        with pytest.raises(TypeError, match="alphabet must be a list of words"):
            mc.read_table(rows, invalid="mask", alphabet="ab")

    def test_numbers_are_no_documents(self, tmp_path):
        flat(tmp_path, name="r{}.txt")
        assert mc.read_table(tmp_path).X.dimension == 1
