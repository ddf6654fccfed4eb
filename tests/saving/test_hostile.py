"""Damaged and crafted files end in one sentence; they never run code, hang or take memory."""

from __future__ import annotations

import json
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer import _files
from mercer.saving import _trusted

V1 = Path(__file__).parent / "golden" / "v1"


def crafted(path, nodes, top=None, **arrays):
    """Write a file with any table."""
    header = {"kind": "pipeline", "object": {"ref": 0} if top is None else top, "nodes": nodes}
    _files.write(path, header, arrays)
    return path


def changed(path, target, change):
    """Copy a file with a changed table."""
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files}
    header = json.loads(bytes(content.pop("header")).decode())
    change(header, content)
    text = json.dumps(header).encode()
    np.savez(target, header=np.frombuffer(text, dtype=np.uint8), **content)
    return target


@pytest.mark.parametrize(
    "name",
    [
        "os.system", "builtins.eval", "subprocess.Popen", "sklearn.utils._joblib.joblib", "numpy.load",
        "mercer.load", "mercer.cli._app.main", "mercer.saving._reader.Reader", "mercer.data.csr.np", "mercer..os",
        "mercer._files.os", "mercer.datasets.Bunch", "sklearn.ensemble.RandomForestClassifier", "mercer.plot",
        "functools.partial", "mercer.kernels.base.kernel.clone", "", 3, None, ["mercer.RBF"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("node", ["object", "stated", "named", "mapping", "made", "type", "function"])
def test_an_unknown_type_is_refused(tmp_path, node, name):
    rest = {"object": [["a"], [1]], "stated": [{"ref": 1}], "named": [[1]], "mapping": [{"ref": 1}]}
    path = crafted(tmp_path / "x", [[node, name, *rest.get(node, [])], ["dict", [], []]])
    with pytest.raises(ValueError, match=r"not on the list of types|is damaged"):
        mc.load(path)


@pytest.mark.parametrize(
    ("nodes", "arrays"),
    [
        ("abc", {}),
        ([], {}),
        ([3], {}),
        ([[]], {}),
        ([["list"]], {}),
        ([["list", [{"ref": 7}]]], {}),
        ([["list", [{"ref": -1}]]], {}),
        ([["list", [[1]]]], {}),
        ([["tuple", [{"ref": 0}]]], {}),  # a tuple that contains itself
        ([["dict", [1, 2], [3]]], {}),
        ([["dict", {"ref": 0}, [3]]], {}),
        ([["set", [{"ref": 1}]], ["list", []]], {}),
        ([["array", "missing", True]], {}),
        ([["objects", [10**15], {"ref": 1}], ["list", []]], {}),
        ([["objects", [-1], {"ref": 1}], ["list", []]], {}),
        ([["numbers", "list", "a"]], {"a": np.eye(2)}),
        ([["strings", "list", "a", "b"]], {"a": np.zeros(3, np.uint8), "b": np.array([10**12])}),
        ([["sparse", "csr_array", [2, 2], "d", "i", "p"]],
         {"d": np.ones(2), "i": np.array([0, 9], np.int32), "p": np.array([0, 1, 2], np.int32)}),
        ([["sparse", "dok_array", [2, 2], "d", "d", "d"]], {"d": np.ones(2)}),
        ([["random", "RandomState", {"ref": 1}], ["dict", ["bit_generator"], ["os"]]], {}),
        ([["dtype", "O,O,nonsense"]], {}),
        ([["dtype", "i4," * 10**5]], {}),
        ([["objects", [10**4000] * 100, {"ref": 1}], ["list", []]], {}),
        ([["objects", [1.5], {"ref": 1}], ["list", [1]]], {}),
        ([["range", 0, 10, 0]], {}),
        ([["object", "mercer.RBF", ["__class__"], ["x"]]], {}),
        ([["object", "mercer.Poissons", ["rate"], [1.0]]], {}),  # batches are checked by their constructor
        ([["object", "mercer.Sequences", [], []]], {}),
        ([["made", "mercer.RBF", {"ref": 1}], ["tuple", []]], {}),
        ([["mapping", "mercer.RBF", {"ref": 1}], ["dict", [], []]], {}),
        ([["named", "mercer.RBF", [1]]], {}),
        ([["batch", {"class": "Poissons", "shared": {}, "parts": {}}, "b"]], {}),
        ([["batch", {"class": "Poissons", "shared": {}, "parts": {}}, ""]], {"rate": np.array([[-1.0]])}),
        ([["batch", {"class": "Unheardofs", "shared": {}, "parts": {}}, ""]], {}),
    ],
)  # fmt: skip
def test_a_strange_table(tmp_path, nodes, arrays):
    with pytest.raises(ValueError, match=r"x is damaged|x: The file contains Unheardofs|list of types"):
        mc.load(crafted(tmp_path / "x", nodes, **arrays))


def sequences(**changes):
    given = {"values": np.array([0, 1, 2, 3], np.int32), "offsets": np.array([0, 2, 4]), "kept": np.ones(2, bool)}
    given |= changes
    nodes = [
        ["made", "mercer.Sequences", {"ref": 1}],
        ["tuple", [{"ref": 2}, {"ref": 3}, {"ref": 4}, None, {"ref": 5}, {"ref": 6}]],
        ["array", "values", False], ["array", "offsets", False],
        ["made", "mercer.Alphabet", {"ref": 7}], ["array", "kept", False], ["dict", [], []],
        ["tuple", [{"ref": 8}, {"ref": 6}, False]], ["tuple", ["A", "C", "G", "T"]],
    ]  # fmt: skip
    return nodes, given


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": np.array([0, 2, 400])},
        {"offsets": np.array([0, 5, 4])},
        {"offsets": np.array([-2, 2, 4])},
        {"offsets": np.array([0.0, 2.0, 4.0])},
        {"offsets": np.zeros((2, 2), int)},
        {"values": np.array([0, 1, 2, 99], np.int32)},
        {"values": np.array([0, 1, 2, -7], np.int32)},
        {"values": np.ones((4, 2))},
        {"kept": np.ones(2)},
    ],
)
def test_sequences_are_checked(tmp_path, changes):
    nodes, arrays = sequences()
    assert list(mc.load(crafted(tmp_path / "x", nodes, **arrays))) == ["AC", "GT"]
    nodes, arrays = sequences(**changes)
    with pytest.raises(ValueError, match="x is damaged"):
        mc.load(crafted(tmp_path / "x", nodes, **arrays))


@pytest.mark.parametrize(
    "change",
    [
        {"indices": np.array([0, 9])},
        {"indices": np.array([1, 0])},
        {"indices": np.array([-1, 0])},
        {"indptr": np.array([0, 9])},
        {"data": np.ones(3)},
        {"data": np.array([1, 2])},
    ],
)
def test_sparse_rows_are_checked(tmp_path, change):
    arrays = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 2])}
    nodes = [
        ["made", "mercer.data.csr.CSRRows", {"ref": 1}], ["tuple", [{"ref": 2}, {"ref": 3}, {"ref": 4}, 3]],
        ["array", "data", False], ["array", "indices", False], ["array", "indptr", False],
    ]  # fmt: skip
    assert mc.load(crafted(tmp_path / "x", nodes, **arrays)).shape == (1, 3)
    with pytest.raises(ValueError, match="x is damaged"):
        mc.load(crafted(tmp_path / "x", nodes, **arrays | change))


