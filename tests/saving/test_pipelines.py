"""Saved pipelines give the same predictions, bit by bit, also in another process."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import ClassVar

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

import mercer as mc

sys.path.insert(0, str(Path(__file__).parent))
import cases as made

V1 = Path(__file__).parent / "golden" / "v1"
DATA, CASES = made.data(), made.cases()


def fitted(name):
    model, inputs, target = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known, new = made.split(DATA[inputs])
        return clone(model).fit(known, made.split(DATA[target])[0]), new


def answers(model, X):
    """Return what the methods of a model return, as arrays."""
    found = {name: getattr(model, name)(X) for name in made.METHODS if hasattr(model, name)}
    return {name: value.toarray() if hasattr(value, "toarray") else np.asarray(value) for name, value in found.items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert one
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name])
        assert value.dtype == other[name].dtype


@pytest.mark.parametrize("name", list(CASES))
def test_round_trip(tmp_path, name):
    model, X = fitted(name)
    mc.save(model, tmp_path / "model.mercer")
    again = mc.load(tmp_path / "model.mercer")
    assert_same(answers(again, X), answers(model, X))
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    clone(again)
    mc.save(again, tmp_path / "again.mercer")
    assert (tmp_path / "again.mercer").read_bytes() == (tmp_path / "model.mercer").read_bytes()


@pytest.mark.slow
def test_a_server_does_not_wait_for_what_it_does_not_use(tmp_path):
    X = [np.random.default_rng(i).normal(size=(30, 2)).cumsum(axis=0) for i in range(8)]
    pipeline = make_pipeline(mc.Fisher(mc.HMM(2, n_iter=2, tol=0)), SVC(kernel="precomputed")).fit(X, [0, 1] * 4)
    mc.save(pipeline, tmp_path / "model.mercer")
    program = (
        "import sys, numpy, sklearn.svm, sklearn.pipeline; known = {*sys.modules}; import mercer as mc\n"
        "mc.load(sys.argv[1]).predict([numpy.eye(2)]); print(*{*sys.modules} - known)"
    )
    path = str(tmp_path / "model.mercer")
    run = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True)
    late = {"cluster", "decomposition", "ensemble", "feature_extraction", "manifold", "neighbors", "tree"}
    late = {f"sklearn.{name}" for name in late} | {
        "matplotlib",
        "pandas",
        "torch",
        "tqdm",
        "scipy.stats",
        "mercer.plot",
    }
    assert late & {*run.stdout.split()} == set()


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import cases, numpy as np, mercer as mc
from pathlib import Path
data, kinds = cases.data(), cases.cases()
for path in sorted(Path(sys.argv[2]).glob("*.mercer")):
    model, X = mc.load(path), cases.split(data[kinds[path.stem][1]])[1]
    found = {name: getattr(model, name)(X) for name in cases.METHODS if hasattr(model, name)}
    np.savez(path.with_suffix(".npz"), **{n: v.toarray() if hasattr(v, "toarray") else v for n, v in found.items()})
"""


@pytest.mark.slow
def test_another_process_gives_the_same_bits(tmp_path):
    expected = {}
    for name in CASES:
        model, X = fitted(name)
        mc.save(model, tmp_path / f"{name}.mercer")
        expected[name] = answers(model, X)
    subprocess.run([sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path)], check=True)
    for name, answer in expected.items():
        with np.load(tmp_path / f"{name}.npz", allow_pickle=False) as found:
            assert_same(dict(found), answer)


def test_joblib_and_pickle_keep_working():
    model, X = fitted("spectrum-svc")
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    for again in (joblib.load(buffer), pickle.loads(pickle.dumps(model))):
        assert_same(answers(again, X), answers(model, X))


