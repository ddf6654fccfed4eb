"""Residualized: KK-3 by its matrices, routed confounds in nested searches, what it removes, what it refuses."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.fixes import parse_version
from tests.batches import WIDTH, Matrices, gaussians

import mercer as mc
from mercer.kernels.confounds import Confounded
from mercer.kernels.residualized import Residualized
from mercer.testing.kernels import PluralContract


def hat(C):
    return C @ np.linalg.pinv(C)


def ones(C):
    return np.column_stack([np.ones(len(C)), C])


def by_matrices(K, C, rows=None, new=None):
    """KK-3 as it is printed: the training matrix, and rows of new data."""
    rest = np.eye(len(K)) - hat(C)
    if rows is None:
        return rest @ K @ rest
    return (rows - new @ np.linalg.pinv(C) @ K) @ rest


class TestResidualized(Matrices):
    needs_fit = True
    normalize = False

    def kernel(self):
        return Residualized(mc.RBF(gamma=0.4), normalize=self.normalize)

    def data(self, seed, n):
        X = super().data(seed, n)
        return Confounded(X, np.column_stack([X[:, 0] ** 2, np.cos(9 * X[:, 1])]))

    def nearly(self, epsilon):
        x = super().data(0, 1)
        return Confounded(np.concatenate([x, x + epsilon * np.arange(3)]), np.ones((2, 2)))

    def other_data(self, seed, n):
        X = self.data(seed, n)
        return Confounded(np.column_stack([X.objects, X.objects[:, 0]]), X.confounds[:, :1])

    def truth(self, X):
        return by_matrices(self.rbf(X.objects, 0.4), ones(X.confounds))

    def test_features(self):
        X = self.data(0, 6)
        with pytest.raises(TypeError, match="no finite explicit features"):
            self.ready(X).features(X)


class TestResidualizedNormalized(TestResidualized):
    normalize = True


class TestResidualizedPlurals(PluralContract):
    """Batches of any array library, beside confounds that are NumPy's."""

    needs_fit = True
    width = WIDTH[gaussians]

    def kernel(self):
        return Residualized(mc.ProbabilityProduct())

    def build(self, z):
        return Confounded(gaussians(z), np.sin(np.asarray(z.detach() if hasattr(z, "detach") else z)[:, :1] * 7))

    def truth(self, X):
        return by_matrices(mc.ProbabilityProduct()(X.objects), ones(X.confounds))


def test_gradients_flow():
    torch = pytest.importorskip("torch")
    z = torch.asarray(0.6 * np.random.default_rng(2).standard_normal((4, 5))).requires_grad_()
    C = np.array([0.0, 1.0, 5.0, 2.0])

    def matrix(z):
        return Residualized(mc.ProbabilityProduct()).fit_transform(gaussians(z), confounds=C)

    assert torch.autograd.gradcheck(matrix, (z,), atol=1e-6)


# -- KK-3 ----------------------------------------------------------------------------------------------------


def example(n=30, m=8, c=3, seed=0):
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(n, 4)), rng.normal(size=(m, 4))
    C, C_new = rng.normal(3.0, 2.0, size=(n, c)), rng.normal(3.0, 2.0, size=(m, c))
    return X, new, C, C_new


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e8, 1e-300, 1e160, 1e307])
def test_rows_of_new_data(intercept, scale):
    X, new, C, C_new = example()
    C[:, 1] *= scale
    C_new[:, 1] *= scale
    inner = mc.RBF(gamma=0.2)
    kernel = Residualized(inner, intercept=intercept)
    K = kernel.fit_transform(X, confounds=C)
    full, full_new = (ones(C), ones(C_new)) if intercept else (C, C_new)
    unit = np.abs(full).max(axis=0)  # what the pseudo-inverse of the formula can bear
    full, full_new = full / unit, full_new / unit
    np.testing.assert_allclose(K, by_matrices(inner(X), full), atol=1e-10)
    rows = kernel.transform(new, confounds=C_new)
    np.testing.assert_allclose(rows, by_matrices(inner(X), full, inner(new, X), full_new), atol=1e-10)
    assert kernel.rank_ == 3 + intercept
    np.testing.assert_allclose(K @ full, 0, atol=1e-10)  # nothing linear in the confounds is left


