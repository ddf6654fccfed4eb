"""
How long should the sequences be?
=================================

A hidden Markov model is no distribution until the length of its sequences is fixed, so the kernels between HMMs have a
parameter ``length``. It decides how sharp the kernel is. Too long, and every model resembles itself alone: the matrix
is right to 12 digits and useless.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

# %%
# Sixty given models with three states over the letters of DNA. The class decides how sticky the states are: models of
# class 1 stay longer. The emissions are noisy and the same in distribution for both classes.

rng = np.random.default_rng(0)
n_models, n_states = 60, 3
labels = np.arange(n_models) % 2
stay = rng.uniform(0.3, 0.6, n_models) + 0.25 * labels
leave = rng.dirichlet(np.ones(n_states), size=(n_models, n_states))
transition = stay[:, None, None] * np.eye(n_states) + (1 - stay[:, None, None]) * leave
emission = 0.7 * np.eye(4)[:n_states] + 0.3 * rng.dirichlet(np.ones(4), size=(n_models, n_states))
models = mc.HMMs(
    initial=np.full((n_models, n_states), 1 / n_states),
    transition=transition,
    emission=mc.Categoricals(emission, alphabet="dna"),
)

# %%
# The probability product kernel over sequences of 1 to 1000 letters, and what the diagnosis says of each matrix.

lengths = (1, 3, 10, 30, 100, 300, 1000)
shown = (3, 30, 300)
medians, accuracies = [], []
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
order = np.argsort(labels, kind="stable")
for length in lengths:
    kernel = mc.ProbabilityProduct(rho=1.0, length=length)
    K = kernel(models)
    found = mc.gram.diagnose(K, labels)
    medians.append(found.off_diagonal[0.5])
    accuracies.append(cross_val_score(make_pipeline(kernel, SVC(kernel="precomputed")), models, labels).mean())
    print(f"length {length:4}: median {medians[-1]:.1e}, effective rank {found.effective_rank:4.1f}. {found.advice}")
    if length in shown:
        axis = axes[shown.index(length)]
        axis.imshow(K[np.ix_(order, order)], vmin=0, vmax=1)
        axis.set(title=f"length {length}", xticks=[], yticks=[])
plt.show()

# %%
# At 300 letters the off-diagonal has vanished. It has not lost its information, though: 1e-9 and 1e-40 are both nothing
# beside 1, but they differ. ``EmpiricalMap`` describes every model by the *logarithms* of its kernels with the training
# models, and compares descriptions.

mapped = []
for length in lengths:
    kernel = mc.EmpiricalMap(mc.ProbabilityProduct(rho=1.0, length=length))
    mapped.append(cross_val_score(make_pipeline(kernel, SVC(kernel="precomputed")), models, labels).mean())

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.loglog(lengths, medians, marker="o")
left.axhline(1e-3, color="gray", linestyle=":")
left.set(xlabel="length", ylabel="median off-diagonal kernel", title="diagonal dominance")
right.semilogx(lengths, accuracies, marker="o", label="ProbabilityProduct")
right.semilogx(lengths, mapped, marker="s", label="EmpiricalMap of it")
right.set(xlabel="length", ylabel="accuracy of an SVM", title="5-fold cross-validation", ylim=(0.4, 1.02))
right.legend(frameon=False)
plt.show()

# %%
# Two cures, then: a length of about 10, found by cross-validation like any other parameter, or the empirical map, which
# does not care. ``prior="pooled"`` is the third, for models that you fit yourself.
