"""
Kernel PCA of time series
=========================

Series of different lengths have no common coordinates. A kernel gives them some: the first two kernel principal
components put similar series side by side.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.datasets import make_hmm_sequences

# %%
# Ninety series of 30 to 90 steps, three classes. All of them visit the same three places equally often. The class
# decides where they go next: stay, one place ahead, or two. The beginning of one series of every class:

series, y = make_hmm_sequences(90, n_classes=3, n_features=2, certainty=0.7, noise=0.25, random_state=0)

figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained", sharey=True)
for c, axis in enumerate(axes):
    axis.plot(series[c][:30], marker=".")
    axis.set(title=f"class {c}", xlabel="time")
plt.show()

# %%
# A kernel on points alone sees three places and no classes. Kernels of hidden Markov models see the order in time.

X = mc.PerStep(StandardScaler()).fit_transform(series)
kernels = {
    "EmpiricalMeanMap: the points": mc.EmpiricalMeanMap(),
    "ProbabilityProduct: a model each": mc.ProbabilityProduct(mc.HMM(n_states=3, prior_strength=5), length=10),
    "Fisher: one model for all": mc.Fisher(mc.HMM(n_states=3), information="diagonal"),
}
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for axis, (name, kernel) in zip(axes, kernels.items(), strict=True):
    mc.plot.kernel_pca(kernel, X, y, ax=axis)
    axis.set_title(name, fontsize=10)
plt.show()

# %%
# Numbers instead of classes are drawn on a colour scale. The length of a series is the first thing that should *not* be
# seen: these kernels are normalised, and the lengths are scattered.

K = kernels["Fisher: one model for all"].fit_transform(X)
ax = mc.plot.kernel_pca(K, y=X.lengths.astype(float))
ax.set_title("the same Fisher kernel, coloured by length")
plt.show()

# %%
# How much of the classes a kernel has found, without a classifier:

for name, kernel in kernels.items():
    found = mc.gram.diagnose(kernel.fit_transform(X), y)
    print(f"{name:34} alignment {found.alignment:.2f}, effective rank {found.effective_rank:.1f}")
