"""
Time series without tuning
==========================

:class:`~mercer.FisherEnsemble` takes series of different lengths, with gaps, as they
are. It is the mean of kernels that look at the levels of the series, at their shapes,
and at the order of events. Here the first two classes differ in the direction of time,
the first and the last in the level.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

# %%
# Chirps of 40 to 80 steps that start slowly, the same ones backward, and the first ones
# on a higher level. One value in ten is missing.

rng = np.random.default_rng(0)
names = ["slow to fast", "fast to slow", "higher"]


def chirp(label):
    """Draw one series."""
    n = rng.integers(40, 80)
    wave = np.sin(np.linspace(0, rng.uniform(3.5, 4.5), n) ** 2)
    x = (
        wave[:: -1 if label == 1 else 1]
        + 0.4 * rng.normal(size=n)
        + rng.normal(scale=0.3)
        + (label == 2)
    )
    x[rng.random(n) < 0.1] = np.nan
    return x


y = np.arange(90) % 3
X = [chirp(label) for label in y]
train, test = slice(0, 45), slice(45, 90)

figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained", sharey=True)
figure.suptitle("three series of each class")
for label, axis in enumerate(axes):
    for i in np.flatnonzero(y == label)[:3]:
        axis.plot(X[i], linewidth=1)
    axis.set(title=names[label], xlabel="step")

# %%
# All parts together, and some by themselves.

ensembles = {
    "all": mc.FisherEnsemble(),
    "windows": mc.FisherEnsemble(n_states=()),
    "shapes of windows": mc.FisherEnsemble(n_states=(), windows=("shape",)),
    "hidden Markov models": mc.FisherEnsemble(windows=()),
}
for name, kernel in ensembles.items():
    classifier = make_pipeline(kernel, SVC(kernel="precomputed", C=10))
    classifier.fit(X[train], y[train])
    print(f"{name:22} {classifier.score(X[test], y[test]):.2f}")

# %%
# Shapes by themselves cannot tell two series that differ in their level. The Gram
# matrix shows all three classes.

ax = mc.plot.gram(ensembles["all"].fit_transform(X), y)
ax.set_title("Gram matrix of all parts")
plt.show()
