"""
How long should the sequences be?
=================================

A hidden Markov model defines a distribution only for a fixed sequence length, so the
kernels between HMMs have a parameter ``length``. It determines how sharp the kernel is.
If it is too long, each model is similar only to itself: the matrix is correct to 12
digits and useless.
"""

# sphinx_gallery_thumbnail_number = 2
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

# %%
# Sixty given models with three states over the letters of DNA. The class determines how
# long the states last: models of class 1 stay longer. The emissions are noisy and have
# the same distribution in both classes.

rng = np.random.default_rng(0)
n_models, n_states = 60, 3
labels = np.arange(n_models) % 2
stay = rng.uniform(0.3, 0.6, n_models) + 0.25 * labels
leave = rng.dirichlet(np.ones(n_states), size=(n_models, n_states))
transition = stay[:, None, None] * np.eye(n_states) + (1 - stay[:, None, None]) * leave
noise = rng.dirichlet(np.ones(4), size=(n_models, n_states))
emission = 0.7 * np.eye(4)[:n_states] + 0.3 * noise
models = mc.HMMs(
    initial=np.full((n_models, n_states), 1 / n_states),
    transition=transition,
    emission=mc.Categoricals(emission, alphabet="dna"),
)

# %%
# The probability product kernel over sequences of 1 to 1000 letters: ``path`` computes
# all matrices in one pass over the longest. The figure shows three of them with their
# diagnosis. ``diagnose`` warns if a matrix is diagonally dominant, which is expected
# here.

lengths = (1, 3, 10, 30, 100, 300, 1000)
path = mc.ProbabilityProduct(rho=1.0).path(models, lengths=lengths)
matrices = dict(zip(lengths, path, strict=True))
warnings.simplefilter("ignore", mc.gram.DiagonalDominanceWarning)
for length, K in matrices.items():
    found = mc.gram.diagnose(K, labels)
    print(
        f"length {length:4}: median {found.off_diagonal[0.5]:.1e}, "
        f"effective rank {found.effective_rank:4.1f}"
    )

figure, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained")
figure.suptitle("Gram matrices and kernel values for three lengths")
for column, length in zip(axes.T, (3, 30, 300), strict=True):
    mc.plot.gram(matrices[length], labels, ax=column[0])
    mc.plot.diagnosis(matrices[length], labels, ax=column[1])
    column[0].set_title(f"length {length}")
plt.show()

# %%
# At 300 letters the off-diagonal values have vanished. They are still informative,
# though: 1e-9 and 1e-40 are both negligible compared with 1, but their logarithms
# differ. ``EmpiricalKernelMap`` describes each model by the *logarithms* of its kernels
# with the training models, and compares these descriptions. ``Discounted`` is the third
# way: instead of one length, it sums over all lengths with decreasing weights.


def errors(kernel):
    return 1 - cross_val_score(
        make_pipeline(kernel, SVC(kernel="precomputed")), models, labels
    )


plain = [errors(mc.ProbabilityProduct(rho=1.0, length=length)) for length in lengths]
mapped = [
    errors(mc.EmpiricalKernelMap(mc.ProbabilityProduct(rho=1.0, length=length)))
    for length in lengths
]
free = errors(mc.ProbabilityProduct(rho=1.0, length=mc.Discounted(0.9))).mean()

ax = mc.plot.error_over_length(lengths, plain, label="ProbabilityProduct")
mc.plot.error_over_length(
    lengths,
    mapped,
    ax=ax,
    label="EmpiricalKernelMap",
    baselines={"Discounted(0.9)": free},
)
ax.set_title("test error over the length of the compared sequences")
plt.show()

# %%
# So there are three remedies: a length of about 10, found by cross-validation like any
# other parameter; the empirical map, which does not depend on the length; or a
# discounted sum. ``prior="pooled"`` is the fourth, for models that are fitted to single
# sequences: see :ref:`sphx_glr_gallery_series_plot_error_over_length.py`.
