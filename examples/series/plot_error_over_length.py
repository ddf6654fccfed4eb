"""
Error over length
=================

Kernels between hidden Markov models have a length: the number of steps on which two
models are compared. ``kernel.path`` computes the matrices of many lengths at the cost
of the longest, so the whole curve costs little more than one point.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import make_hmm_sequences

# %%
# Two classes of series, of 15 to 45 steps, that differ only in their order in time.

series, y = make_hmm_sequences(
    80, n_features=2, length=(15, 45), noise=0.35, random_state=0
)
X = mc.Sequences(series)
lengths = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]
folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))


def errors_of(kernel):
    """Return the errors of an SVM, one row per length, one column per fold."""
    columns = []
    for train, test in folds:
        scaler = mc.PerStep(StandardScaler()).fit(X[train])
        a, b = scaler.transform(X[train]), scaler.transform(X[test])
        kernel.fit(a)
        square = kernel.path(a, lengths=lengths)
        rows = kernel.path(b, a, lengths=lengths)
        estimators = [SVC(kernel="precomputed").fit(K, y[train]) for K in square]
        columns.append(
            [
                1 - estimator.score(R, y[test])
                for estimator, R in zip(estimators, rows, strict=True)
            ]
        )
    return np.transpose(columns)


# %%
# Compare models that are fitted separately to each series with models that are shrunk
# toward a model of all training series. The baselines are a classifier that uses only
# the length of a series, and one model per class.

lengths_only = make_pipeline(mc.Lengths(), StandardScaler(), SVC())
only_length = 1 - cross_val_score(lengths_only, X, y, cv=folds).mean()
one_per_class = mc.LikelihoodRatio(mc.HMM(n_states=3))
bayes = 1 - cross_val_score(one_per_class, X, y, cv=folds).mean()

ax = None
for label, model in {
    "no prior": mc.HMM(n_states=3, prior=None, n_init=1),
    "pooled prior": mc.HMM(n_states=3, prior_strength=5),
}.items():
    kernel = mc.ProbabilityProduct(model, rho=1.0, length=1)
    last = (
        {"length of the series only": only_length, "one model per class": bayes}
        if ax is not None
        else None
    )
    ax = mc.plot.error_over_length(
        lengths, errors_of(kernel), ax=ax, label=label, baselines=last
    )
ax.set_title("test error over the length of the compared sequences")
plt.show()

# %%
# At length 1 the kernel does not see time. Longer lengths are better at first, and too
# sharp in the end. Without a prior, the models are overconfident from the start.
#
# The curve is computed on the test folds: it shows the effect of the length. To
# *choose* a length, search over it inside the training folds. Alternatively,
# ``Discounted(d)`` sums over all lengths, with weights that decrease by a factor of d
# at each step.

free = mc.MeanMap(
    mc.HMM(n_states=3, prior_strength=5), gamma=0.5, length=mc.Discounted(0.8)
)
classifier = make_pipeline(
    mc.PerStep(StandardScaler()), free, SVC(kernel="precomputed", C=10.0)
)
error = 1 - cross_val_score(classifier, X, y, cv=folds).mean()
print(f"mean map, all lengths: error {error:.3f}")
