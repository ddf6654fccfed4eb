"""Draw the picture of the README: data, models, kernel, classifier. Run: python docs/_static/make_overview.py."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import make_point_sets

COLORS = np.array(["#1f6fb2", "#d9622b"])


def main() -> None:
    sets, y = make_point_sets(60, size=(8, 30), elongation=4.0, random_state=0)
    model = mc.Gaussian(prior="pooled")
    kernel = mc.ProbabilityProduct(model)
    gaussians = model.fit_each(sets)
    K = kernel(sets)
    accuracy = cross_val_score(make_pipeline(kernel, SVC(kernel="precomputed")), sets, y).mean()

    figure, axes = plt.subplots(1, 4, figsize=(12, 3.1), layout="constrained")
    data, models, gram, plane = axes
    for i in range(4):
        data.scatter(*sets[i].T, s=9, color=COLORS[y[i]], alpha=0.8, marker="os^D"[i], linewidths=0)
    for i in range(24):
        draw_ellipse(models, gaussians.mean[i], gaussians.covariance[i], COLORS[y[i]])
    for axis in (data, models):
        axis.set(xlim=(-4.6, 4.6), ylim=(-4.6, 4.6), aspect="equal")
    order = np.argsort(y, kind="stable")
    gram.imshow(K[np.ix_(order, order)], cmap="viridis", interpolation="nearest")
    z = KernelPCA(2, kernel="precomputed").fit_transform(K)
    plane.scatter(*z.T, s=16, color=COLORS[y], linewidths=0)
    plane.set_aspect("equal", adjustable="datalim")

    last = f"4  scikit-learn\nkernel PCA; SVM accuracy {accuracy:.2f}"
    titles = ("1  data\nsets of points", "2  model\na Gaussian for each", "3  kernel\ntheir Gram matrix", last)
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xticks=[], yticks=[])
        axis.set_title(title, fontsize=11)
    figure.savefig(Path(__file__).with_name("overview.png"), dpi=130)


def draw_ellipse(axis: plt.Axes, mean: np.ndarray, covariance: np.ndarray, color: str) -> None:
    values, vectors = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(*vectors[::-1, 1]))
    width, height = 2 * np.sqrt(values[::-1])
    axis.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, edgecolor=color, linewidth=1, alpha=0.7))


if __name__ == "__main__":
    main()