def test_settings_of_the_process_stay(tmp_path):
    nodes = [["object", "mercer.RBF", ["gamma", "_settings"], [1.0, {"ref": 1}]], ["dict", ["n_jobs"], [999]]]
    before = mc.settings()
    assert mc.load(crafted(tmp_path / "x", nodes)).gamma == 1.0
    assert mc.settings() == before


def test_a_parameter_that_is_newer_than_the_file_has_its_default(tmp_path):
    found = mc.load(crafted(tmp_path / "x", [["object", "mercer.RBF", ["gamma"], [0.25]]]))
    assert found.get_params() == mc.RBF(gamma=0.25).get_params()


def test_a_random_state_is_checked(tmp_path):
    model = SVC(random_state=np.random.RandomState(0))
    mc.save(model, tmp_path / "x")
    drawn = mc.load(tmp_path / "x").random_state.normal(size=3)
    np.testing.assert_array_equal(drawn, np.random.RandomState(0).normal(size=3))

    def move(header, _):
        for node in header["nodes"]:
            if node[0] == "dict" and "pos" in node[1]:
                node[2][node[1].index("pos")] = 10**6

    with pytest.raises(ValueError, match="position 1000000"):
        mc.load(changed(tmp_path / "x", tmp_path / "y.npz", move))


def test_names_of_members_are_not_paths(tmp_path):
    (tmp_path / "inside").mkdir()
    target = tmp_path / "inside" / "x"
    with zipfile.ZipFile(target, "w") as archive, zipfile.ZipFile(V1 / "spectrum-svr.mercer") as golden:
        for info in golden.infolist():
            archive.writestr(info.filename, golden.read(info))
        archive.writestr("../../outside.npy", golden.read("header.npy"))
    mc.load(target)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["inside", "x"]


