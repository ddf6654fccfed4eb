"""File format 1: what was written once is read for good, without pickle; what cannot be read says why."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.families.lists import predicted

import mercer as mc
from mercer import _files

sys.path.insert(0, str(Path(__file__).parent / "golden"))
import make

V1 = Path(__file__).parent / "golden" / "v1"
BATCHES = make.batches()


def arrays(batch, prefix=""):
    """All arrays and plain values of a batch, by name."""
    out = {}
    for name in batch._arrays:
        value = getattr(batch, name)
        out[prefix + name] = (
            value if not hasattr(value, "indptr") else value.dense() if hasattr(value, "dense") else value.data
        )
    for name in batch._shared:
        out[prefix + name] = getattr(batch, name)
    for name in batch._parts:
        out |= arrays(getattr(batch, name), f"{prefix}{name}.")
    return out


def assert_same(a, b, rtol=0.0):
    assert type(a) is type(b)
    assert a.shape == b.shape
    mine, theirs = arrays(a), arrays(b)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == theirs[name].dtype
            np.testing.assert_allclose(value, theirs[name], rtol=rtol)
        else:
            assert value == theirs[name]


class TestGolden:
    def test_every_batch_has_one(self):
        kinds = {type(batch).__name__ for batch in BATCHES.values()}
        plurals = {
            name for name in mc.__all__ if isinstance(getattr(mc, name), type) and hasattr(getattr(mc, name), "concat")
        }
        assert plurals - {"Sequences"} <= kinds
        assert {path.stem for path in V1.glob("*.npz")} == {*BATCHES, "gram"}

    @pytest.mark.parametrize("name", list(BATCHES))
    def test_is_read_as_it_was_written(self, name):
        batch = mc.load(V1 / f"{name}.npz")
        assert_same(batch, BATCHES[name], rtol=1e-6 if name.endswith("float32") else 1e-13)  # another machine wrote it

    @pytest.mark.parametrize("name", list(BATCHES))
    def test_names_itself_its_estimator_and_its_parameters(self, name):
        batch = BATCHES[name]
        kind = type(batch).__name__
        assert repr(batch).startswith(f"{kind}(shape={batch.shape}")
        if kind in predicted():  # by other estimators
            with pytest.raises(NotImplementedError, match=f"{kind} must implement estimator"):
                batch.estimator()
        else:
            assert type(batch.estimator()).__name__ == kind[:-1].replace("Local", "Affine")
        if kind != "KDEs":
            assert np.all(np.asarray(batch.n_parameters) >= 1)
        if hasattr(batch, "score_names"):
            names = list(batch.score_names())
            assert len(set(names)) == len(names) > 1

    @pytest.mark.parametrize("name", list(BATCHES))
    def test_can_be_used(self, name):
        batch = mc.load(V1 / f"{name}.npz")
        if name in ("pairhmms", "affinepairhmms", "localpairhmms", "hiddentrees"):  # models that data share
            data = [[0, 1, 3], [2, 2, np.nan]] if name == "hiddentrees" else batch.alphabet.symbols[:3]
            np.testing.assert_allclose(batch.log_prob(data), BATCHES[name].log_prob(data), rtol=1e-12)
            return
        if not hasattr(batch, "log_product") and type(batch).__name__ in predicted():
            points = batch[0].sample(3, random_state=0)
            np.testing.assert_allclose(batch.log_prob(points), BATCHES[name].log_prob(points), rtol=1e-12)
            return
        length, rho = (
            3 if name.startswith(("hmm", "markov", "lds", "switching", "factorial")) else None,
            1.0 if name == "kdes" else 0.5,
        )
        product = mc.kernels.SwitchingProduct if name == "switchingldss" else mc.ProbabilityProduct
        kernel = product(length=length, rho=rho)
        np.testing.assert_allclose(
            kernel(batch), kernel(BATCHES[name]), rtol=1e-5 if name.endswith("float32") else 1e-12
        )

    def test_the_gram_matrix(self):
        found = mc.load(V1 / "gram.npz")
        np.testing.assert_array_equal(found.K, make.GRAM["K"])
        assert (found.rows, found.columns) == (make.GRAM["rows"], make.GRAM["columns"])
        assert found.kernel == "RBF(gamma=0.5)"

    @pytest.mark.parametrize("path", sorted(V1.glob("*.npz")), ids=lambda path: path.stem)
    def test_holds_plain_arrays_and_json(self, path):
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(bytes(archive["header"]).decode())
            assert header["format"] == 1
            assert all(archive[name].dtype.kind in "biuf" for name in archive.files)
        assert path.stat().st_size < 4000


class TestRoundTrip:
    @pytest.mark.parametrize("name", list(BATCHES))
    def test_batch(self, tmp_path, name):
        path = tmp_path / "batch.npz"
        BATCHES[name].save(path)
        loaded = type(BATCHES[name]).load(path)
        assert_same(loaded, BATCHES[name])
        assert loaded.digests() == BATCHES[name].digests()
        assert [p.name for p in tmp_path.iterdir()] == ["batch.npz"]

    @pytest.mark.parametrize("name", list(BATCHES))
    def test_what_is_loaded_is_read_only(self, name):
        for value in arrays(mc.load(V1 / f"{name}.npz")).values():
            assert not isinstance(value, np.ndarray) or name.endswith("-sparse") or not value.flags.writeable

    def test_the_name_is_kept_as_given(self, tmp_path):
        BATCHES["poissons"].save(tmp_path / "rates")
        BATCHES["poissons"].save(str(tmp_path / "rates"))  # again, over it
        assert_same(mc.load(tmp_path / "rates"), BATCHES["poissons"])

    def test_a_failed_write_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "batch.npz"
        BATCHES["poissons"].save(path)
        with pytest.raises(ValueError, match="x contains Python objects"):
            _files.write(path, {"kind": "batch"}, {"x": np.array([object()])})
        assert_same(mc.load(path), BATCHES["poissons"])
        assert len(list(tmp_path.iterdir())) == 1

    def test_gram(self, tmp_path):
        path = tmp_path / "gram.npz"
        mc.gram.save(path, np.eye(3))
        found = mc.load(path)
        assert (found.rows, found.columns, found.kernel) == (None, None, "")
        mc.gram.save(path, np.eye(2, 3, dtype=np.float32), rows=[1, 2], kernel="mine")
        assert mc.load(path).rows == ["1", "2"]
        assert mc.load(path).K.dtype == np.float32

    def test_gram_nonsense(self, tmp_path):
        with pytest.raises(ValueError, match="one id for each of the 2 rows of K; got 3"):
            mc.gram.save(tmp_path / "x", np.eye(2), rows="abc")
        with pytest.raises(ValueError, match="one id for each of the 2 columns of K; got 4"):
            mc.gram.save(tmp_path / "x", np.eye(2), columns="abcd")
        with pytest.raises(ValueError, match=r"a 2-D array of real numbers; got shape \(2,\)"):
            mc.gram.save(tmp_path / "x", np.ones(2))
        assert not list(tmp_path.iterdir())


def rewrite(path, target, change):
    """Copy a file with another header."""
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files}
    header = json.loads(bytes(content.pop("header")).decode())
    text = json.dumps(change(header, content) or header)
    np.savez(target, header=np.frombuffer(text.encode(), dtype=np.uint8), **content)


class TestUnreadable:
    def test_a_newer_format(self, tmp_path):
        rewrite(V1 / "poissons.npz", tmp_path / "x.npz", lambda header, _: header.update(format=99))
        with pytest.raises(ValueError, match=r"has file format 99; .* up to 1\. Upgrade mercer"):
            mc.load(tmp_path / "x.npz")

    def test_the_wrong_kind(self, tmp_path):
        with pytest.raises(ValueError, match="contains a gram, not a batch"):
            mc.Poissons.load(V1 / "gram.npz")
        _files.write(tmp_path / "x.npz", {"kind": "report"}, {})
        with pytest.raises(ValueError, match="contains a report, not a batch or a gram"):
            mc.load(tmp_path / "x.npz")
        with pytest.raises(ValueError, match="contains Poissons, not Gaussians"):
            mc.Gaussians.load(V1 / "poissons.npz")

    def test_an_unknown_class(self, tmp_path):
        rewrite(
            V1 / "poissons.npz", tmp_path / "x.npz", lambda header, _: header["batch"].update({"class": "Unheardofs"})
        )
        with pytest.raises(ValueError, match=r"contains Unheardofs.*Import it first"):
            mc.load(tmp_path / "x.npz")

    def test_something_missing(self, tmp_path):
        rewrite(V1 / "poissons.npz", tmp_path / "x.npz", lambda _, content: content.clear())
        with pytest.raises(ValueError, match="has no entry 'rate'"):
            mc.load(tmp_path / "x.npz")
        rewrite(V1 / "gram.npz", tmp_path / "x.npz", lambda header, _: {k: v for k, v in header.items() if k != "rows"})
        with pytest.raises(ValueError, match="lacks 'rows'"):
            mc.load(tmp_path / "x.npz")

    def test_no_header_or_a_strange_one(self, tmp_path):
        np.savez(tmp_path / "x.npz", a=np.eye(2))
        with pytest.raises(ValueError, match="npz archive without a header"):
            mc.load(tmp_path / "x.npz")
        for text, message in (("{}", "no format number"), ("[1]", "no format number"), ("{", "is damaged")):
            np.savez(tmp_path / "x.npz", header=np.frombuffer(text.encode(), dtype=np.uint8))
            with pytest.raises(ValueError, match=message):
                mc.load(tmp_path / "x.npz")

    @pytest.mark.parametrize("content", [b"", b"hello, this is no archive", b"\x80\x04pickle"])
    def test_no_archive(self, tmp_path, content):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"is not a mercer file: it is not an npz archive"):
            mc.load(tmp_path / "x.npz")

    def test_an_npy_file(self, tmp_path):
        np.save(tmp_path / "x.npy", np.eye(2))
        with pytest.raises(ValueError, match="it is not an npz archive"):
            mc.load(tmp_path / "x.npy")

    def test_a_truncated_file(self, tmp_path):
        raw = (V1 / "poissons.npz").read_bytes()
        (tmp_path / "x.npz").write_bytes(raw[: len(raw) // 2])
        with pytest.raises(ValueError, match="it is not an npz archive"):
            mc.load(tmp_path / "x.npz")

    def test_flipped_bytes(self, tmp_path):
        path = tmp_path / "x.npz"
        with zipfile.ZipFile(V1 / "poissons.npz") as archive:
            info = archive.getinfo("rate.npy")
            start = info.header_offset + 30 + len("rate.npy") + 40
        raw = bytearray((V1 / "poissons.npz").read_bytes())
        raw[start : start + 10] = bytes(255 - b for b in raw[start : start + 10])
        path.write_bytes(raw)
        with pytest.raises(ValueError, match="is damaged"):
            mc.load(path)

    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            mc.load(tmp_path / "nothing.npz")

    def test_a_pickle_inside_is_refused(self, tmp_path):
        np.savez(tmp_path / "x.npz", header=np.array([{"format": 1}], dtype=object))
        with pytest.raises(ValueError, match="pickle"):
            mc.load(tmp_path / "x.npz")


def archive_of(path, *members):
    """Write a zip archive from (name, bytes) pairs."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)


