"""
Comparing hospitals by the networks of their patients
=====================================================

Each of 40 hospitals has a table of 150 patients, in which a quarter of the cells is
missing. One Bayesian network per hospital, with a hidden severity, is learned by EM. A
kernel between the networks shows that there are two kinds of hospitals, and the tables
show where they differ: in half of them, the test is done on the mild cases, too.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import KernelPCA

import mercer as mc

states = ["no", "yes"]
nodes = {"severity": ["A", "B"]} | dict.fromkeys(
    ("smoker", "fever", "cough", "tested", "positive"), states
)
parents = {
    "severity": ["smoker"],
    "fever": ["severity"],
    "cough": ["severity", "smoker"],
    "tested": ["severity"],
    "positive": ["tested", "severity"],
}


def hospital(screening, rng):
    """Draw the patients of a hospital; all hospitals differ a little."""

    def row(p):
        p = np.clip(np.asarray(p) + 0.04 * rng.normal(size=np.shape(p)), 0.02, 0.98)
        return np.stack([1 - p, p], axis=-1)[None]

    tables = {
        "smoker": row(0.3),
        "severity": row([0.2, 0.5]),
        "fever": row([0.1, 0.8]),
        "cough": row([[0.1, 0.4], [0.6, 0.8]]),
        "tested": row([0.7 if screening else 0.2, 0.9]),
        "positive": row([[0.03, 0.03], [0.1, 0.8]]),
    }
    net = mc.BayesNets(tables, nodes, parents, hidden=["severity"])
    patients = net.sample(150, random_state=rng)[0]
    patients[rng.random(patients.shape) < 0.25] = np.nan
    return patients


rng = np.random.default_rng(0)
screening = np.arange(40) % 2 == 1
tables = [hospital(yes, rng) for yes in screening]

# %%
# With ``prior="pooled"``, the network of each hospital starts from that of all patients
# and is shrunk to it, so that the hidden states A and B mean the same in all networks.

model = mc.BayesNet(
    nodes, parents, hidden=["severity"], prior="pooled", prior_strength=5.0
)
networks = model.fit_each(tables)
kernel = mc.ProbabilityProduct(rho=0.5)
K = kernel(networks)
z = KernelPCA(2, kernel="precomputed").fit_transform(K)

figure, axis = plt.subplots(figsize=(5, 4), layout="constrained")
for kind, name in ((False, "tests severe cases"), (True, "tests all")):
    axis.scatter(*z[screening == kind].T, s=20, label=name)
axis.set(title="Kernel PCA of 40 hospitals", xticks=[], yticks=[])
axis.legend()
plt.show()

# %%
# Which entries of the tables go along with the first component? The correlation of each
# probability with it tells. The names of hidden states are arbitrary: the fever tells
# which of them are the mild cases.

names, entries = networks.score_names(), networks.probability
spread = entries.std(axis=0) > 0
along = np.zeros(len(names))
along[spread] = [
    np.corrcoef(entries[:, k], z[:, 0])[0, 1] for k in np.flatnonzero(spread)
]
for k in np.argsort(-np.abs(along))[:6]:
    print(f"{names[k]:35} correlation {along[k]:+.2f}")

print("fever, given A and B:", networks.table("fever")[..., 1].mean(axis=0).round(2))
