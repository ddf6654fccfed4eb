"""
Kernel PCA of point sets
========================

A sample need not be a vector. Here it is a set of 10 to 40 points in the plane. The
three classes have the same mean and the same total variance; they differ in the
direction in which the points spread. Kernel PCA shows the sets in two dimensions.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import make_point_sets

sets, labels = make_point_sets(120, size=(10, 40), n_classes=3, random_state=0)

figure, axes = plt.subplots(
    1, 3, figsize=(9, 3), layout="constrained", sharex=True, sharey=True
)
for c, axis in enumerate(axes):
    for points in sets[c::3][:3]:
        axis.scatter(*points.T, s=10)
    axis.set(title=f"three sets of class {c}", aspect="equal", xticks=[], yticks=[])
plt.show()

# %%
# Four kernels on the same sets. ``EmpiricalMeanMap`` compares the points themselves.
# ``MeanMap`` and ``ProbabilityProduct`` first fit a Gaussian to each set. The last one
# uses only the mean of each set, as one would without kernels on sets.

means = np.stack([points.mean(axis=0) for points in sets])
views = {
    "EmpiricalMeanMap": (mc.EmpiricalMeanMap(gamma=0.2), sets),
    "MeanMap(Gaussian)": (mc.MeanMap(mc.Gaussian(), gamma=0.2), sets),
    "ProbabilityProduct(Gaussian)": (
        mc.ProbabilityProduct(mc.Gaussian(prior="pooled")),
        sets,
    ),
    "RBF of the means": (mc.RBF(gamma=0.5), means),
}

figure, axes = plt.subplots(1, 4, figsize=(12, 3.3), layout="constrained")
for axis, (name, (kernel, data)) in zip(axes, views.items(), strict=True):
    z = make_pipeline(kernel, KernelPCA(2, kernel="precomputed")).fit_transform(data)
    classifier = make_pipeline(kernel, SVC(kernel="precomputed"))
    accuracy = cross_val_score(classifier, data, labels).mean()
    axis.scatter(*z.T, c=labels, s=14, cmap="viridis")
    axis.set(title=f"{name}\nSVM accuracy {accuracy:.2f}", xticks=[], yticks=[])
plt.show()

# %%
# The means carry little information. The alignment of each Gram matrix with the labels
# shows the same without a classifier.

for name, (kernel, data) in views.items():
    found = mc.gram.diagnose(kernel(data), labels)
    rank = found.effective_rank
    print(f"{name:30} alignment {found.alignment:.2f}, effective rank {rank:.1f}")