class TestGolden:
    """Files that were written once are read for good."""

    @pytest.mark.parametrize("path", sorted(V1.glob("*.mercer")), ids=lambda path: path.stem)
    def test_is_read(self, path):
        info = mc.file_info(path)
        import sklearn

        wrote = tuple(int(n) for n in info.versions["scikit-learn"].split(".")[:2])
        if wrote > tuple(int(n) for n in sklearn.__version__.split(".")[:2]):
            pytest.skip("scikit-learn promises nothing for files of a later version")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            model = mc.load(path)
        for name, value in info.metadata["answers"].items():
            found = np.asarray(getattr(model, name)(made.split(DATA[info.metadata["data"]])[1]))
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-9)  # another machine wrote it
            else:
                assert found.tolist() == value

    def test_there_are_some(self):
        assert len(list(V1.glob("*.mercer"))) >= 5
        assert all(path.stat().st_size < 16_000 for path in V1.glob("*.mercer"))


class TestInfo:
    def test_what_a_pipeline_expects(self, tmp_path):
        path = tmp_path / "model.mercer"
        mc.save(fitted("spectrum-svc")[0], path, metadata={"reader": {"alphabet": "dna"}, "n": 3})
        info = mc.file_info(path)
        assert info.kind == "pipeline"
        assert info.description.startswith("Pipeline(")
        assert info.input["kind"] == "symbols"
        assert info.input["alphabet"]["symbols"] == list("ACGT")
        assert info.input["classes"] == ["down", "same", "up"]
        assert info.metadata == {"reader": {"alphabet": "dna"}, "n": 3}
        assert info.versions["mercer"] == mc.__version__

    def test_other_inputs(self, tmp_path):
        path = tmp_path / "model.mercer"
        mc.save(mc.Fisher(mc.Gaussian("diagonal")).fit(DATA["series"]), path)
        assert mc.file_info(path).input == {"kind": "vectors", "dimension": 2}
        mc.save(fitted("columns")[0], path)
        found = mc.file_info(path).input
        assert found == {
            "kind": "table",
            "n_features": 4,
            "feature_names": list("abcd"),
            "classes": [*found["classes"]],
        }

    def test_other_files(self, tmp_path):
        mc.gram.save(tmp_path / "gram.npz", np.eye(2))
        assert mc.file_info(tmp_path / "gram.npz") == mc.saving.FileInfo("gram")

    @pytest.mark.parametrize("metadata", [3, {"a": object()}, {"a": np.eye(2)}, {1j: 2}])
    def test_metadata_are_json(self, tmp_path, metadata):
        with pytest.raises(TypeError, match="metadata must be"):
            mc.save(mc.RBF(), tmp_path / "x", metadata=metadata)


class Doubled(BaseEstimator):
    """A class of a user."""

    def fit(self, X, y=None):
        self.kept_ = np.asarray(X)
        return self

    def transform(self, X):
        return 2 * np.asarray(X)


class TestRefused:
    def test_a_function(self, tmp_path):
        with pytest.raises(TypeError, match=r"FunctionTransformer\.func is the function .*writes no code"):
            mc.save(FunctionTransformer(lambda X: X), tmp_path / "x")
        assert not list(tmp_path.iterdir())

    def test_another_class(self, tmp_path):
        model = make_pipeline(Doubled(), SVC()).fit(DATA["table"], DATA["binary"])
        with pytest.raises(TypeError, match=r"Pipeline\.steps\[0\]\[1\] is of the type .*Doubled.*trusted=\[Doubled\]"):
            mc.save(model, tmp_path / "x")
        mc.save(model, tmp_path / "x", trusted=[Doubled])
        assert_same(answers(mc.load(tmp_path / "x", trusted=[Doubled]), DATA["table"]), answers(model, DATA["table"]))
        with pytest.raises(ValueError, match=r"contains the type .*Doubled, .*trusted=\[\.\.\.\]"):
            mc.load(tmp_path / "x")

    @pytest.mark.parametrize("given", [3, "model", None, SVC, np.eye(2), [make_pipeline(SVC(), SVC())] * 2])
    def test_no_estimator(self, tmp_path, given):
        with pytest.raises(TypeError, match=r"^pipeline must be an estimator, a kernel or a batch; got [^\n]*\.$"):
            mc.save(given, tmp_path / "x")

    def test_strange_arguments(self, tmp_path):
        with pytest.raises(TypeError, match="trusted must be a list of classes; got 3"):
            mc.save(mc.RBF(), tmp_path / "x", trusted=[3])
        with pytest.raises(TypeError, match="path must be a string or a path"):
            mc.save(mc.RBF(), 3)
        with pytest.raises(ValueError, match="path must name a file; got ''"):
            mc.save(mc.RBF(), "")
        with pytest.raises(IsADirectoryError, match="is a folder"):
            mc.save(mc.RBF(), tmp_path)
        with pytest.raises(FileNotFoundError, match=r"The folder .*nowhere does not exist"):
            mc.save(mc.RBF(), tmp_path / "nowhere" / "x")
        with pytest.raises(FileNotFoundError, match="does not exist"):
            mc.load(tmp_path / "nothing")
        with pytest.raises((IsADirectoryError, FileNotFoundError), match="is a folder"):
            mc.load(tmp_path)


