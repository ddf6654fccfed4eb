"""The batteries of kernels: a test class defines the kernel, random data and a slow reference implementation.

``KernelContract`` is for any input. ``PluralContract`` is for batches of distributions: one function ``build(z)``
converts unconstrained numbers to a batch, and gives random, adversarial and nearly equal members, batches of other
array libraries, and gradients.
"""

from __future__ import annotations

import copy
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mercer as mc
from mercer.gram import engine
from mercer.kernels.base import ModelKernel, Prepared, subset
from mercer.testing.counterexamples import find_counterexample


def take(X, index):
    """Return the objects at ``index`` of a list, a matrix, a container or a batch."""
    return [X[i] for i in index] if isinstance(X, list) else X[np.asarray(index)]


def size(X):
    return X.shape[0] if hasattr(X, "shape") else len(X)


def normalized(K):
    return K / np.sqrt(np.diag(K)[:, None] * np.diag(K))


def another_kind(X):
    """Return rows and points with another coordinate, strings of other letters; None for other data."""
    if isinstance(X, list) and isinstance(X[0], str):
        return [x.translate(str.maketrans("abc", "xyz")) for x in X]
    if isinstance(X, list):
        return [another_kind(x) for x in X]
    if sparse.issparse(X):
        return sparse.csr_array(another_kind(X.toarray()))
    return np.column_stack([X, np.roll(X[:, 0], 1) + X[:, -1]]) if isinstance(X, np.ndarray) else None


def by_pairs(pair, X, Y=None):
    """Compute a matrix by a double loop over the objects."""
    Y = X if Y is None else Y
    return np.array([[pair(X[i], Y[j]) for j in range(size(Y))] for i in range(size(X))])


def numpy(x):
    return x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)


