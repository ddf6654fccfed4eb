"""The training side of a kernel: prepared once per fit, when first needed, and neither pickled nor copied."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

import mercer as mc
from mercer.families.estimator import fits
from mercer.gram import memo
from mercer.models.hmm import HMMs


@pytest.fixture(autouse=True)
def forget():
    memo.clear()
    fits.clear()
    yield
    memo.clear()
    fits.clear()


def strings(n=12, length=20, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("ACGT"), size=length)) for _ in range(n)]


def hmm():
    return mc.HMM(n_states=2, emission=mc.Categorical(alphabet="dna"), n_iter=2, n_init=1)


def shared():
    rng = np.random.default_rng(0)
    emission = mc.Categoricals(rng.dirichlet(np.ones(4), size=(1, 2)), alphabet="dna")
    return mc.HMMs([[0.5, 0.5]], [[[0.8, 0.2], [0.3, 0.7]]], emission)


KERNELS = {
    "product": lambda: mc.ProbabilityProduct(hmm()),
    "fisher": lambda: mc.Fisher(shared()),
    "fisher, diagonal": lambda: mc.Fisher(shared(), information="diagonal"),
    "marginalization": lambda: mc.Marginalization(
        mc.AffinePairHMM(substitution=(2, -3), gap_open=5, gap_extend=2, alphabet="dna")
    ),
    "spectrum": lambda: mc.Spectrum(k=3, alphabet="dna"),
    "tempered": lambda: mc.Tempered(mc.ProbabilityProduct(hmm())),
    "centered": lambda: mc.Centered(mc.Fisher(shared())),
    "sum": lambda: mc.Spectrum(k=2, alphabet="dna") + mc.Fisher(shared()),
}


@pytest.fixture
def prepared(monkeypatch):
    """Record the number of objects of every call of ``_prepare``, by class."""
    calls: list[tuple[str, int]] = []
    for kind in (mc.ProbabilityProduct, mc.Fisher, mc.Marginalization, mc.Spectrum):

        def counting(self, source, kind=kind, prepare=kind._prepare):
            calls.append((kind.__name__, len(source)))
            return prepare(self, source)

        monkeypatch.setattr(kind, "_prepare", counting)
    return calls


@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("memo_bytes", [0, 2**24])
def test_one_row_prepares_one_object(prepared, name, memo_bytes):
    """The training side is prepared at most once, whatever comes after ``fit``."""
    train, new = strings(), strings(4, seed=1)
    with mc.config(memo_bytes=memo_bytes):
        kernel = KERNELS[name]().fit(train)
        kernel.transform(new[:1])
        first = list(prepared)
        for x in new[1:]:
            kernel.transform([x])
    leaves = {kind for kind, _ in prepared}
    for leaf in leaves:
        assert sum(size == len(train) for kind, size in first if kind == leaf) == 1
    assert {size for _, size in prepared[len(first) :]} == {1}
    assert len(prepared) - len(first) == 3 * len(leaves)


@pytest.mark.parametrize("name", list(KERNELS))
def test_fit_transform_and_transform_prepare_the_training_side_once(prepared, name):
    train = strings()
    with mc.config(memo_bytes=0):
        kernel = KERNELS[name]()
        K = kernel.fit_transform(train)
        rows = kernel.transform(strings(2, seed=1))
    for leaf in {kind for kind, _ in prepared}:
        assert sum(size == len(train) for kind, size in prepared if kind == leaf) == 1
    assert K.shape == (12, 12)
    assert rows.shape == (2, 12)


@pytest.mark.parametrize("information", ["identity", "diagonal", "empirical"])
def test_scores_of_the_training_data_are_computed_once(monkeypatch, information):
    scored: list[int] = []
    scores = HMMs.sequence_scores

    def counting(self, X, *args):
        scored.append(len(X))
        return scores(self, X, *args)

    monkeypatch.setattr(HMMs, "sequence_scores", counting)
    kernel = mc.Fisher(shared(), information=information)
    with mc.config(memo_bytes=0):
        K = kernel.fit_transform(strings())
        assert scored == [12]
        kernel.transform(strings(1, seed=1))
        assert scored == [12, 1]
        np.testing.assert_allclose(K, kernel(strings()), rtol=1e-12)


@pytest.mark.parametrize("name", list(KERNELS))
def test_a_changed_parameter_prepares_again(name):
    train, new = strings(), strings(3, seed=1)
    with mc.config(memo_bytes=0):
        kernel = KERNELS[name]().fit(train)
        kernel.transform(new)
        if not hasattr(kernel, "on_zero") or "normalize" not in kernel.get_params():
            pytest.skip("has no parameter that takes effect at once")
        kernel.set_params(normalize=not kernel.normalize)
        expected = KERNELS[name]().set_params(normalize=kernel.normalize).fit(train).transform(new)
        np.testing.assert_allclose(kernel.transform(new), expected, rtol=1e-12)


def test_a_fitted_part_that_is_changed_prepares_again():
    X = np.random.default_rng(0).normal(size=(10, 2))
    kernel = (mc.RBF(gamma=1.0) + mc.Linear()).fit(X)
    kernel.transform(X[:2])
    kernel.kernels_[0].gamma = 3.0
    np.testing.assert_allclose(kernel.transform(X[:2]), (mc.RBF(gamma=3.0) + mc.Linear()).fit(X).transform(X[:2]))


@pytest.mark.parametrize("name", list(KERNELS))
def test_it_is_neither_pickled_nor_copied(name):
    train, new = strings(), strings(2, seed=1)
    kernel = KERNELS[name]().fit(train)
    before = len(pickle.dumps(kernel))
    expected = kernel.transform(new)
    assert len(pickle.dumps(kernel)) == before
    for twin in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel), copy.copy(kernel)):
        assert not twin._train_side._made
        np.testing.assert_allclose(twin.transform(new), expected, rtol=1e-12)
    assert not hasattr(clone(kernel), "_train_side")


def test_training_digests_are_made_once():
    kernel = mc.Fisher(shared()).fit(strings())
    kernel.transform(strings(1, seed=1))
    side = kernel._train_side
    first = side.digests()
    kernel.transform(strings(1, seed=2))
    assert kernel._train_side is side
    assert side.digests() is first


def test_threads_share_a_fitted_kernel():
    train, new = strings(30), strings(16, seed=1)
    with mc.config(memo_bytes=0):
        kernel = mc.Fisher(shared()).fit(train)
        with ThreadPoolExecutor(8) as pool:
            rows = list(pool.map(lambda x: kernel.transform([x]), new))
        np.testing.assert_allclose(np.concatenate(rows), kernel.transform(new), rtol=1e-12)


def test_landmarks_are_prepared_once(prepared):
    landmarks = mc.Landmarks(mc.Fisher(shared()), n_components=4, explicit=False, held_out=2).fit(strings())
    seen = len(prepared)
    with mc.config(memo_bytes=0):
        landmarks.transform(strings(1, seed=1))
        landmarks.transform(strings(1, seed=2))
    assert [size for _, size in prepared[seen:]] in ([1, 1], [1, 4, 1], [4, 1, 1])
    again = pickle.loads(pickle.dumps(landmarks))
    np.testing.assert_allclose(again.transform(strings(1, seed=3)), landmarks.transform(strings(1, seed=3)))
