"""
How long should the sequences be?
=================================

A hidden Markov model is no distribution until the length of its sequences is fixed, so the kernels between HMMs have a
parameter ``length``. It decides how sharp the kernel is. Too long, and every model resembles itself alone: the matrix
is right to 12 digits and useless.
"""

import warnings

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
# The probability product kernel over sequences of 1 to 1000 letters: ``path`` gives all matrices from one sweep over
# the longest. Three of them, with what the diagnosis says of each. It warns where a matrix is diagonally dominant; here
# we want to see it.

lengths = (1, 3, 10, 30, 100, 300, 1000)
matrices = dict(zip(lengths, mc.ProbabilityProduct(rho=1.0).path(models, lengths=lengths), strict=True))
warnings.simplefilter("ignore", mc.gram.DiagonalDominanceWarning)
for length, K in matrices.items():
    found = mc.gram.diagnose(K, labels)
    print(f"length {length:4}: median {found.off_diagonal[0.5]:.1e}, effective rank {found.effective_rank:4.1f}")

figure, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained")
for column, length in zip(axes.T, (3, 30, 300), strict=True):
    mc.plot.gram(matrices[length], labels, ax=column[0])
    mc.plot.diagnosis(matrices[length], labels, ax=column[1])
    column[0].set_title(f"length {length}")
plt.show()

# %%
# At 300 letters the off-diagonal has vanished. It has not lost its information, though: 1e-9 and 1e-40 are both nothing
# beside 1, but they differ. ``EmpiricalKernelMap`` describes every model by the *logarithms* of its kernels with the
# training models, and compares descriptions. ``Discounted`` is the third way: no length at all, but the sum over all
# of them, with weights that fall.


def errors(kernel):
    return 1 - cross_val_score(make_pipeline(kernel, SVC(kernel="precomputed")), models, labels)


plain = [errors(mc.ProbabilityProduct(rho=1.0, length=length)) for length in lengths]
mapped = [errors(mc.EmpiricalKernelMap(mc.ProbabilityProduct(rho=1.0, length=length))) for length in lengths]
free = errors(mc.ProbabilityProduct(rho=1.0, length=mc.Discounted(0.9))).mean()

ax = mc.plot.error_over_length(lengths, plain, label="ProbabilityProduct")
mc.plot.error_over_length(lengths, mapped, ax=ax, label="EmpiricalKernelMap of it", baselines={"Discounted(0.9)": free})
plt.show()

# %%
# Three cures, then: a length of about 10, found by cross-validation like any other parameter; the empirical map, which
# does not care; or a discounted sum. ``prior="pooled"`` is the fourth, for models that are fitted to single sequences:
# see :ref:`sphx_glr_gallery_plot_error_over_length.py`.