class TestEveryClass:
    """All public estimators can be saved, fitted; kernels too by the battery of mercer.testing."""

    MODELS = (
        mc.HMM(2, n_iter=2), mc.HMM(2, mc.Gaussian("diagonal"), n_iter=2), mc.Gaussian("diagonal"), mc.Poisson(),
        mc.Multinomial(), mc.LDS(1, n_iter=2),
        mc.MarkovChain(), mc.PairHMM(n_iter=1), mc.HiddenTree("((a,b),c);"), mc.EmbeddedHMM(),
        mc.BayesNet({"a": ["x", "y"], "b": ["x", "y"]}, {"b": ["a"]}), None,
    )  # fmt: skip
    GIVEN: ClassVar = {
        "BayesNet": {"nodes": {"a": ["x", "y"], "b": ["x", "y"]}, "parents": {"b": ["a"]}},
        "HiddenTree": {"tree": "((a,b),c);"},
        "PerStep": {"transformer": FunctionTransformer()},
    }

    @pytest.fixture(scope="class")
    def inputs(self):
        rng = np.random.RandomState(0)
        table = rng.normal(size=(6, 3))
        return [
            DATA["dna"][:6], DATA["series"][:6], table, rng.poisson(3.0, size=(6, 4)), np.abs(table) + 0.1,
            rng.dirichlet(np.ones(3), size=6), (table > 0) * 1.0, mc.Confounded(table, rng.normal(size=(6, 1))),
            [rng.normal(size=(4, 3)) for _ in range(6)],
            [["x", "y"], ["x", "x"], ["y", "y"], ["y", "x"], ["x", "y"], ["y", "y"]],
        ]  # fmt: skip

    def candidates(self, cls):
        names = cls._get_param_names()
        if cls.__name__ in self.GIVEN:
            return [cls(**self.GIVEN[cls.__name__])]
        if "kernels" in names:
            return [cls([mc.RBF(), mc.Linear()])]
        if "kernel" in names and cls.__name__ != "EmbeddedHMM":
            return [cls(kernel=mc.RBF()), cls(kernel=mc.Spectrum(2))]
        if "model" in names:
            longer = {"length": 3} if "length" in names else {}
            return [cls(model=model, **longer) for model in self.MODELS]
        return [cls()]

    @pytest.mark.parametrize(
        "name",
        [n for n in mc.__all__ if isinstance(getattr(mc, n), type) and issubclass(getattr(mc, n), BaseEstimator)],
    )
    @pytest.mark.filterwarnings("ignore")
    def test_fitted_round_trip(self, tmp_path, inputs, name):
        done = 0
        for estimator in self.candidates(getattr(mc, name)):
            for X in inputs:
                try:
                    estimator.fit(X, np.arange(6) % 2)
                    expected = estimator.transform(X) if hasattr(estimator, "transform") else None
                except (TypeError, ValueError, AttributeError):
                    continue
                mc.save(estimator, tmp_path / "x")
                again = mc.load(tmp_path / "x")
                if expected is not None:
                    one, other = (getattr(x, "values", x) for x in (expected, again.transform(X)))
                    np.testing.assert_array_equal(other, one)
                done += 1
                break
        assert done, f"{name} was never fitted: add data or parameters"
