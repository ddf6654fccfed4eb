"""Mehta and Gray 2010, section 7: the order of the methods in table 1, and the niches of figure 2.

They are measured by ``reproductions/mehta2010.py``; here its result files are read.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import KernelPCA
from tests.sources.truths import Errors

import mercer as mc

SERIES = ("Coffee", "ECG", "Gun-Point", "Wafer", "Yoga")


@pytest.mark.parametrize("kind", ["ours (best)", "ours (CV)"])
def test_m22_table_1(kind):
    errors = Errors("mehta2010_table1")
    synthetic = {name: errors("Synthetic", name, kind) for name in ("GMMK", "EMMK", "LMMK", "Fisher", "Bayes")}
    assert max(synthetic.values()) - min(synthetic.values()) < 0.01  # "almost equally", and "slightly worse"
    assert errors("Synthetic", "PPK 1", kind) >= synthetic["GMMK"]
    assert errors("Synthetic", "PPK .5", kind) > 1.5 * max(synthetic.values())  # "much higher loss"
    hs3d = [errors("HS3D", name, kind) for name in ("GMMK", "PPK 1", "PPK .5")]
    assert hs3d[0] < hs3d[1] < hs3d[2]  # "slightly better than the PPK"
    others = [errors("HS3D", name, kind) for name in ("EMMK", "LMMK", "Fisher", "Bayes")]
    assert hs3d[0] >= max(others)  # not in the paper: these sequences are short
    behind = [data for data in SERIES if errors(data, "GMMK", kind) > errors(data, "PPK 1", kind)]
    assert set(behind) <= {"Coffee", "Yoga"}  # "competitive with or outperforms": behind where it is in the paper
    behind = [data for data in SERIES if errors(data, "GMMK", kind) > errors(data, "Bayes", kind)]
    assert set(behind) <= {"Coffee"}  # in the paper none, see the page


def test_m22_gaussians_of_the_fisher_distance(rng):
    strings = ["".join(rng.choice(list("ab"), size=20)) for _ in range(6)]
    model = mc.HMMs(
        [[0.6, 0.4]], [[[0.8, 0.2], [0.3, 0.7]]], mc.Categoricals([[[0.7, 0.3], [0.2, 0.8]]], alphabet="ab")
    )
    K = mc.Fisher(model, information="identity", normalize=False).fit(strings)(strings)
    squared = np.diag(K)[:, None] - 2 * K + np.diag(K)
    kernel = mc.kernels.Gaussianized(mc.Fisher(model, information="identity", normalize=False), gamma=0.1)
    assert_allclose(kernel.fit(strings)(strings), np.exp(-0.1 * squared), rtol=1e-10)


@pytest.mark.parametrize("region", ["NSW", "AWT"])
@pytest.mark.parametrize("features", ["all features", "climate"])
def test_m23_figure_2(region, features):
    errors = Errors("mehta2010_figure2groups")
    by_niche = errors(region, features, "KDE mean map", "ours (CV)")
    majority = errors(region, features, "majority", "ours (CV)")
    assert by_niche < majority - 0.2  # "some separation between the different groups"
    own = errors(region, features, "own sites", "KDE mean map", "ours (CV)")
    assert own > errors(region, features, "as few", "KDE mean map", "ours (CV)")  # in part, surveys


def test_m23_kernel_principal_components(rng):
    niches = [rng.normal(3 * (i % 2), 1, size=(8, 2)) for i in range(10)]
    K = mc.MeanMap(mc.KDE(bandwidth="lscv"), gamma=0.5, normalize=False).fit(niches)(niches)
    width = mc.KDE(bandwidth="lscv").fit_each(niches).bandwidth
    for i, j in ((0, 0), (0, 1), (3, 8)):  # equation (19) at lambda = 1
        h = 1 + width[i] + width[j]
        gaps = np.sum((niches[i][:, None] - niches[j]) ** 2, axis=-1)
        assert_allclose(K[i, j], np.exp(-gaps / (2 * h)).mean() / h, rtol=1e-11)
    middle = np.eye(10) - 0.1
    values, vectors = np.linalg.eigh(middle @ K @ middle)
    components = KernelPCA(4, kernel="precomputed").fit_transform(K)
    assert_allclose(np.abs(components[:, 0]), np.abs(vectors[:, -1]) * np.sqrt(values[-1]), rtol=1e-6, atol=1e-8)
    assert_allclose(np.abs(components[:, 3]), np.abs(vectors[:, -4]) * np.sqrt(values[-4]), rtol=1e-6, atol=1e-8)
    group = np.arange(10) % 2 == 1
    first = components[:, 0] * np.sign(components[group, 0].sum())
    assert first[group].min() > first[~group].max()  # the first component separates the groups
