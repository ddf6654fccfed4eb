"""
Kernel PCA of time series
=========================

Series of different lengths have no common coordinates. A kernel provides them: in the
first two kernel principal components, similar series are close to each other.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.datasets import make_hmm_sequences

# %%
# Ninety series of 30 to 90 steps, in three classes. All of them visit the same three
# locations equally often. The class determines the next location: stay, move one ahead,
# or move two ahead. The figure shows the beginning of one series per class:

series, y = make_hmm_sequences(
    90, n_classes=3, n_features=2, certainty=0.7, noise=0.25, random_state=0
)

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
figure.suptitle("the beginning of one series of each class")
for c, axis in enumerate(axes):
    axis.plot(series[c][:30], marker=".")
    axis.set(title=f"class {c}", xlabel="time")
plt.show()

# %%
# A kernel on single points sees the three locations but not the classes. Kernels of
# hidden Markov models see the order in time.

X = mc.PerStep(StandardScaler()).fit_transform(series)
kernels = {
    "EmpiricalMeanMap: the points": mc.EmpiricalMeanMap(),
    "ProbabilityProduct: one model per series": mc.ProbabilityProduct(
        mc.HMM(n_states=3, prior_strength=5), length=10
    ),
    "Fisher: one model for all": mc.Fisher(mc.HMM(n_states=3), information="diagonal"),
}
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
figure.suptitle("kernel PCA under three kernels")
for axis, (name, kernel) in zip(axes, kernels.items(), strict=True):
    mc.plot.kernel_pca(kernel, X, y, ax=axis)
    axis.set_title(name, fontsize=10)
plt.show()

# %%
# If ``y`` contains numbers instead of classes, they are drawn on a color scale. The
# components should *not* depend on the length of a series: these kernels are
# normalized, and the lengths are scattered.

K = kernels["Fisher: one model for all"].fit_transform(X)
ax = mc.plot.kernel_pca(K, y=X.lengths.astype(float))
ax.set_title("the same Fisher kernel, colored by length")
plt.show()

# %%
# How well each kernel separates the classes, without a classifier:

for name, kernel in kernels.items():
    found = mc.gram.diagnose(kernel.fit_transform(X), y)
    rank = found.effective_rank
    print(f"{name:34} alignment {found.alignment:.2f}, effective rank {rank:.1f}")
