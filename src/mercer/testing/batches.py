"""The battery of batches, of families and of models: indexing, immutability, digests, files."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import mercer as mc


def arrays_of(p):
    """Return all arrays of a batch and of its parts."""
    return [getattr(p, name) for name in p._arrays] + [x for name in p._parts for x in arrays_of(getattr(p, name))]


class BatchContract:
    """Battery of batches: define ``members(seed, shape)``."""

    constants = ()  # names of constructor arguments that are neither arrays nor batches, if not the shared ones

    def members(self, seed=0, shape=(3,)):
        """Return random members, all different."""
        raise NotImplementedError

    def constants_of(self, p):
        """Return the names of constructor arguments that are neither arrays nor batches."""
        return self.constants or [name for name in p._shared if name in inspect.signature(type(p)).parameters]

    def derived(self, p):
        """Return batches that methods of p make."""
        return []

    def test_indexing(self):
        p = self.members(0, (5,))
        picks = {
            "int": 2,
            "numpy int": np.int64(-1),
            "slice": slice(1, 4),
            "integers": np.array([3, 0, 0]),
            "list": [4, 1],
            "booleans": np.array([True, False, True, False, False]),
        }
        for pick in picks.values():
            for key in (pick, (pick, ...)):
                for part, whole in zip(arrays_of(p[key]), arrays_of(p), strict=True):
                    assert_array_equal(part, np.asarray(whole)[pick])
        assert p[2].shape == ()
        assert p[2:3].shape == (1,)
        assert [q.shape for q in p] == [()] * 5
        assert p.reshape(5, 1)[:, 0].digests() == p.digests()
        assert p.reshape(-1, 5).shape == (1, 5)
        assert type(p).concat([p[:2], p[2:]]).digests() == p.digests()
        with pytest.raises(IndexError, match="2 indices for a batch of shape"):
            p[0, 0]
        with pytest.raises(TypeError, match="single distribution"):
            len(p[0])
        with pytest.raises(ValueError, match="needs at least one batch"):
            type(p).concat([])

    def test_immutable(self):
        p = self.members()
        derived = [p, p[0], p[1:], p[[0, 1]], p.reshape(3, 1), type(p).concat([p, p]), pickle.loads(pickle.dumps(p))]
        for q in [*derived, *self.derived(p)]:
            for value in arrays_of(q):
                if isinstance(value, np.ndarray):
                    with pytest.raises(ValueError, match="read-only"):
                        value[...] = 0
            with pytest.raises(AttributeError, match=r"immutable.*new batch"):
                q.mean = 0
        assert copy.deepcopy(p) is p
        assert copy.copy(p) is p
        arrays = {name: np.array(getattr(p, name)) for name in p._arrays}
        q = type(p)(**arrays, **{name: getattr(p, name) for name in (*p._parts, *self.constants_of(p))})
        for name, value in arrays.items():
            value[...] = 0  # the constructor copies
            assert_array_equal(getattr(q, name), getattr(p, name))

    def test_borders(self, tmp_path):
        p = self.members()
        with pytest.raises(TypeError, match=r"not an array.*Gram matrix"):
            np.asarray(p)
        p.save(tmp_path / "p.npz")
        copies = [mc.load(tmp_path / "p.npz"), type(p).load(tmp_path / "p.npz"), pickle.loads(pickle.dumps(p))]
        for q in copies:
            assert repr(q) == repr(p)
            assert q.digests() == p.digests()
        assert len(set(p.digests())) == 3
        assert p[[2, 0]].digests() == [p.digests()[2], p.digests()[0]]
        assert self.members(1).digests() != p.digests()