def test_deep_nesting_ends(tmp_path):
    deep = [["list", [{"ref": i + 1}]] for i in range(50_000)] + [["list", []]]
    with pytest.raises(ValueError, match="is damaged"):
        mc.load(crafted(tmp_path / "x", deep))


def test_a_hash_that_never_ends_is_not_computed(tmp_path):
    nested = [
        ["set", [{"ref": 1}]],
        *(["tuple", [{"ref": i + 1}, {"ref": i + 1}]] for i in range(1, 60)),
        ["tuple", []],
    ]
    start = time.perf_counter()
    with pytest.raises(ValueError, match="nested too deeply"):
        mc.load(crafted(tmp_path / "x", nested))
    assert time.perf_counter() - start < 10


def test_a_large_header(tmp_path):
    text = b'{"format": 1, "kind": "pipeline", "nodes": [' + b"[]," * (6 * 2**20) + b"[]]}"
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("header.npy", "w") as file:
        np.lib.format.write_array(file, np.frombuffer(text, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"header of more than 16\.0 MiB"):
        mc.load(tmp_path / "x")


def test_cut_anywhere(tmp_path):
    raw = (V1 / "spectrum-svc.mercer").read_bytes()
    for end in range(0, len(raw), 97):
        (tmp_path / "x").write_bytes(raw[:end])
        with pytest.raises(ValueError, match=r"x is (not a mercer file|damaged)"):
            mc.load(tmp_path / "x")


def test_any_flipped_byte(tmp_path):
    raw = (V1 / "spectrum-svr.mercer").read_bytes()
    path, messages = tmp_path / "x", []
    for i in range(0, len(raw), 23):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ 0xFF]) + raw[i + 1 :])
        try:
            mc.load(path)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert all(message.startswith(str(path)) for message in messages)


@pytest.mark.slow
def test_random_changes_of_the_table(tmp_path):
    """Any JSON in place of any entry of the table ends in a value or in a ValueError."""
    rng, messages = np.random.default_rng(0), []
    pool = [None, -1, 10**30, "a0", "x", [], {}, {"ref": 0}, {"ref": 5}, [[]], "mercer.RBF", "list", True, 0.5]

    def change(header, _):
        node = header["nodes"][int(rng.integers(len(header["nodes"])))]
        node[int(rng.integers(len(node)))] = pool[int(rng.integers(len(pool)))]

    for _ in range(150):
        path = changed(V1 / "spectrum-svc.mercer", tmp_path / "x.npz", change)
        try:
            mc.load(path)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert all(message.startswith(str(tmp_path)) for message in messages)


def test_nothing_is_imported_by_name(tmp_path):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('executed')")
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(ValueError, match="list of types"):
            mc.load(crafted(tmp_path / "x", [["object", "evil_module.Thing", [], []]]))
    finally:
        sys.path.remove(str(tmp_path))
    assert "evil_module" not in sys.modules


class TestList:
    """The published list is the list."""

    def test_is_the_one_in_the_docs(self):
        text = (Path(__file__).parents[2] / "docs" / "saving.md").read_text(encoding="utf-8")
        block = text.split("<!-- trusted -->")[1]
        listed = {name for name in block.replace("`", " ").replace(",", " ").split() if name.startswith(("sk", "nu"))}
        assert listed == {name for name in _trusted.TYPES | _trusted.FUNCTIONS if not name.startswith("mercer.")}

    def test_names_exist(self):
        gone = {name for name in _trusted.TYPES | _trusted.FUNCTIONS if _trusted._attribute(name) is None}
        older_or_newer = {"_TemperatureScaling", "_RemainderColsList"}
        assert {name.rpartition(".")[2] for name in gone} <= older_or_newer

    def test_pipelines_of_other_types_name_the_type(self, tmp_path):
        from sklearn.ensemble import RandomForestClassifier

        X = np.random.default_rng(0).normal(size=(20, 2))
        model = make_pipeline(RandomForestClassifier(2)).fit(X, X[:, 0] > 0)
        with pytest.raises(TypeError, match=r"Pipeline\.steps\[0\]\[1\] is of the type .*RandomForest.*joblib.dump"):
            mc.save(model, tmp_path / "x")

    def test_coefficients_of_other_sizes(self, tmp_path):
        from sklearn.linear_model import SGDRegressor

        X = np.random.default_rng(0).normal(size=(20, 2))
        model = SGDRegressor(average=True).fit(X, X[:, 0])
        model._average_coef = np.zeros(1)  # a compiled loop would write after its end
        mc.save(model, tmp_path / "x")
        with pytest.raises(ValueError, match="is damaged"):
            mc.load(tmp_path / "x")
