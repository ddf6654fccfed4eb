"""Draw the picture of the README: data, a model, a kernel, classes; and again for narrow screens, two by two.

Run: python docs/_static/make_overview.py.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse, FancyArrowPatch
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import make_hmm_sequences

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures import shrink

COLORS = np.array(["#0072B2", "#D55E00"])  # safe for color blindness
GRAY = "#555555"


def main() -> None:
    series, y = make_hmm_sequences(60, n_features=2, length=(20, 60), random_state=0)
    kernel = mc.FisherEnsemble()
    accuracy = cross_val_score(make_pipeline(kernel, SVC(kernel="precomputed", C=10)), series, y).mean()
    K = kernel.fit_transform(series)

    plt.rcParams.update({"font.size": 12})
    for name, shape, size in (("overview", (1, 4), (12.4, 3.5)), ("overview_narrow", (2, 2), (6.2, 6.6))):
        figure, axes = plt.subplots(*shape, figsize=size, layout="constrained")
        draw(axes.ravel(), series, y, K, accuracy)
        target = Path(__file__).with_name(f"{name}.png")
        figure.savefig(target, dpi=130)
        shrink(target, target)


def draw(axes: np.ndarray, series: list[np.ndarray], y: np.ndarray, K: np.ndarray, accuracy: float) -> None:
    """Draw the four panels: data, model, Gram matrix, kernel PCA."""
    draw_series(axes[0], series, y)
    draw_model(axes[1], series)
    order = np.argsort(y, kind="stable")
    others = K[~np.eye(len(K), dtype=bool)]  # the diagonal is 1, far above the rest
    low, high = np.quantile(others, (0.02, 0.98))
    axes[2].imshow(K[np.ix_(order, order)], cmap="viridis", vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    z = KernelPCA(2, kernel="precomputed").fit_transform(K)
    for label, marker in enumerate("os"):
        axes[3].scatter(*z[y == label].T, s=26, color=COLORS[label], marker=marker, alpha=0.85, linewidths=0)

    last = f"4  scikit-learn\nkernel PCA; SVM accuracy {accuracy:.2f}"
    titles = ("1  your data\nseries of different lengths", "2  a generative model\nthat all series share",
              "3  a kernel\nsimilarity of all pairs", last)  # fmt: skip
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xticks=[], yticks=[])
        axis.set_title(title, fontsize=13)
        for side in axis.spines.values():
            side.set_color("#bbbbbb")


def draw_series(axis: plt.Axes, series: list[np.ndarray], y: np.ndarray) -> None:
    """Draw the first channel of three series per class, one above the other."""
    chosen = [*np.flatnonzero(y == 0)[:3], *np.flatnonzero(y == 1)[:3]]
    for row, i in enumerate(chosen):
        x = series[i][:, 0]
        axis.plot(0.36 * (x - x.mean()) / x.std() - 1.6 * row, color=COLORS[y[i]], linewidth=1.5)
    axis.margins(0.04, 0.06)


def draw_model(axis: plt.Axes, series: list[np.ndarray]) -> None:
    """Draw the states of a hidden Markov model as ellipses, and its transitions as arrows."""
    model = mc.HMM(3, random_state=0).fit(series).model_
    transition = np.asarray(model.transition).reshape(3, 3)
    mean = np.asarray(model.emission.mean).reshape(3, 2)
    variance = np.asarray(model.emission.covariance).reshape(3, 2)  # diagonal
    points = np.concatenate(series)
    axis.scatter(*points.T, s=2, color="#777777", alpha=0.5, linewidths=0)
    for i in range(3):
        width, height = 3.4 * np.sqrt(variance[i])
        shape = {"facecolor": "#ffffffa0", "edgecolor": "black", "linewidth": 1.6}
        axis.add_patch(Ellipse(mean[i], width, height, zorder=3, **shape))
        axis.annotate(f"state {i + 1}", mean[i], ha="center", va="center", fontsize=10, zorder=5)
        for j in range(3):
            if i != j:
                style = {"arrowstyle": "-|>", "mutation_scale": 13, "connectionstyle": "arc3,rad=0.22"}
                arrow = FancyArrowPatch(mean[i], mean[j], shrinkA=26, shrinkB=26, color=GRAY, zorder=4, **style)
                arrow.set_linewidth(0.6 + 5 * transition[i, j])
                axis.add_patch(arrow)
    low, high = np.quantile(points, (0.01, 0.99), axis=0)
    pad = 0.12 * (high - low)
    axis.set(xlim=(low[0] - pad[0], high[0] + pad[0]), ylim=(low[1] - pad[1], high[1] + pad[1]))


if __name__ == "__main__":
    main()
