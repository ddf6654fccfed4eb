"""Plurals as NumPy-like, immutable structs that pass through scikit-learn's splitters."""

from __future__ import annotations

import copy
import pickle

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.utils import _safe_indexing

import mercer as mc
from mercer._batch import Batch, _registry, row_digests


def gaussians(*shape):
    rng = np.random.default_rng(0)
    return mc.Gaussians(mean=rng.normal(size=(*shape, 2)), covariance=rng.uniform(1, 2, size=shape))


def sparse_multinomials():
    counts = np.random.default_rng(0).poisson(1.0, size=(6, 4)) + 1.0
    return mc.Multinomials(sparse.csr_array(counts / counts.sum(axis=1, keepdims=True)))


KEYS = [
    3,
    -1,
    slice(1, 4),
    slice(None, None, -2),
    [4, 0, 0],
    np.array([5, 1]),
    np.array([True, False, True, False, False, True]),
    ([1, 2], ...),
    (..., [1, 2]),
    ...,
    np.int64(2),
]


class TestIndexing:
    @pytest.mark.parametrize("key", KEYS, ids=str)
    def test_as_numpy(self, key):
        p = gaussians(6)
        index = np.arange(6)[key]
        assert p[key].shape == index.shape
        np.testing.assert_array_equal(p[key].mean, p.mean[index])
        np.testing.assert_array_equal(p[key].covariance, p.covariance[index])

    @pytest.mark.parametrize(
        "key", [1, slice(2), (0, 2), (slice(None), 1), (..., 0), (1, ...), ([0, 1], [2, 2])], ids=str
    )
    def test_several_axes(self, key):
        p = gaussians(4, 3)
        index = np.arange(12).reshape(4, 3)[key]
        assert p[key].shape == index.shape
        np.testing.assert_array_equal(p[key].mean, p.mean.reshape(12, 2)[index])

    def test_parts_follow(self):
        m = mc.Mixtures(np.full((4, 2), 0.5), gaussians(4, 2))
        assert m[1].shape == ()
        assert m[1:3].components.shape == (2, 2)
        np.testing.assert_array_equal(m[[3, 0]].components.mean, m.components.mean[[3, 0]])

    def test_sparse(self):
        p = sparse_multinomials()
        for key in (slice(1, 3), [4, 0], np.array([True, False] * 3)):
            np.testing.assert_array_equal(p[key].dense().probability, p.dense().probability[key])

    def test_too_many(self):
        with pytest.raises(IndexError, match="2 indices for a batch of shape"):
            gaussians(3)[0, 0]
        with pytest.raises(IndexError):
            gaussians(3)[3]
        with pytest.raises(TypeError, match=r"single distribution has no length.*shape \(\)"):
            len(gaussians(3)[0])

    def test_iteration_gives_single_distributions(self):
        assert [p.shape for p in gaussians(3)] == [(), (), ()]

    def test_scikit_learn_takes_rows(self):
        taken = _safe_indexing(gaussians(6), np.array([4, 2]))
        assert isinstance(taken, mc.Gaussians)
        np.testing.assert_array_equal(taken.mean, gaussians(6).mean[[4, 2]])

    @given(st.lists(st.integers(-6, 5), max_size=10))
    def test_any_rows(self, rows):
        p = gaussians(6)
        np.testing.assert_array_equal(p[np.array(rows, dtype=int)].mean, p.mean[np.array(rows, dtype=int)])

    @pytest.mark.parametrize("library", ["strict", "torch"])
    def test_other_libraries(self, library):
        if library == "torch":
            xp = pytest.importorskip("torch")
        else:
            xp = array_api_strict
        p = mc.Gaussians(mean=xp.asarray(np.arange(12.0).reshape(6, 2)), covariance=xp.asarray(np.ones(6)))
        for key in (slice(1, 3), np.array([5, 0]), [5, 0], np.array([True, False] * 3), 2):
            np.testing.assert_array_equal(np.asarray(p[key].mean), np.arange(12.0).reshape(6, 2)[key])


class TestShape:
    def test_reshape(self):
        p = gaussians(12)
        assert p.reshape(3, 4).shape == (3, 4)
        assert p.reshape(-1, 6).shape == (2, 6)
        assert p.reshape(3, 4).mean.shape == (3, 4, 2)
        np.testing.assert_array_equal(p.reshape(3, 4)[1, 2].mean, p[6].mean)
        m = mc.Mixtures(np.full((4, 2), 0.5), gaussians(4, 2)).reshape(2, 2)
        assert (m.shape, m.components.shape) == ((2, 2), (2, 2, 2))
        with pytest.raises(ValueError, match="one batch axis"):
            sparse_multinomials().reshape(2, 3)

    def test_concat(self):
        p = gaussians(6)
        both = mc.Gaussians.concat([p[:2], p[2:]])
        np.testing.assert_array_equal(both.mean, p.mean)
        rows = sparse_multinomials()
        np.testing.assert_array_equal(
            mc.Multinomials.concat([rows[3:], rows[:3]]).dense().probability,
            rows.dense().probability[[3, 4, 5, 0, 1, 2]],
        )

    def test_concat_of_what_does_not_fit(self):
        with pytest.raises(ValueError, match="needs at least one batch"):
            mc.Gaussians.concat([])
        with pytest.raises(TypeError, match=r"Gaussians with Poissons.*same family"):
            mc.Gaussians.concat([gaussians(2), mc.Poissons(np.ones((2, 2)))])
        with pytest.raises(ValueError, match="differ in dimension"):
            mc.Poissons.concat([mc.Poissons(np.ones((2, 2))), mc.Poissons(np.ones((2, 3)))])
        a, b = (mc.Categoricals(np.full((1, 2), 0.5), alphabet=x) for x in ("ab", "cd"))
        with pytest.raises(ValueError, match="differ in alphabet"):
            mc.Categoricals.concat([a, b])


