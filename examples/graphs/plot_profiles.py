"""
Phylogenetic profiles and their tree
====================================

The profile of a gene lists the genomes in which it occurs. Genomes have a common
history, so the columns of a table of profiles are not independent: a gene that was lost
once, long ago, is absent from a whole clade. A kernel that sums over the possible
states of the ancestors counts such an event once.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import make_profiles

# %%
# Sixty genes in 48 genomes; half of the entries are missing. There are six classes, and
# the genes of one class share an ancestral history: they were gained and lost together
# on the inner branches of the tree. On the outer branches each gene changes
# independently. Rows are sorted by class; white marks missing values.

profiles = make_profiles(random_state=0)
X, y = profiles.data, profiles.target

figure, axis = plt.subplots(figsize=(8, 3.6), layout="constrained")
axis.imshow(X[np.argsort(y)], aspect="auto", cmap="coolwarm", interpolation="nearest")
axis.set(xlabel="genome, in the order of the tree", ylabel="gene, sorted by class")
axis.set_title("presence (red) and absence (blue) of genes in genomes")
plt.show()

# %%
# The tree is known, in Newick notation. The rates of gain and loss are learned by
# expectation maximization from all training data without their classes; the model sums
# over missing leaves.

tree = mc.HiddenTree(profiles.tree, pruning=0.05).fit(X)
print("rates of gain and loss:", tree.rate_[0, 1].round(2), tree.rate_[1, 0].round(2))
print("after", tree.n_iter_, "iterations")

# %%
# Two genes are compared by the probability that one history of ancestors generated both
# (``pruning``: they may separate on the way down). With many leaves the kernel is close
# to the identity, so it is tempered. Kernels on the columns need imputed values:
# missing entries are replaced by the column mean. All parameters are chosen inside the
# folds.


def estimator(kernel, **grid):
    pipeline = make_pipeline(kernel, SVC(kernel="precomputed"))
    return GridSearchCV(pipeline, {"svc__C": [0.1, 1, 10]} | grid, cv=3)


filled = SimpleImputer(keep_empty_features=True)
wide = np.array([0.3, 1, 3, 10]) / X.shape[1]
estimators = {
    "linear, imputed": GridSearchCV(
        make_pipeline(filled, SVC(kernel="linear")),
        {"svc__C": [0.01, 0.1, 1, 10]},
        cv=3,
    ),
    "RBF, imputed": GridSearchCV(
        make_pipeline(filled, SVC()),
        {"svc__C": [0.1, 1, 10], "svc__gamma": wide},
        cv=3,
    ),
    "Fisher of the tree": estimator(mc.Fisher(mc.HiddenTree(profiles.tree))),
    "shared history": estimator(
        mc.Tempered(mc.Marginalization(mc.HiddenTree(profiles.tree, pruning=0.05))),
        tempered__exponent=[0.1, 0.3, 1.0],
    ),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
accuracy = {
    name: cross_val_score(model, X, y, cv=folds) for name, model in estimators.items()
}
for name, found in accuracy.items():
    print(f"{name:20} {found.mean():.2f}")

figure, axis = plt.subplots(figsize=(6, 2.6), layout="constrained")
axis.barh(
    list(accuracy), [found.mean() for found in accuracy.values()], color="tab:blue"
)
axis.axvline(1 / len(np.unique(y)), color="gray", linestyle=":")
axis.set(xlabel="accuracy, five folds (dotted: chance)", xlim=(0, 1))
axis.set_title("accuracy of two baselines and two kernels")
axis.invert_yaxis()
plt.show()

# %%
# The kernel matrix, sorted by class, shows the six histories.

K = mc.Tempered(mc.Marginalization(tree.model_), exponent=0.3)(X)
ax = mc.plot.gram(K, y)
ax.set_title("Gram matrix of the shared histories")
plt.show()