def test_it_is_a_regression_of_the_features():
    """An independent road: regress every feature on the confounds, as scikit-learn does, and take inner products."""
    X, new, C, C_new = example()
    regression = LinearRegression().fit(C, X)
    left, left_new = X - regression.predict(C), new - regression.predict(C_new)
    kernel = Residualized(mc.Linear(normalize=False)).fit(X, confounds=C)
    np.testing.assert_allclose(kernel(X, confounds=C), left @ left.T, atol=1e-10)
    np.testing.assert_allclose(kernel.transform(new, confounds=C_new), left_new @ left.T, atol=1e-10)
    both = kernel(new, X, confounds=C_new, confounds_Y=C)
    np.testing.assert_allclose(both, left_new @ left.T, atol=1e-10)
    np.testing.assert_allclose(kernel(new, confounds=C_new), left_new @ left_new.T, atol=1e-10)
    np.testing.assert_allclose(kernel.diag(mc.Confounded(new, C_new)), (left_new**2).sum(axis=1), atol=1e-10)
    apart = np.linalg.norm(left_new[:, None] - left, axis=-1)
    np.testing.assert_allclose(kernel.distance(mc.Confounded(new, C_new), mc.Confounded(X, C)), apart, atol=1e-7)
    with pytest.raises(ValueError, match="negative values here"):
        kernel.log(mc.Confounded(X, C))
    unit = Residualized(mc.Linear(normalize=False), normalize=True).fit(X, confounds=C)
    expected = left_new @ left.T / np.outer(*(np.linalg.norm(side, axis=1) for side in (left_new, left)))
    np.testing.assert_allclose(unit.transform(new, confounds=C_new), expected, atol=1e-10)


def test_collinear_and_constant_columns_change_nothing():
    X, new, C, C_new = example()
    more = np.column_stack([C, 2 * C[:, 0] - C[:, 2], np.full(30, 0.1), np.zeros(30)])
    more_new = np.column_stack([C_new, 2 * C_new[:, 0] - C_new[:, 2], np.full(8, 0.1), np.zeros(8)])
    plain, other = (Residualized(mc.RBF(gamma=0.3)).fit(X, confounds=c) for c in (C, more))
    assert plain.rank_ == other.rank_ == 4
    expected = plain.transform(new, confounds=C_new)
    np.testing.assert_allclose(other.transform(new, confounds=more_new), expected, atol=1e-10)
    np.testing.assert_allclose(
        other.fit_transform(X, confounds=more), by_matrices(mc.RBF(0.3)(X), ones(more)), atol=1e-10
    )
    more_new[:, 4:] = 55.0  # what never varied in training can teach nothing
    np.testing.assert_allclose(other.transform(new, confounds=more_new), expected, atol=1e-10)


def test_nothing_left():
    X, _, C, _ = example(n=4)
    with pytest.warns(UserWarning, match="4 independent confounds explain 4 objects completely"):
        kernel = Residualized(mc.RBF()).fit(X, confounds=C)
    np.testing.assert_allclose(kernel(X, confounds=C), 0, atol=1e-12)


def test_memo_knows_the_confounds():
    """The same objects with other confounds, in training or new, are never answered from the memo."""
    X, new, C, C_new = example()
    K, rows = mc.RBF(gamma=0.2)(X), mc.RBF(gamma=0.2)(new, X)
    for c in (C, C[:, ::-1] ** 2, C):
        for c_new in (C_new, C_new + 1, C_new):
            kernel = Residualized(mc.RBF(gamma=0.2))
            np.testing.assert_allclose(kernel.fit_transform(X, confounds=c), by_matrices(K, ones(c)), atol=1e-10)
            expected = by_matrices(K, ones(c), rows, ones(c_new))
            np.testing.assert_allclose(kernel.transform(new, confounds=c_new), expected, atol=1e-10)


def test_verdict_and_parameters():
    assert Residualized(mc.RBF()).psd == "always"
    assert Residualized(-1.0 * mc.RBF()).psd == "no"
    X, _, C, _ = example()
    kernel = Residualized(mc.RBF(gamma=1.0)).fit(X, confounds=C)
    assert mc.gram.psd.check(kernel(X, confounds=C))


# -- forms of confounds ----------------------------------------------------------------------------------------


