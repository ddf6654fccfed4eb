"""The benchmark on SCOP 1.53, small: its tasks, its areas, and all of its methods on cheap matrices."""

import numpy as np
import pytest
from benchmarks import scop
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch

import mercer as mc


def proteins():
    """Return two superfamilies of two families each, of four proteins, and one more superfamily in another fold."""
    rng = np.random.default_rng(0)
    letters = list("ACDEFGHIKLMNPQRSTVWY")
    strings, family = [], []
    for name in ("1.1.1.1", "1.1.1.2", "1.2.1.1", "1.2.1.2", *(f"2.{i}.1.1" for i in range(1, 13))):
        if not name.startswith("1") or name.endswith(".1"):
            ancestor = rng.choice(letters, 30)
        for _ in range(4):
            copy = np.where(rng.random(30) < 0.3, rng.choice(letters, 30), ancestor)
            strings.append("".join(copy) + "".join(rng.choice(letters, rng.integers(0, 8))))
            family.append(name)
    family = np.array(family)
    superfamily = np.array([name.rsplit(".", 1)[0] for name in family])
    names, target = np.unique(superfamily, return_inverse=True)
    role = np.where(np.arange(len(family)) % 2, 2, 4)
    role[superfamily == "1.1.1"] = 1
    role[family == "1.1.1.1"] = 3
    X = mc.Sequences(strings, alphabet="protein")
    return Bunch(
        data=X, target=target, target_names=names.tolist(), family=family, families=["1.1.1.1"], role=role[:, None]
    )


def test_tasks():
    data = proteins()
    (task,) = scop.families(data)
    assert data.family[task.test[task.is_test]].tolist() == ["1.1.1.1"] * 4
    assert data.family[task.train[task.is_train]].tolist() == ["1.1.1.2"] * 4
    assert not set(task.train) & set(task.test)
    found = list(scop.development(data))
    assert [task.name for task in found] == ["1.2.1.1", "1.2.1.2"]  # never a superfamily of the benchmark
    for task in found:
        used = data.family[np.concatenate([task.train, task.test])]
        assert not np.char.startswith(used, "1.1.").any()
        assert set(data.family[task.test[task.is_test]]) == {task.name}
        assert np.char.startswith(data.family[task.train[task.is_train]], "1.2.1").all()


def test_areas():
    rng = np.random.default_rng(0)
    scores, positive = rng.normal(size=400), rng.random(400) < 0.2
    np.testing.assert_allclose(scop.roc50(scores, positive, 400), roc_auc_score(positive, scores))
    ranks = [2.0, 1.0, 0.5, 0.4, 0.3]
    assert scop.roc50(np.array(ranks), np.array([True, False, True, False, False]), 2) == 0.75
    assert scop.roc50(np.zeros(4), np.array([True, False, True, False])) == 0  # ties count against it


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_all_methods(monkeypatch, tmp_path, capsys):
    cheap = {"log": mc.Spectrum(1, normalize=False), "linear": mc.Spectrum(2, normalize=False)}
    sources = {name: scop.Source(cheap[source.kind], source.kind) for name, source in scop.SOURCES.items()}
    monkeypatch.setattr(scop, "SOURCES", sources)
    monkeypatch.setattr(scop, "NEGATIVES", 20)
    monkeypatch.setattr(scop, "fetch_scop", proteins)
    found = scop.main(["--cache", str(tmp_path), "--jobs", "1"])
    assert list(found) == list(scop.METHODS)
    assert all(values.shape == (1, 2) and np.all((values >= 0) & (values <= 1)) for values in found.values())
    assert "ROC50" in capsys.readouterr().out
    picture = tmp_path / "families.png"
    again = scop.main(["spectrum(3", "--development", "--cache", str(tmp_path), "--jobs", "1", "--plot", str(picture)])
    assert picture.stat().st_size > 1000
    assert again["Spectrum(3, mismatches=1)"].shape == (2, 2)
    assert "pairs" not in capsys.readouterr().out  # the matrices were kept