class KernelContract:
    """Battery of kernels: define ``kernel()``, ``data(seed, n)`` and ``truth(X)``, and set the class attributes."""

    needs_fit = False
    features = False
    truth_tolerance = 1e-10
    degenerate = "zero norm"
    """Pattern of the error that a kernel may raise for a single object, or for equal objects."""

    def kernel(self):
        raise NotImplementedError

    def data(self, seed, n):
        raise NotImplementedError

    def truth(self, X):
        """Return the unnormalized Gram matrix of a few objects by loops, enumeration or quadrature."""
        raise NotImplementedError

    def adversarial(self):
        """Return twenty or more members, some of them nearly equal and some extreme."""
        return self.data(99, 24)

    def nearly(self, epsilon):
        """Return two objects at a distance of order epsilon, or None."""
        return None

    def other_data(self, seed, n):
        """Return data of another width or alphabet to which the same kernel can be fitted, or None."""
        return another_kind(self.data(seed, n))

    def ready(self, X):
        return self.kernel().fit(X) if self.needs_fit else self.kernel()

    # -- values ------------------------------------------------------------------------------------------

    def test_slow_truth(self):
        X = self.data(1, 4)
        k = self.ready(X)
        expected = self.truth(X)
        K = k(X)
        np.testing.assert_allclose(
            K, normalized(expected) if k.normalize else expected, rtol=self.truth_tolerance, atol=self.truth_tolerance
        )

    def test_symmetric_with_exact_diagonal(self):
        X = self.data(2, 12)
        k = self.ready(X)
        K = k(X)
        assert np.array_equal(K, K.T)
        assert np.array_equal(k.diag(X), np.diag(K))
        assert np.isfinite(K).all()
        if k.normalize:
            assert np.all(np.diag(K) == 1)
            assert np.abs(K).max() <= 1 + 1e-9

    def test_adversarial_gram_is_psd(self):
        X = self.adversarial()
        assert size(X) >= 20
        k = self.ready(X)
        K = k(X)
        assert np.isfinite(K).all()
        if k.psd == "always":
            assert mc.gram.psd.check(K, 1e-10), np.linalg.eigvalsh(K)[0]

    def test_no_counterexample_to_the_verdict(self):
        X = self.data(27, 12)
        k = self.ready(X)
        if k.psd == "always":
            found = find_counterexample(k, X)
            assert found is None, f"psd is 'always' ({k.psd.reason}), but there is a {found}"

    def test_same_objects_twice(self):
        X = self.data(3, 7)
        k = self.ready(X)
        again = take(X, range(7))
        assert np.array_equal(k(X, X), k(X))
        np.testing.assert_allclose(k(X, again), k(X), rtol=1e-9, atol=1e-10)

    def test_cross_gram(self):
        X = self.data(4, 9)
        a, b = take(X, range(4)), take(X, range(4, 9))
        unfitted = self.ready(X)
        if not hasattr(unfitted, "train_"):  # it learns from the second argument alone
            np.testing.assert_allclose(unfitted(a, b), self.kernel().fit(b).transform(a), rtol=1e-9, atol=1e-10)
        k = self.kernel().fit(X)
        np.testing.assert_allclose(k(a, b), k(b, a).T, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(k(a, b), k(X)[:4, 4:], rtol=1e-9, atol=1e-10)

    def test_order_of_data_does_not_matter(self):
        X = self.data(5, 8)
        p = np.random.default_rng(0).permutation(8)
        K = self.ready(X)(X)
        shuffled = take(X, p)
        np.testing.assert_allclose(self.ready(shuffled)(shuffled), K[np.ix_(p, p)], rtol=1e-9, atol=1e-10)

    def test_logarithm(self):
        X = self.data(6, 6)
        k = self.ready(X)
        K = k(X)
        if k.domain == "linear" and (K < 0).any():
            with pytest.raises(ValueError, match="negative values here, which have no logarithm"):
                k.log(X)
        else:
            np.testing.assert_allclose(np.exp(k.log(X)), K, rtol=1e-12)

    def test_distance(self):
        X = self.data(7, 9)
        k = self.ready(X)
        a, b = take(X, range(4)), take(X, range(4, 9))
        squared = k.diag(a)[:, None] + k.diag(b) - 2 * k(a, b)
        np.testing.assert_allclose(k.distance(a, b) ** 2, squared, rtol=1e-9, atol=1e-10 * np.abs(squared).max())
        assert np.all(np.diag(k.distance(X)) == 0)

    def test_distance_of_nearly_equal_objects(self):
        if self.nearly(1e-2) is None:
            pytest.skip("has no continuous parameter")
        k = self.ready(self.data(5, 6))
        large, small = (k.distance(X)[0, 1] for X in (self.nearly(1e-2), self.nearly(1e-4)))
        np.testing.assert_allclose(large / small, 100, rtol=0.05)

    def test_normalize(self):
        X = self.data(8, 6)
        k = self.kernel()
        if "normalize" not in k.get_params():
            pytest.skip("has no normalize=")
        raw = k.set_params(normalize=False).fit(X)(X)
        np.testing.assert_allclose(
            clone(k).set_params(normalize=True).fit(X)(X), normalized(raw), rtol=1e-9, atol=1e-12
        )

    def test_features(self):
        X = self.data(9, 6)
        k = self.ready(X)
        if k._learns_from_call:
            k.fit(X)  # a prior of all data
        if not self.features:
            with pytest.raises(TypeError, match="explicit features"):
                k.features(X)
            return
        a, b = take(X, range(2)), take(X, range(2, 6))
        products = k.features(a) @ k.features(b).T
        products = products.toarray() if sparse.issparse(products) else products
        np.testing.assert_allclose(products, k(a, b), rtol=1e-9, atol=1e-10)

    def test_verdict_has_a_reason(self):
        for k in (self.kernel(), self.kernel().fit(self.data(10, 4))):
            assert k.psd in ("always", "conditional", "approximate", "no")
            assert len(k.psd.reason) > 5

    def test_one_object_and_equal_objects_are_never_nan(self):
        X = self.data(11, 3)
        for same in (take(X, [0]), take(X, [1, 1, 1])):
            try:
                K = self.kernel().fit_transform(same)
            except ValueError as error:
                assert re.search(self.degenerate, str(error))  # noqa: PT017
            else:
                assert np.isfinite(K).all()
                if self.kernel().normalize:
                    np.testing.assert_allclose(K, 1.0)

    def models(self):
        """Return data of every kind, with a model of each; the kernel may refuse some, by a ValueError or TypeError."""
        rng = np.random.default_rng(26)
        counts = rng.poisson(0.7, (6, 5)) + np.eye(6, 5)
        points = [rng.normal(size=(n, 2)) for n in (5, 9, 4, 7, 5, 8)]
        strings = ["".join(rng.choice(list("ab"), size=n)) for n in (8, 12, 9, 7, 11, 10)]
        return {
            "counts": (mc.Multinomial(), counts),
            "sparse counts": (mc.Multinomial(), sparse.csr_array(counts)),  # without a prior, so are parameters
            "points": (mc.Gaussian("diagonal"), points),
            "symbols": (mc.Categorical(prior="pooled"), strings),
            "strings": (mc.MarkovChain(prior="pooled"), strings),
        }

    def test_models_of_every_kind_of_data(self):
        if not isinstance(self.kernel(), ModelKernel):
            pytest.skip("has no model= of each sample")
        found = {}
        for kind, (model, X) in self.models().items():
            k = self.kernel().set_params(model=model)
            try:
                found[kind] = k.fit_transform(X)
            except (TypeError, ValueError):
                if kind == "sparse counts" and "counts" in found:  # it takes their dense form
                    raise
                continue
            assert np.isfinite(found[kind]).all(), kind
            np.testing.assert_allclose(k.transform(X[:2]), found[kind][:2], rtol=1e-9, atol=1e-10, err_msg=kind)
        assert found, "the kernel refuses all models"
        if {"counts", "sparse counts"} <= found.keys():
            np.testing.assert_allclose(found["sparse counts"], found["counts"], rtol=1e-9, atol=1e-10)

    # -- scikit-learn ------------------------------------------------------------------------------------

    def test_three_ways_to_the_training_matrix(self):
        X = self.data(12, 8)
        k = self.kernel()
        K = k.fit_transform(X)
        np.testing.assert_allclose(self.kernel().fit(X).transform(X), K, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(k(X), K, rtol=1e-9, atol=1e-10)
        with mc.config(memo_bytes=0):
            np.testing.assert_allclose(self.kernel().fit_transform(X), K, rtol=1e-9, atol=1e-10)
        if k.normalize:
            assert np.all(np.diag(K) == 1)
        assert list(k.get_feature_names_out())[-1] == f"{type(k).__name__.lower()}7"

    def test_memo_gives_the_same_rows(self):
        X = self.data(13, 9)
        train, test = take(X, range(6)), take(X, range(3, 9))
        k = self.kernel().fit(train)
        with mc.config(memo_bytes=0):
            expected = k.transform(test)
        for _ in range(2):
            np.testing.assert_allclose(k.transform(test), expected, rtol=1e-9, atol=1e-10)

    def test_some_of_the_training_objects(self):
        """`mc.compact` drops columns of ``transform``."""
        X = self.data(25, 9)
        train, new, index = take(X, range(6)), take(X, range(4, 9)), np.array([0, 2, 5])
        k = self.kernel().fit(train)
        with mc.config(memo_bytes=0):
            rows = k.transform(new)
            part = pickle.loads(pickle.dumps(subset(k, index)))
            np.testing.assert_allclose(part.transform(new), rows[:, index], rtol=1e-12, atol=1e-12 * np.abs(rows).max())
        assert size(part.train_) == 3

    def test_clone_parameters_pickle_deepcopy(self):
        X = self.data(14, 6)
        k = self.kernel()
        assert set(clone(k).get_params()) == set(k.get_params())
        assert clone(k).set_params(**k.get_params(deep=False)).get_params(deep=False) == k.get_params(deep=False)
        K = k.fit_transform(X)
        assert not hasattr(clone(k), "train_")
        for other in (pickle.loads(pickle.dumps(k)), copy.deepcopy(k)):
            np.testing.assert_allclose(other.transform(X), K, rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(other(X), K, rtol=1e-9, atol=1e-10)

    def test_save_and_load(self, tmp_path):
        X = self.data(14, 6)
        k = self.kernel().fit(X)
        own = [] if type(k).__module__.startswith("mercer.") else [type(k)]
        mc.save(k, tmp_path / "kernel.mercer", trusted=own)
        again = mc.load(tmp_path / "kernel.mercer", trusted=own)
        with mc.config(memo_bytes=0):
            np.testing.assert_allclose(again.transform(X), k.transform(X), rtol=1e-12, atol=1e-15)

    def test_parameters_stay_as_given(self):
        k = self.kernel()
        given = k.get_params(deep=False)
        children = {name: dict(vars(child)) for name, child in given.items() if hasattr(child, "get_params")}
        k.fit(self.data(15, 5))
        assert all(k.get_params(deep=False)[name] is value for name, value in given.items())
        for name, before in children.items():
            assert vars(given[name]) == before, f"{name} was changed by fit"

    def test_a_second_fit_forgets_the_first(self):
        X, other = self.data(22, 6), self.other_data(23, 7)
        if other is None:
            pytest.skip("has only one kind of data")
        k = self.kernel()
        for data in (X, other, X):
            k.fit(data)
            expected = self.kernel().fit(data)
            np.testing.assert_allclose(k.transform(data), expected.transform(data), rtol=1e-12, atol=1e-12)
            assert vars(k).keys() == vars(expected).keys()

    def test_asking_changes_nothing(self):
        X, Y = self.data(16, 6), self.data(17, 3)
        k = self.kernel().fit(X)
        before = dict(vars(k))
        for ask in (k.transform, k, k.diag, k.distance):
            ask(Y)
        after = vars(k)
        assert before.keys() == after.keys()
        assert all(after[name] is value for name, value in before.items())

    def test_call_never_learns(self):
        X = self.data(18, 5)
        k = self.kernel()
        before = dict(vars(k))
        if self.needs_fit:
            for ask in (k, k.diag, k.log, k.distance):
                with pytest.raises(NotFittedError, match=r"because .* Call kernel.fit\(training_data(, y)?\) first"):
                    ask(X)
        else:
            k(X), k.diag(X)
        assert vars(k) == before
        with pytest.raises(NotFittedError):
            k.transform(X)

    def test_an_iterator_is_read_once(self):
        X = self.data(24, 5)
        if not isinstance(X, list | np.ndarray):
            pytest.skip("has data that are not iterable")
        k = self.kernel().fit(iter(X))
        np.testing.assert_allclose(k.transform(iter(X)), k.fit(X).transform(X), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(k(iter(X)), k(X), rtol=1e-9, atol=1e-10)

    def test_training_data_may_be_written_into_afterwards(self):
        X = self.data(25, 5)
        if not isinstance(X, np.ndarray):
            pytest.skip("is not fitted to a matrix")
        given = X.copy()
        k = self.kernel().fit(given)
        given[:] = 100.0
        with mc.config(memo_bytes=0):
            np.testing.assert_allclose(k.transform(X), self.kernel().fit(X).transform(X), rtol=1e-9, atol=1e-10)

    def test_threads_share_a_fitted_kernel(self):
        X = self.data(19, 6)
        k = self.kernel().fit(X)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: k(X), range(4)))
        assert all(np.array_equal(K, found[0]) for K in found)

    def test_no_data(self):
        X = self.data(20, 4)
        k = self.kernel().fit(X)
        for ask in (k, k.transform, k.fit, lambda nothing: k(X, nothing)):
            with pytest.raises(ValueError, match=r"got no data \(0 objects\)"):
                ask(take(X, []) if isinstance(X, list) else X[:0])

    # -- the engine --------------------------------------------------------------------------------------

    def test_any_number_of_threads_and_any_tile(self, monkeypatch):
        X = self.data(21, 20)
        k = self.ready(X)
        whole = k(X)
        monkeypatch.setattr(Prepared, "tile_hint", property(lambda self: 3))
        monkeypatch.setattr(engine, "PARALLEL_FROM_SECONDS", 0.0)
        monkeypatch.setattr(engine, "TILE_FROM_SECONDS", 0.0)
        found = []
        for jobs in (1, 2):
            with mc.config(n_jobs=jobs, memo_bytes=0):
                found.append(k(X))
        assert np.array_equal(*found)
        scale = np.abs(whole).max()
        np.testing.assert_allclose(found[0] / scale, whole / scale, rtol=1e-11, atol=1e-12)


class PluralContract(KernelContract):
    """A kernel between batches: ``build`` converts unconstrained numbers of any array library to a batch."""

    width: int
    libraries = True

    def build(self, z):
        raise NotImplementedError

    def free(self, seed, n):
        return 0.6 * np.random.default_rng(seed).standard_normal((n, self.width))

    def data(self, seed, n):
        return self.build(self.free(seed, n))

    def adversarial(self):
        z = self.free(99, 24)
        return self.build(np.concatenate([z[:8], 6 * z[8:16], z[16:17] + 1e-8 * z[16:]]))

    def nearly(self, epsilon):
        z = self.free(5, 1)
        return self.build(np.concatenate([z, z + epsilon * np.random.default_rng(6).standard_normal(z.shape)]))

    @pytest.mark.parametrize("library", ["array_api_strict", "torch"])
    def test_other_array_libraries(self, library):
        if not self.libraries:
            pytest.skip("computes with NumPy only")
        xp = pytest.importorskip(library)
        z = self.free(1, 5)
        a, b = self.build(z), self.build(z[:3])
        p, q = (self.build(xp.asarray(side)) for side in (z, z[:3]))
        plain, k = self.ready(a), self.ready(p)
        for found, expected in ((k(p), plain(a)), (k(p, q), plain(a, b)), (k.diag(p), plain.diag(a))):
            assert type(found) is type(xp.asarray(1.0))
            np.testing.assert_allclose(numpy(found), expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(numpy(k.distance(p)), plain.distance(a), rtol=1e-6, atol=1e-7)
        assert type(self.kernel().fit_transform(p)) is type(found)


class Gradients:
    """For a `PluralContract` whose kernel supports gradients."""

    @pytest.mark.parametrize("normalize", [True, False])
    def test_gradients(self, normalize):
        torch = pytest.importorskip("torch")
        k = self.kernel().set_params(normalize=normalize)
        z = torch.asarray(self.free(2, 3)).requires_grad_()
        assert torch.autograd.gradcheck(lambda z: k(self.build(z)), (z,), atol=1e-6)
