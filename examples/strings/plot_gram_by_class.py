"""
What a Gram matrix shows
========================

A kernel is useful for a classifier if samples of the same class are more similar to
each other than to samples of other classes. You can check this before you train a
classifier: sort the Gram matrix by class and look for blocks.
"""

import matplotlib.pyplot as plt

import mercer as mc
from mercer.datasets import make_dna

# %%
# Ninety strings of DNA, 60 to 120 letters each, from three Markov chains. Four kernels:
# k-mers of three letters, the Fisher scores of one chain that all strings share, the
# overlap of chains fitted to each string, and the overlap of letter frequencies, which
# ignores order.

strings, y = make_dna(
    90, n_classes=3, length=(60, 120), concentration=4.0, random_state=0
)
kernels = {
    "Spectrum(3)": mc.Spectrum(k=3, alphabet="dna"),
    "Fisher(MarkovChain)": mc.Fisher(mc.MarkovChain(order=1, alphabet="dna")),
    "ProbabilityProduct(MarkovChain)": mc.ProbabilityProduct(
        mc.MarkovChain(order=1, alphabet="dna"), length=20
    ),
    "ProbabilityProduct(Categorical)": mc.ProbabilityProduct(
        mc.Categorical(alphabet="dna")
    ),
}
matrices = {name: kernel.fit_transform(strings) for name, kernel in kernels.items()}

figure, axes = plt.subplots(2, 2, figsize=(8.5, 7.5), layout="constrained")
figure.suptitle("Gram matrices of three classes under four kernels")
for axis, (name, K) in zip(axes.flat, matrices.items(), strict=True):
    mc.plot.gram(K, y, ax=axis)
    axis.set_title(name, fontsize=10)
plt.show()

# %%
# The values of all pairs, within a class and between classes. The farther apart the two
# histograms, the easier the task; the alignment summarizes this in one number. The
# solid line is the median; a median to the left of the dotted line would mean that each
# string is similar only to itself.

figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
figure.suptitle("kernel values of pairs, within and between classes")
for axis, (name, K) in zip(axes.flat, matrices.items(), strict=True):
    mc.plot.diagnosis(K, y, ax=axis)
    found = mc.gram.diagnose(K, y)
    axis.set_title(f"{name}\nalignment {found.alignment:.2f}", fontsize=10)
plt.show()

# %%
# Fisher scores can point in opposite directions, so their kernel is negative between
# dissimilar strings. Letter frequencies are almost the same for all strings, so all
# strings look alike. :class:`mercer.Centered` would show the small differences that are
# left.
