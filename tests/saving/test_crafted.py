"""Numbers that scikit-learn and SciPy take as places in memory: a crafted file is refused, and never crashes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedGroupKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, SVR

import mercer as mc
from mercer.saving import _trusted

sys.path.insert(0, str(Path(__file__).parent))
import cases as made

rng = np.random.default_rng(0)
TABLE = rng.normal(size=(20, 3))
LABELS = np.arange(20) % 3
OF_OTHER_VERSIONS = {  # of scikit-learn 1.6
    "sklearn.compose._column_transformer._RemainderColsList", "sklearn.metrics._scorer._MultimetricScorer",
}  # fmt: skip
DOCUMENTS = ["hello world", "good day", "hello day", "world good"]


def save_all(folder, names):
    data, known = made.data(), made.cases()
    for name in names:
        model, inputs, target = known[name]
        mc.save(model.fit(made.split(data[inputs])[0], made.split(data[target])[0]), folder / f"{name}.mercer")


def predicted(folder, step):
    """Predict with mutants in another process; return their number."""
    script = Path(__file__).parent / "mutants.py"
    done = subprocess.run([sys.executable, "-W", "ignore", script, folder, str(step)], capture_output=True, text=True)
    assert done.returncode == 0, ((folder / "now").read_text(), done.returncode, done.stderr[-500:])
    return int(done.stdout.splitlines()[-1])  # a mutant may be verbose


@pytest.mark.skipif(sys.platform == "win32", reason="limits of memory need POSIX")
class TestMutants:
    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("half", [0, 1])
    def test_all(self, tmp_path, half):
        save_all(tmp_path, list(made.cases())[half::2])
        assert predicted(tmp_path, 1) > 2000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_list_has_what_is_saved_here_and_nothing_else(tmp_path):
    save_all(tmp_path, made.cases())
    for i, cv in enumerate((GroupKFold(2), StratifiedGroupKFold(2))):
        search = GridSearchCV(LogisticRegression(), {}, cv=cv, scoring={"a": "accuracy"}, refit="a")
        mc.save(search.fit(TABLE, LABELS > 0, groups=np.arange(20) // 2), tmp_path / f"{i}.mercer")
    found = set()
    for path in tmp_path.glob("*.mercer"):
        with np.load(path) as archive:
            nodes = json.loads(bytes(archive["header"]).decode())["nodes"]
        found |= {node[1] for node in nodes if len(node) > 1 and isinstance(node[1], str)}
    assert _trusted.TYPES - found <= OF_OTHER_VERSIONS


def refused(tmp_path, model, reason="do not fit together"):
    mc.save(model, tmp_path / "x.mercer")
    with pytest.raises(ValueError, match=rf"x\.mercer is damaged \(.*{reason}.*\)"):
        mc.load(tmp_path / "x.mercer")


@pytest.mark.parametrize("kind", [CountVectorizer, TfidfVectorizer])
@pytest.mark.parametrize("bad", [2**31 - 5, -1, 4, 0, 1.0, "1", None, True])
def test_vocabularies(tmp_path, kind, bad):
    model = make_pipeline(kind(), LogisticRegression()).fit(DOCUMENTS, [0, 1, 0, 1])
    model[0].vocabulary_ = {**model[0].vocabulary_, "hello": bad, "good": 0}
    refused(tmp_path, model)


def test_a_vocabulary_that_is_filled_after_its_check(tmp_path):
    model = CountVectorizer().fit(DOCUMENTS)
    model.vocabulary_["hello"] = model  # so that the dictionary is made before its content
    mc.save(make_pipeline(model), tmp_path / "x.mercer")
    with np.load(tmp_path / "x.mercer") as archive:
        content = {name: archive[name] for name in archive.files}
    header = json.loads(bytes(content.pop("header")).decode())
    at = next(i for i, node in enumerate(header["nodes"]) if node[0] == "dict" and "hello" in node[1])
    header["object"] = {"ref": at}
    np.savez(tmp_path / "y.npz", header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **content)
    for path in (tmp_path / "x.mercer", tmp_path / "y.npz"):
        with pytest.raises(ValueError, match="do not fit together"):
            mc.load(path)


def grown(array):
    return np.concatenate([array, array[-1:]])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("support_", lambda x: x + 20),
        ("support_", lambda x: x - 1),
        ("support_", lambda x: x.astype(np.int64)),
        ("_n_support", grown),
        ("_n_support", lambda x: x[:-1]),
        ("_n_support", lambda x: x * 0),
        ("_dual_coef_", lambda x: x[:, :-1]),
        ("_dual_coef_", lambda x: x[:-1]),
        ("_intercept_", lambda x: x[:-1]),
        ("_intercept_", lambda x: x[:, None]),
        ("_probA", lambda _: np.ones(1)),
        ("_probB", lambda _: np.ones(3)),
        ("support_vectors_", lambda x: x[:, :-1]),
        ("support_vectors_", lambda x: x[:-1]),
        ("n_features_in_", lambda _: 4),
        ("shape_fit_", lambda _: (3, 3)),
        ("kernel", lambda _: "precomputed"),
        ("kernel", lambda _: np.square),
        ("_sparse", lambda _: True),
    ],
)
def test_svms(tmp_path, name, change):
    model = SVC().fit(TABLE, LABELS)
    setattr(model, name, change(getattr(model, name)))
    refused(tmp_path, model)


def test_svms_of_other_kinds(tmp_path):
    sparse = make_pipeline(CountVectorizer(), SVC()).fit(DOCUMENTS, [0, 1, 0, 1])
    dual = sparse[1]._dual_coef_
    sparse[1]._dual_coef_ = type(dual)(dual.toarray() * (np.arange(dual.shape[1]) > 0))  # entries that are not stored
    refused(tmp_path, sparse)
    sparse = make_pipeline(CountVectorizer(), SVC()).fit(DOCUMENTS, [0, 1, 0, 1])
    sparse[1].kernel = "precomputed"
    refused(tmp_path, sparse)
    regressor = SVR().fit(TABLE, TABLE[:, 0])
    regressor._n_support = np.array([*regressor._n_support, 0, 0], dtype=np.int32)
    refused(tmp_path, regressor)
    without_support = SVR(epsilon=100.0).fit(TABLE, TABLE[:, 0])
    mc.save(without_support, tmp_path / "sound")
    assert mc.load(tmp_path / "sound").predict(TABLE).tolist() == without_support.predict(TABLE).tolist()
    called = SVC(kernel=mc.RBF(gamma=0.3)).fit(TABLE, LABELS)
    called._BaseLibSVM__Xfit = TABLE[:5]
    refused(tmp_path, called)


@pytest.mark.parametrize(
    ("name", "value"),
    [("_impl", "epsilon_svr"), ("_sparse_kernels", ["rbf"]), ("_validate_for_predict", np.abs), ("predict", 3)],
)
def test_what_would_hide_a_part_of_the_class(tmp_path, name, value):
    model = SVC().fit(TABLE, LABELS)
    vars(model)[name] = value
    refused(tmp_path, model, f"{name} of SVC would hide")
    kernel = mc.RBF()
    kernel.transform = np.abs
    refused(tmp_path, kernel, "transform of RBF would hide")


@pytest.mark.parametrize("value", [-1, 2.0, "3", np.ones(2), None, np.ma.masked_array(3, mask=True)])
def test_numbers_of_features(tmp_path, value):
    model = Ridge().fit(TABLE, LABELS)
    model.n_features_in_ = value
    refused(tmp_path, model, "n_features_in_ of Ridge is not a number")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("_y", lambda y: y + 1),
        ("_y", lambda y: y - 1),
        ("_y", lambda y: y[:-1]),
        ("_y", lambda y: y * 1.0),
        ("classes_", lambda x: x[:-1]),
        ("_fit_X", lambda x: x[:, :-1].copy()),
        ("_fit_X", lambda x: x[:-1].copy()),
        ("n_samples_fit_", lambda n: n + 1),
        ("_fit_method", lambda _: "other"),
    ],
)
@pytest.mark.parametrize("algorithm", ["brute", "kd_tree"])
def test_neighbors(tmp_path, name, change, algorithm):
    model = KNeighborsClassifier(3, algorithm=algorithm).fit(TABLE, LABELS)
    setattr(model, name, change(getattr(model, name)))
    refused(tmp_path, model)


@pytest.mark.parametrize(("at", "name"), [(0, "coef_"), (0, "intercept_"), (1, "y_")])
def test_one_against_the_rest(tmp_path, at, name):
    """The scores of all estimators become places in a sparse matrix, whose size is that of the samples."""
    labels = np.stack([LABELS > 0, np.ones(20, bool)], axis=1).astype(int)
    model = OneVsRestClassifier(LogisticRegression()).fit(TABLE, labels)
    setattr(model.estimators_[at], name, grown(getattr(model.estimators_[at], name)))
    refused(tmp_path, model)


class TestCategories:
    X = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 6.0], [3.0, 7.0]])

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("categories_", lambda x: [x[0][::-1], x[1]]),
            ("categories_", lambda x: [x[0][::-1].astype(object), x[1]]),
            ("categories_", lambda x: [x[0][::-1].astype(str), x[1]]),
            ("categories_", lambda x: [np.array([np.nan, 1.0, 2.0]), x[1]]),
            ("categories_", lambda x: x[:1]),
            ("categories_", lambda x: [x[0], x[1][:0]]),
            ("_n_features_outs", lambda x: [x[0] - 1, x[1]]),
            ("_n_features_outs", lambda x: [x[0] + 1.0, x[1]]),
            ("_drop_idx_after_grouping", lambda _: np.array([2, None], dtype=object)),
        ],
    )
    def test_columns(self, tmp_path, name, change):
        model = OneHotEncoder().fit(self.X)
        setattr(model, name, change(getattr(model, name)))
        refused(tmp_path, model)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("_default_to_infrequent_mappings", [np.array([0, 9, 1]), None]),
            ("_default_to_infrequent_mappings", [None, None]),
            ("_default_to_infrequent_mappings", [np.array([0, 1]), None]),
            ("_infrequent_indices", [np.array([0, 7]), None]),
            ("_infrequent_indices", [np.array([0, 0]), None]),
        ],
    )
    def test_rare_ones(self, tmp_path, name, value):
        X = np.array([[1.0], [2.0], [3.0], [3.0]])
        model = OneHotEncoder(min_frequency=2).fit(X)
        setattr(model, name, value[:1])
        refused(tmp_path, model)

    @pytest.mark.parametrize("given", [["b", "a", "c"], ["c", "a", "b"]])
    def test_words_in_the_order_of_the_user(self, tmp_path, given):
        for X in (np.array([["a"], ["b"], ["c"]]), np.array([["a"], ["b"], ["c"]], dtype=object)):
            model = OneHotEncoder(categories=[given]).fit(X)
            mc.save(model, tmp_path / "x")
            np.testing.assert_array_equal(mc.load(tmp_path / "x").transform(X).toarray(), model.transform(X).toarray())

    def test_missing_values(self, tmp_path):
        X = np.array([["a", 1.0], [None, np.nan], ["b", 2.0], [np.nan, 3.0]], dtype=object)
        model = OneHotEncoder().fit(X)
        mc.save(model, tmp_path / "x")
        np.testing.assert_array_equal(mc.load(tmp_path / "x").transform(X).toarray(), model.transform(X).toarray())