def test_forms_of_confounds():
    X, new, C, C_new = example()
    expected = Residualized(mc.RBF()).fit(X, confounds=C).transform(new, confounds=C_new)
    frame, frame_new = (pd.DataFrame(c, columns=["age", "motion", "size"]) for c in (C, C_new))
    for c, c_new in ((frame, frame_new), (C.tolist(), C_new.tolist()), (sparse.csr_array(C), sparse.csr_array(C_new))):
        found = Residualized(mc.RBF()).fit(X, confounds=c).transform(new, confounds=c_new)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    one = Residualized(mc.RBF()).fit(X, confounds=C[:, :1]).transform(new, confounds=C_new[:, :1])
    np.testing.assert_allclose(
        Residualized(mc.RBF()).fit(X, confounds=frame["age"]).transform(new, confounds=list(C_new[:, 0])), one
    )
    sex = pd.DataFrame({"sex": C[:, 0] > 3, "n": np.arange(30, dtype="int8")})
    numbers = np.column_stack([C[:, 0] > 3, np.arange(30.0)])
    a, b = (Residualized(mc.RBF()).fit_transform(X, confounds=c) for c in (sex, numbers))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_invalid_confounds_raise():
    X, new, C, C_new = example()
    kernel = Residualized(mc.RBF())

    def refused(confounds, match, kind=ValueError):
        with pytest.raises(kind, match=match):
            clone(kernel).fit(X, confounds=confounds)

    refused(None, r"Residualized got no confounds\. Call fit\(X, y, confounds=C\).*enable_metadata_", TypeError)
    gap = C.copy()
    gap[4, 1] = np.nan
    refused(gap, r"confound 1 is nan for object 4. Leave such objects out, or impute")
    gap[4, 1] = -np.inf
    refused(pd.DataFrame(gap, columns=list("abc")), r"confound 'b' is -inf for object 4")
    refused(C[:7], "one row per object; got 7 rows for 30 objects")
    site = pd.DataFrame({"age": C[:, 0], "site": ["Jena", "Kiel", "Ulm"] * 10})
    encode = r"confound 'site' contains 'Jena', .*columns of 0 and 1, .*OneHot"
    refused(site, encode)
    refused(site.astype({"site": "category"}), encode)
    refused(np.array(["7", "8"] * 15), "confound 0 contains '7', which is not a number")
    days = np.arange("2020-01-01", "2020-01-31", dtype="datetime64[D]")
    cure = ", which is not a number. Convert dates to numbers of days"
    refused(days, f"confound 0 contains the date or time '2020-01-01'{cure}")
    refused(days - days[3], f"confound 0 contains the date or time '-3 days'{cure}")
    refused(
        np.where(np.arange(30) == 0, np.datetime64("NaT", "D"), days),
        f"confound 0 contains the date or time 'NaT'{cure}",
    )
    refused(
        pd.DataFrame({"seen": pd.to_datetime(days)}), f"confound 'seen' contains the date or time '2020-01-01.*{cure}"
    )
    refused(
        pd.DataFrame({"seen": pd.to_datetime(days).tz_localize("UTC")}), f"'seen' contains the date or time.*{cure}"
    )
    refused(days.astype(object), f"confound 0 contains the date or time '2020-01-01'{cure}")
    Residualized(mc.RBF()).fit(X, confounds=(days - days[0]).astype(float))
    refused(C + 1j, "which is not a number")
    refused(np.zeros((30, 2, 2)), r"must be a matrix, .* got shape \(30, 2, 2\)")
    refused([[1.0], [1.0, 2.0]] * 15, "must be a matrix, .* got rows of different lengths")
    kernel.fit(X, confounds=C)
    with pytest.raises(TypeError, match="Residualized got no confounds"):
        kernel.transform(new)
    with pytest.raises(TypeError, match="Residualized got no confounds"):
        kernel(X)
    with pytest.raises(TypeError, match="Residualized got no confounds"):
        kernel(X, new, confounds=C)
    with pytest.raises(ValueError, match=r"have 2 columns, but had 3 in training\. Encode both"):
        kernel.transform(new, confounds=C_new[:, :2])
    named = clone(kernel).fit(X, confounds=pd.DataFrame(C, columns=list("abc")))
    with pytest.raises(
        ValueError, match=r"The confounds are \['c', 'a', 'b'\], but were \['a', 'b', 'c'\] in training"
    ):
        named.transform(new, confounds=pd.DataFrame(C_new, columns=list("cab")))
    with pytest.raises(TypeError, match=r"pass mc.Confounded\(X, C\) as X"):
        mc.kernels.Gaussianized(Residualized(mc.RBF())).fit(X)
    with pytest.raises(TypeError, match="have confounds already"):
        kernel.transform(Confounded(new, C_new), confounds=C_new)
    with pytest.raises(NotFittedError, match=r"learns .* from the training data and their confounds.* Call kernel.fit"):
        Residualized(mc.RBF())(X, confounds=C)


# -- scikit-learn ------------------------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


routed_scores = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="a pipeline's own score gets no metadata in a search before scikit-learn 1.8: Confounded serves there",
)


class Watched(Residualized):
    """Notes the objects that came with confounds of others: the first column of X is the first confound here."""

    seen = []  # noqa: RUF012

    def _accept(self, X, *, reset):
        self.seen.append((reset, len(X), np.array_equal(X.objects[:, 0], np.asarray(X.confounds)[:, 0])))
        return super()._accept(X, reset=reset)


