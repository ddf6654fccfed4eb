"""
Alignments under a pair HMM
===========================

Two proteins with a common ancestor share residues, at shifted positions. A pair hidden
Markov model gives the probability that two residues have the same origin, and its
kernel sums over all alignments.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc
from mercer.datasets import make_families

# %%
# Generate three families of proteins. Each member descends from the ancestor of its
# family: some residues were deleted, a third of the others were redrawn at random, and
# a few were inserted somewhere.

strings, number = make_families(36, length=45, mutation=0.35, random_state=3)
proteins = mc.Sequences(strings, alphabet="protein")
family = np.array(["A", "B", "C"])[number]

# %%
# The model has the parameters of any alignment program: a substitution matrix, and gap
# costs in the same units. Here a match scores 4 and a mismatch -1, so that no other
# package is needed; ``"BLOSUM62"`` is the usual choice for proteins. The probability
# that two residues are matched is summed over all alignments, and the line is the
# alignment with the largest expected accuracy. Color away from the line shows
# uncertainty.

pairs = mc.AffinePairHMM((4, -1), gap_open=11, gap_extend=1, matrix_scale=np.log(2) / 2)
model = pairs.fit(proteins).model_
relatives = model.matches(proteins[0], proteins[3])
strangers = model.matches(proteins[0], proteins[1])
print(relatives)

figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
figure.suptitle("probability that two residues match")
for axis, matches, title in zip(
    axes, (relatives, strangers), ("same family", "different families"), strict=True
):
    mc.plot.matches(matches, ax=axis)
    axis.set_title(f"{title}: {matches.expected:.0f} matches expected", fontsize=10)
    axis.tick_params(labelsize=6)
plt.show()

# %%
# The kernel is the joint probability of both strings. The self-kernels are so much
# larger than the kernel between relatives that the normalized Gram matrix is the
# identity. The information is in the logarithms: :class:`mercer.EmpiricalKernelMap`
# describes a string by its log kernels with all training strings, and the families
# appear.

kernel = mc.Marginalization(pairs)
matrices = {
    "Marginalization": kernel.fit_transform(proteins),
    "its logarithm": kernel.fit(proteins).log(proteins),
    "EmpiricalKernelMap(Marginalization)": mc.EmpiricalKernelMap(kernel).fit_transform(
        proteins
    ),
}
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
figure.suptitle("Gram matrices, sorted by family")
for axis, (name, K) in zip(axes, matrices.items(), strict=True):
    mc.plot.gram(K, family, ax=axis)
    axis.set_title(name, fontsize=10)
plt.show()