class TestImmutable:
    def test_arrays_are_copies_and_read_only(self):
        mean = np.zeros((3, 2))
        p = mc.Gaussians(mean=mean, covariance=np.ones(3))
        mean[:] = 7
        assert (p.mean == 0).all()
        for batch in (p, p[1:], p[[0, 1]], p[1], p.reshape(3, 1), mc.Gaussians.concat([p, p])):
            with pytest.raises(ValueError, match="read-only"):
                batch.mean[...] = 1

    def test_attributes_cannot_be_set(self):
        with pytest.raises(AttributeError, match="Gaussians is immutable"):
            gaussians(2).mean = 1

    def test_copies_are_the_thing_itself(self):
        p = gaussians(2)
        assert copy.copy(p) is p
        assert copy.deepcopy(p) is p
        assert clone(mc.Fisher(p[:1])).model is not None
        assert clone(mc.Fisher(p[:1])).get_params()["model"].mean is not None

    @pytest.mark.parametrize("batch", [gaussians(3), sparse_multinomials()], ids=lambda b: type(b).__name__)
    def test_pickling(self, batch):
        again = pickle.loads(pickle.dumps(batch))
        assert again.digests() == batch.digests()
        if isinstance(again, mc.Gaussians):
            assert not again.mean.flags.writeable

    def test_numpy_gets_a_sentence(self):
        for use in (np.asarray, np.array, lambda p: SVC().fit(p, [0, 1, 0])):
            with pytest.raises(TypeError, match=r"not an array.*Gram matrix"):
                use(gaussians(3))


class TestDigests:
    def test_of_content_alone(self):
        p = gaussians(6)
        assert p[[4, 1]].digests() == [p.digests()[4], p.digests()[1]]
        assert len(set(p.digests())) == 6
        assert mc.Gaussians(mean=p.mean.copy(), covariance=p.covariance).digests() == p.digests()
        assert gaussians(4, 3)[1:2].digests() == [gaussians(4, 3).digests()[1]]

    def test_of_sparse_rows(self):
        p = sparse_multinomials()
        assert p[[4, 1]].digests() == [p.digests()[4], p.digests()[1]]

    def test_families_and_plain_values_count(self):
        q = np.full((1, 2), 0.5)
        batches = [
            mc.Multinomials(q),
            mc.Multinomials(q, trials=2),
            mc.Categoricals(q, alphabet="ab"),
            mc.Categoricals(q, alphabet="ac"),
            mc.families.Bernoullis(q),
            mc.Poissons(q),
            mc.Poissons(q.astype(np.float32)),
            mc.Poissons(q.reshape(1, 2)[:, :1]),
        ]
        assert len({batch.digests()[0] for batch in batches}) == len(batches)

    def test_rows_of_arrays(self):
        x = np.arange(6.0).reshape(3, 2)
        assert row_digests(x)[1] == row_digests(x[1:2])[0]
        assert row_digests(np.asfortranarray(x)) == row_digests(x)
        assert row_digests(x.astype(np.float32)) != row_digests(x)
        assert row_digests(np.zeros((0, 2))) == []
        assert len(set(row_digests(np.zeros((3, 0))))) == 1


def test_a_class_of_ones_own():
    """What CONTRIBUTING promises: name the arrays, check them, and everything else is there."""

    class Widths(Batch):
        _arrays = {"width": 1}  # noqa: RUF012

        def __init__(self, width):
            self._freeze(width=np.asarray(width, dtype=float))

    p = Widths([[1.0], [2.0], [3.0]])
    assert p[[2, 0]].width.tolist() == [[3.0], [1.0]]
    assert (p.shape, p.ndim, p.nbytes, len(p)) == ((3,), 1, 24, 3)
    assert repr(p) == "Widths(shape=(3,))"


def test_a_namesake_does_not_take_over_the_files(tmp_path):
    mc.Poissons(np.ones((2, 1))).save(tmp_path / "x.npz")

    class Poissons(Batch):
        _arrays = {"rate": 1}  # noqa: RUF012

    assert type(mc.load(tmp_path / "x.npz")) is mc.Poissons


def test_a_namesake_has_files_of_its_own(tmp_path):
    class Exponentials(Batch):
        arrays = {"rate": 1}  # noqa: RUF012

        def __init__(self, rate):
            self.freeze(rate=np.asarray(rate))

    p = Exponentials(np.ones((2, 1)))
    p.save(tmp_path / "x.npz")
    assert type(mc.load(tmp_path / "x.npz")) is Exponentials
    assert type(p.make(rate=p.rate)) is Exponentials
    moved = type("Exponentials", (Exponentials,), {"__module__": "elsewhere"})  # the same class, in another module
    _registry.pop(f"{Exponentials.__module__}.{Exponentials.__qualname__}")
    assert type(mc.load(tmp_path / "x.npz")) is moved


def test_an_empty_list_is_an_index():
    p = mc.Gaussians(np.zeros((3, 2, 1)), np.ones((3, 2, 1)))
    assert p[[]].shape == (0, 2)
    assert p[:, []].shape == (3, 0)
    assert mc.Multinomials(sparse.csr_array(np.eye(2)))[[]].shape == (0,)
    assert mc.MarkovChain(alphabet="ab").fit_each(["abab", "bb"])[[]].shape == (0,)


@pytest.mark.parametrize("base", [Batch, mc.families.Family, mc.families.ExponentialFamily, mc.families.Coordinatewise])
def test_a_base_class_has_no_members(base):
    with pytest.raises(TypeError, match=rf"{base.__name__} is a base class .* such as mc.Poissons"):
        base()