def families(n=60, seed=0):
    """Members of families of 3: an effect of interest beside a confound, and the confound in X's first column."""
    rng = np.random.default_rng(seed)
    C = np.column_stack([rng.normal(size=n), rng.normal(size=n)])
    y = rng.permutation(np.arange(n // 3) % 2)[np.arange(n) // 3]
    X = np.column_stack([C[:, 0], 3 * y + rng.normal(0, 0.3, size=n), 5 * C[:, 1]])
    return X, y, C, np.arange(n) // 3


@pytest.mark.slow
@routed_scores
@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("explicit", [False, True])
def test_nested_search_with_groups(explicit):
    X, y, C, groups = families()
    kernel = Watched(mc.RBF(gamma=0.1))
    if explicit:
        kernel.set_fit_request(confounds=True).set_transform_request(confounds=True)
    pipeline = make_pipeline(kernel, SVC(kernel="precomputed"))
    grid = {"watched__kernel__gamma": [0.01, 0.1], "svc__C": [1.0, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=GroupKFold(3), error_score="raise")
    Watched.seen.clear()
    search.fit(X, y, confounds=C, groups=groups)
    assert search.best_score_ > 0.9
    assert search.score(X, y, confounds=C) > 0.9
    assert search.best_estimator_.predict(X, confounds=C).shape == (60,)
    assert all(same for *_, same in Watched.seen)
    assert {count for reset, count, _ in Watched.seen if reset} == {39, 42, 60}  # 20 families in 3 folds
    Watched.seen.clear()
    found = cross_validate(
        search, X, y, cv=GroupKFold(4), params={"confounds": C, "groups": groups}, error_score="raise"
    )
    assert found["test_score"].mean() > 0.9
    assert len(Watched.seen) > 50
    assert all(same for *_, same in Watched.seen)
    assert {count for reset, count, _ in Watched.seen if reset} == {30, 45}


@pytest.mark.usefixtures("routing")
def test_a_refused_request():
    """A user who turns the request off hears scikit-learn's own sentence, not a silent result."""
    X, y, C, _ = families()
    off = Residualized(mc.RBF()).set_fit_request(confounds=False).set_transform_request(confounds=False)
    with pytest.raises(TypeError, match="confounds"):
        make_pipeline(off, SVC(kernel="precomputed")).fit(X, y, confounds=C)


def test_without_routing_there_is_a_sentence():
    X, y, C, _ = families()
    pipeline = make_pipeline(Residualized(mc.RBF()), SVC(kernel="precomputed"))
    pipeline.fit(X, y, residualized__confounds=C)
    with pytest.raises(TypeError, match=r"got no confounds\. .*enable_metadata_routing=True"):
        pipeline.predict(X)


def test_it_removes_a_confound():
    """X predicts y only through age: at chance when age is gone, though perfect before."""
    rng = np.random.default_rng(3)
    n = 120
    age = rng.normal(size=n)
    y = age + 0.1 * rng.normal(size=n)
    X = np.outer(age, rng.normal(size=6)) + 0.5 * rng.normal(size=(n, 6))
    ridge = KernelRidge(kernel="precomputed", alpha=1.0)
    raw = cross_val_score(make_pipeline(mc.Linear(normalize=False), ridge), X, y, cv=5)
    clean = make_pipeline(Residualized(mc.Linear(normalize=False)), ridge)
    without = cross_val_score(clean, Confounded(X, age), y, cv=5)
    assert raw.mean() > 0.8
    assert without.mean() < 0.05
    other = 3 * rng.normal(size=(n, 1))
    kept = cross_val_score(clean, Confounded(np.column_stack([X, other]), age), y + other[:, 0], cv=5)
    assert kept.mean() > 0.8  # what is not the confound's stays


@pytest.mark.usefixtures("routing")
def test_the_folds_do_not_see_the_test_data():
    """A fold's rows are those of a kernel fitted to its training part alone, and not those of all data."""
    X, y, C, _ = families()
    train, test = np.arange(40), np.arange(40, 60)
    pipeline = make_pipeline(Residualized(mc.RBF(gamma=0.1)), KernelRidge(kernel="precomputed"))
    rows = pipeline.fit(X[train], y[train], confounds=C[train])[:1].transform(X[test], confounds=C[test])
    K = mc.RBF(gamma=0.1)(X)
    alone = by_matrices(K[:40, :40], ones(C[train]), K[40:, :40], ones(C[test]))
    np.testing.assert_allclose(rows, alone, atol=1e-10)
    everybody = by_matrices(K, ones(C))[40:, :40]
    assert np.abs(rows - everybody).max() > 0.01
    shifted = C.copy()
    shifted[test] += 100.0  # the test part's confounds change nothing that was learned
    again = pipeline.fit(X[train], y[train], confounds=shifted[train])
    np.testing.assert_array_equal(again[:1].transform(X[test], confounds=C[test]), rows)
