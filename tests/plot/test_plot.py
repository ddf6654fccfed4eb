"""What the pictures show: order, borders, labels, points, shares, bands; and what is refused."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from sklearn.decomposition import KernelPCA

import mercer as mc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from mercer import plot


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def points(n=12, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


def matrix(n=12):
    return mc.RBF(gamma=0.2)(points(n))


@pytest.mark.slow
def test_import_is_lazy():
    code = "import sys, mercer, mercer.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestGram:
    def test_sorted_by_class(self):
        K, y = matrix(), np.array(list("bacbacbacbcc"))
        ax = plot.gram(K, y)
        order = np.argsort(y, kind="stable")
        np.testing.assert_array_equal(ax.images[0].get_array(), K[np.ix_(order, order)])
        assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
        assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "c"]
        # 3 a, 4 b, 5 c: middles of the blocks, and lines between them
        assert ax.get_yticks().tolist() == [1.0, 4.5, 9.0]
        lines = [line.get_ydata()[0] for line in ax.lines if line.get_ydata()[0] == line.get_ydata()[1]]
        assert lines == [2.5, 6.5]
        assert len(ax.lines) == 4

    def test_without_classes_in_given_axes(self):
        _, ax = plt.subplots()
        assert plot.gram(matrix(), ax=ax) is ax
        np.testing.assert_array_equal(ax.images[0].get_array(), matrix())
        assert not ax.lines

    def test_logarithms(self):
        K = np.array([[1.0, 0.0], [0.0, 1e-4]])
        shown = plot.gram(K, log=True).images[0].get_array()
        np.testing.assert_allclose(shown.compressed(), [0.0, -4.0], atol=1e-12)
        assert shown.mask.tolist() == [[False, True], [True, False]]
        with pytest.raises(ValueError, match=r"got -0.5. Pass log=False"):
            plot.gram([[1.0, -0.5], [-0.5, 1.0]], log=True)
        with pytest.raises(ValueError, match=r"all entries are 0. Pass log=False"):
            plot.gram(np.zeros((2, 2)), log=True)


class TestKernelPCA:
    def test_coordinates_are_kernel_pca(self):
        K, y = matrix(), np.array([0, 1, 2] * 4)
        ax = plot.kernel_pca(K, y=y)
        assert [len(c.get_offsets()) for c in ax.collections] == [4, 4, 4]
        expected = KernelPCA(2, kernel="precomputed").fit_transform(K)
        for label, drawn in enumerate(ax.collections):
            np.testing.assert_allclose(np.abs(drawn.get_offsets()), np.abs(expected[y == label]), atol=1e-8)
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["0", "1", "2"]
        centred = np.linalg.eigvalsh(mc.Centered(mc.RBF(gamma=0.2)).fit_transform(points()))[::-1]
        assert ax.get_xlabel() == f"component 1 ({centred[0] / centred.sum():.0%})"
        assert ax.get_ylabel() == f"component 2 ({centred[1] / centred.sum():.0%})"
        colors = {tuple(c.get_facecolor()[0]) for c in ax.collections}
        assert len(colors) == 3

    def test_the_legend_hides_no_point(self):
        ax = plot.kernel_pca(matrix(), np.arange(12) % 4)
        ax.figure.canvas.draw()
        assert ax.get_legend().get_window_extent().ymin >= ax.get_window_extent().ymax

    def test_a_kernel_and_its_data(self):
        a = plot.kernel_pca(mc.RBF(gamma=0.2), points()).collections[0].get_offsets()
        b = plot.kernel_pca(matrix()).collections[0].get_offsets()
        np.testing.assert_allclose(a, b, atol=1e-8)
        shades = plot.kernel_pca(matrix(), y=np.linspace(0, 1, 12)).collections[0].get_array()
        np.testing.assert_allclose(shades, np.linspace(0, 1, 12))
        labelled = plot.kernel_pca(matrix(), ["a", "b"] * 6)  # as in gram(K, y)
        assert [t.get_text() for t in labelled.get_legend().get_texts()] == ["a", "b"]
        many = plot.kernel_pca(matrix(), y=np.arange(12))  # more classes than colours: markers tell them apart
        looks = {(*c.get_facecolor()[0], c.get_paths()[0].vertices.tobytes()) for c in many.collections}
        assert len(looks) == 12

    def test_the_kernel_stays_as_it_was(self):
        kernel = mc.RBF(gamma=0.2)
        plot.kernel_pca(kernel, points())
        assert not hasattr(kernel, "train_")

    def test_refused(self):
        with pytest.raises(ValueError, match=r"pass kernel_pca\(kernel, X\)"):
            plot.kernel_pca(mc.RBF())
        for more in ((points(),), (points(), np.arange(12)), (np.arange(12), np.arange(12))):
            with pytest.raises(ValueError, match=r"pass kernel_pca\(K, labels\)"):
                plot.kernel_pca(matrix(), *more)
        with pytest.raises(ValueError, match="at least 3 objects; got 2"):
            plot.kernel_pca(np.eye(2))
        with pytest.raises(ValueError, match="All objects are identical to this kernel"):
            plot.kernel_pca(np.ones((4, 4)))


class TestErrorOverLength:
    def test_mean_and_band(self):
        errors = np.array([[0.3, 0.5], [0.1, 0.1], [0.2, 0.4]])
        ax = plot.error_over_length([100, 1, 10], errors, baselines={"chance": 0.5, "length only": 0.45}, label="PPK")
        curve = ax.lines[0]
        assert curve.get_xdata().tolist() == [1, 10, 100]
        np.testing.assert_allclose(curve.get_ydata(), [0.1, 0.3, 0.4])
        band = ax.collections[0].get_paths()[0].vertices
        np.testing.assert_allclose([band[:, 1].min(), band[:, 1].max()], [0.1, 0.5], atol=1e-12)
        assert [line.get_ydata()[0] for line in ax.lines[1:]] == [0.5, 0.45]
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["PPK", "chance", "length only"]
        assert ax.get_xscale() == "log"
        assert ax.get_ylim()[0] == 0

    def test_a_second_curve_and_a_narrow_range(self):
        ax = plot.error_over_length([1, 2, 3], [0.3, 0.2, 0.1])
        plot.error_over_length([1, 2, 3], [0.5, 0.2, 0.1], ax=ax)
        assert ax.get_xscale() == "linear"
        assert not ax.collections
        assert ax.lines[0].get_color() != ax.lines[1].get_color()
        ax.figure.canvas.draw()
        assert ax.get_ylim()[0] == 0
        assert ax.get_ylim()[1] > 0.5  # nothing is cut off

    def test_refused(self):
        with pytest.raises(ValueError, match=r"lengths of shape \(2,\) and errors of shape \(3,\)"):
            plot.error_over_length([1, 2], [0.1, 0.2, 0.3])
        with pytest.raises(ValueError, match="finite; got nan at length 2"):
            plot.error_over_length([1, 2], [[0.1, 0.2], [0.3, np.nan]])
        with pytest.raises(ValueError, match="lengths must be positive; got 0"):
            plot.error_over_length([0, 2], [0.1, 0.2])


class TestSpectrum:
    def test_eigenvalues(self):
        K = matrix()
        values = np.linalg.eigvalsh(K)[::-1]
        np.testing.assert_allclose(plot.spectrum(K).lines[0].get_ydata(), values / values[0], rtol=1e-9)

    def test_negative_ones_are_marked(self):
        ax = plot.spectrum(np.array([[1.0, 2.0], [2.0, 1.0]]))
        np.testing.assert_allclose(ax.lines[0].get_ydata(), [1.0])
        np.testing.assert_allclose(ax.lines[1].get_ydata(), [1 / 3])
        assert ax.get_legend().get_texts()[0].get_text() == "negative"
        with pytest.raises(ValueError, match="nonzero eigenvalue; all are 0"):
            plot.spectrum(np.zeros((2, 2)))


class TestDiagnosis:
    def test_pairs_are_counted(self):
        y = np.arange(12) % 3
        ax = plot.diagnosis(3.0 * matrix(), y)
        counts = [sum(bar.get_height() for bar in group) for group in ax.containers]
        assert counts == [18, 48]  # 3 classes of 4: 3 * 6 pairs within, 66 in all
        off = matrix()[np.triu_indices(12, 1)]
        assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([1e-3, np.median(off)])
        assert ax.get_xlabel() == "normalized kernel"

    def test_a_dominated_matrix_in_logarithms(self):
        K = matrix() ** 40
        ax = plot.diagnosis(K)
        assert sum(bar.get_height() for bar in ax.patches) == 66
        off = np.median(K[np.triu_indices(12, 1)])
        assert off < 1e-3
        assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([-3, np.log10(off)])
        assert ax.get_xlabel() == "log10 of the normalized kernel"

    def test_signed_and_zero(self):
        signed = plot.diagnosis(mc.Linear()(points()))
        assert signed.get_xlabel() == "normalized kernel"
        assert sum(bar.get_height() for bar in signed.patches) == 66
        zeros = plot.diagnosis(np.eye(5))
        assert zeros.patches[0].get_height() == 10
        with pytest.raises(ValueError, match="positive diagonal; got 2 with smallest diagonal entry 0"):
            plot.diagnosis(np.diag([1.0, 0.0]))


@pytest.mark.parametrize("draw", [plot.gram, plot.kernel_pca, plot.spectrum, plot.diagnosis])
def test_what_is_no_gram_matrix(draw):
    for K, sentence in (
        (np.ones((2, 3)), r"must be a square matrix; got shape \(2, 3\)"),
        ([[1.0, np.nan], [np.nan, 1.0]], r"must be finite; got nan at \(0, 1\)"),
        ([[1.0, 2.0], [0.0, 1.0]], "must be symmetric; got 2 "),
    ):
        with pytest.raises(ValueError, match=sentence):
            draw(K)
    if draw is not plot.spectrum:
        with pytest.raises(ValueError, match=r"must have shape \(12,\), .* got shape \(3,\)"):
            draw(matrix(), y=[0, 1, 2])
        for none in ([None] * 12, ["a", None] + ["b"] * 10):
            with pytest.raises(ValueError, match=r"got None for object \d. Drop that object, or omit the labels"):
                draw(matrix(), y=none)
        with pytest.raises(ValueError, match=r"must be finite; got nan for object 1. Drop that object"):
            draw(matrix(), y=[0.0, np.nan] * 6)
    assert not plt.get_fignums()  # nothing is left open


@pytest.mark.parametrize("use", [plot.gram, plot.spectrum, plot.diagnosis, mc.gram.diagnose, mc.gram.psd.check])
def test_a_kernel_in_place_of_its_matrix(use):
    with pytest.raises(TypeError, match=r"got the kernel RBF. Pass kernel\(X\)"):
        use(mc.RBF())


def test_matplotlib_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="requires matplotlib; run pip install matplotlib"):
        plot.gram(matrix())