def npy(array, **changes):
    """Return the bytes of an npy file, with parts of its header replaced."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    content = buffer.getvalue()
    for old, new in changes.values():
        assert len(old) == len(new)
        content = content.replace(old, new, 1)
    return content


class TestHostile:
    """Damaged and hostile files end in one sentence of ours, before memory is taken."""

    def test_any_flipped_byte(self, tmp_path):
        path = tmp_path / "x.npz"
        raw = (V1 / "poissons.npz").read_bytes()
        messages = []
        for i in range(0, len(raw), 2):
            path.write_bytes(raw[:i] + bytes([raw[i] ^ 0xFF]) + raw[i + 1 :])
            try:
                mc.load(path)
            except ValueError as error:
                messages.append(str(error))
        assert len(messages) > 100
        assert all(str(path) in message and "allow_pickle" not in message for message in messages)

    def test_an_array_that_claims_more_than_is_there(self, tmp_path):
        header = npy(np.frombuffer(b"{}", dtype=np.uint8))
        claims = npy(np.zeros((1, 1)), shape=(b"(1, 1), }" + b" " * 16, b"(1000000, 1000000), }    "))
        archive_of(tmp_path / "x.npz", ("header.npy", header), ("K.npy", claims))
        with pytest.raises(ValueError, match=r"is damaged \(K.npy has 8 bytes, not shape \(1000000, 1000000\)"):
            mc.load(tmp_path / "x.npz")

    def test_a_bomb(self, tmp_path):
        mc.gram.save(tmp_path / "x.npz", np.zeros((600, 600)))
        with mc.config(max_file_bytes=2**20):
            with pytest.raises(ValueError, match=r"unpacks to more than 1.0 MiB .* mc.config\(max_file_bytes=...\)"):
                mc.load(tmp_path / "x.npz")
            mc.gram.save(tmp_path / "noise.npz", np.random.default_rng(0).normal(size=(600, 600)))
            assert mc.load(tmp_path / "noise.npz").K.shape == (600, 600)  # large, and no bomb
        assert mc.load(tmp_path / "x.npz").K.shape == (600, 600)

    def test_a_bomb_of_letters(self, tmp_path):
        path = tmp_path / "x.fasta.gz"
        path.write_bytes(gzip.compress(b">a\n" + b"A" * 2_000_000))
        with mc.config(max_file_bytes=2**20), pytest.raises(ValueError, match=r"unpacks to more than 1.0 MiB"):
            mc.read_fasta(path)
        assert len(mc.read_fasta(path).X[0]) == 2_000_000

    @pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' + "1" * 5000 + "}"])
    def test_a_strange_header(self, tmp_path, text):
        archive_of(tmp_path / "x.npz", ("header.npy", npy(np.frombuffer(text.encode(), dtype=np.uint8))))
        with pytest.raises(ValueError, match="is damaged"):
            mc.load(tmp_path / "x.npz")

    @pytest.mark.parametrize(
        "change",
        [
            {"parts": []},
            {"parts": {"rate": 3}},
            {"shared": None},
            {"class": ["Poissons"]},
            {"class": "Batch"},
        ],
    )
    def test_a_header_of_another_form(self, tmp_path, change):
        rewrite(V1 / "poissons.npz", tmp_path / "x.npz", lambda header, _: header["batch"].update(change))
        with pytest.raises(ValueError, match=r"x.npz is damaged|class that is not imported"):
            mc.load(tmp_path / "x.npz")

    def test_no_batch_in_the_header(self, tmp_path):
        rewrite(V1 / "poissons.npz", tmp_path / "x.npz", lambda header, _: header.update(batch=[]))
        with pytest.raises(ValueError, match=r"x.npz is damaged"):
            mc.load(tmp_path / "x.npz")

    @pytest.mark.parametrize(
        ("K", "ids", "message"),
        [
            (np.array([["a"]]), {}, "2-D array of real numbers"),
            (np.ones(3), {}, "2-D array of real numbers"),
            (np.array([[np.nan]]), {}, "must be finite; got nan"),
            (np.eye(2), {"rows": 5}, "rows must be a list of ids; got 5"),
            (np.eye(2), {"columns": {}}, "columns must be a list of ids"),
            (np.eye(2), {"rows": ["a"]}, "one id for each of the 2 rows"),
        ],
    )
    def test_a_gram_matrix_is_checked_when_it_is_read(self, tmp_path, K, ids, message):
        header = {"kind": "gram", "kernel": "", "rows": None, "columns": None} | ids
        _files.write(tmp_path / "x.npz", header, {"K": K})
        with pytest.raises(ValueError, match=rf"x.npz is damaged .*{message}"):
            mc.load(tmp_path / "x.npz")
