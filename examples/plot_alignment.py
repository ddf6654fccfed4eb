"""
What was aligned
================

Two proteins that descend from one ancestor have residues in common, at places that have moved. A pair hidden Markov
model says which residues were one, and its kernel sums over all such alignments.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer as mc
from mercer.datasets import make_families

# %%
# Three families of made proteins. Every member descends from its family's ancestor: some residues were lost, a third of
# the others were drawn anew, and a few were inserted somewhere.

strings, number = make_families(36, length=45, mutation=0.35, random_state=3)
proteins = mc.Sequences(strings, alphabet="protein")
family = np.array(["A", "B", "C"])[number]

# %%
# The model has the parameters of any alignment program: a matrix of substitutions and the costs of gaps in its units.
# Here a match scores 4 and all else -1, so that nothing has to be installed; ``"BLOSUM62"`` is the usual choice for
# proteins. The probability that two residues were matched is summed over all alignments, and the line is the alignment
# of the largest expected accuracy. Colour off the line is doubt.

pairs = mc.AffinePairHMM((4, -1), gap_open=11, gap_extend=1, scale=np.log(2) / 2)
model = pairs.fit(proteins).model_
relatives, strangers = model.matches(proteins[0], proteins[3]), model.matches(proteins[0], proteins[1])
print(relatives)

figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
for axis, matches, title in zip(axes, (relatives, strangers), ("relatives", "strangers"), strict=True):
    mc.plot.matches(matches, ax=axis)
    axis.set_title(f"{title}: {matches.expected:.0f} matches expected", fontsize=10)
    axis.tick_params(labelsize=6)
plt.show()

# %%
# The kernel is the probability of both strings, and every string is so much more probable beside itself than beside a
# relative that the normalised Gram matrix is the identity. What it knows is in the logarithms:
# :class:`mercer.EmpiricalMap` describes a string by its log kernels with all others, and the families appear.

kernel = mc.Marginalization(pairs)
matrices = {
    "Marginalization": kernel.fit_transform(proteins),
    "its logarithm": kernel.fit(proteins).log(proteins),
    "EmpiricalMap(Marginalization)": mc.EmpiricalMap(kernel).fit_transform(proteins),
}
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for axis, (name, K) in zip(axes, matrices.items(), strict=True):
    mc.plot.gram(K, family, ax=axis)
    axis.set_title(name, fontsize=10)
plt.show()
