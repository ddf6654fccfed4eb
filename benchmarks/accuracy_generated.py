"""Errors of models with structure on generated data: the rows of docs/which_kernel.md that no real data set has.

    python benchmarks/accuracy_generated.py            # seconds

Five folds, nothing tuned: C = 10 for all support vector machines. Only the genes on a tree are a task of ``mercer
compare``, which chooses parameters inside the training folds.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from _numbers import add_json, write_json
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer._comparison.evaluation import evaluate_fold
from mercer.cli._demonstration import phylogeny

SEED = 0
RNG = np.random.default_rng(SEED)
VALUES: dict[str, dict[str, float]] = {}
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def errors(title: str, X: Any, y: np.ndarray, methods: dict[str, Any]) -> None:
    """Print the errors of kernels and of whole classifiers."""
    print(f"\n{title}")
    for name, method in methods.items():
        if isinstance(method, mc.kernels.Kernel):
            method = make_pipeline(method, SVC(kernel="precomputed", C=10))
        error = VALUES.setdefault(title, {})[name] = 1 - cross_val_score(method, X, y, cv=FOLDS).mean()
        print(f"{name:45} {error:.3f}", flush=True)


def plain(features: Any) -> Any:
    """Return a support vector machine on features of each sample."""
    transform = FunctionTransformer(lambda X: np.array([features(x) for x in X]))
    return make_pipeline(transform, StandardScaler(), SVC(C=10))


def switches(p: float, length: int = 120) -> np.ndarray:
    """Draw a machine that is on or off, and changes with probability p."""
    return (np.cumsum(RNG.random(length) < p) + RNG.integers(2)) % 2


def sources() -> None:
    """Two machines on one meter; the small one switches slowly or quickly."""
    y = np.arange(120) % 2
    X = [(2.0 * switches(0.2) + switches((0.05, 0.15)[c]) + 0.5 * RNG.normal(size=120))[:, None] for c in y]
    options = {"information": "diagonal", "per": "step"}
    methods = {
        "mean, sd, mean absolute change, SVM": plain(lambda x: [x.mean(), x.std(), np.abs(np.diff(x[:, 0])).mean()]),
        "Fisher(HMM(4))": mc.Fisher(mc.HMM(4, random_state=0), **options),
        "Fisher(HMM(8))": mc.Fisher(mc.HMM(8, random_state=0), **options),
        "Fisher(FactorialHMM(n_chains=2))": mc.Fisher(mc.FactorialHMM(n_chains=2, random_state=0), **options),
    }
    errors("two sources", X, y, methods)


def network() -> None:
    """Rows of six columns: every column is alike in both classes, which differ in how one depends on two."""
    n = 400
    y = np.arange(n) % 2
    a, b = RNG.integers(2, size=(2, n))
    c = np.where(RNG.random(n) < 0.1, RNG.integers(2, size=n), a ^ b ^ y)
    rows = np.column_stack([a, b, c, RNG.integers(2, size=(n, 3))]).astype(float)
    rows[RNG.random(rows.shape) < 0.05] = np.nan
    model = mc.BayesNet({name: ["no", "yes"] for name in "abcdef"}, {"c": ["a", "b"]})
    tables = FunctionTransformer(lambda X: list(X[:, None]))  # of one row each
    encoded = OneHotEncoder(handle_unknown="ignore")
    methods = {
        "one-hot, logistic regression": make_pipeline(encoded, LogisticRegression()),
        "one-hot, RBF SVM": make_pipeline(encoded, SVC(C=10)),
        "Fisher(BayesNet)": make_pipeline(tables, mc.Fisher(model), SVC(kernel="precomputed", C=10)),
    }
    errors("rows with a known graph", rows, y, methods)


class Ring:
    """A model without a closed form: points in arcs of a circle."""

    def __init__(self, center: float, arcs: int) -> None:
        self.center, self.arcs = center, arcs

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """Return the log density of points."""
        radius, angle = np.hypot(*X.T), np.arctan2(X[:, 1], X[:, 0])
        along = np.cos(self.arcs * (angle - self.center)) - np.log(np.i0(1.0)) - np.log(2 * np.pi)
        return along - (radius - 2) ** 2 / 0.18 - np.log(0.3 * np.sqrt(2 * np.pi)) - np.log(np.maximum(radius, 1e-9))

    def sample(self, size: int, random_state: int | None = None) -> np.ndarray:
        """Draw points."""
        rng = np.random.default_rng(random_state)
        angle = self.center + (rng.vonmises(0, 1, size) + 2 * np.pi * rng.integers(self.arcs, size=size)) / self.arcs
        radius = 2 + 0.3 * rng.normal(size=size)
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def own() -> None:
    """Models with a density and a sampler only, whose classes have equal means and covariances."""
    y = np.arange(100) % 2
    X = [Ring(RNG.normal(0, 0.4), (3, 4)[c]) for c in y]
    moments = plain(lambda p: np.r_[(x := p.sample(300, int(1e6 * abs(p.center)))).mean(axis=0), np.cov(x.T).ravel()])
    errors("models of your own", X, y, {"moments of 300 draws, SVM": moments, "Sampled": mc.Sampled(n_samples=300)})


def streams() -> None:
    """Predict a chaotic stream, as in docs/tutorials/streams.md: unexplained variance one step ahead."""

    def machine(length: int) -> np.ndarray:
        hidden, x = RNG.uniform(0.2, 0.8), np.zeros((length, 1))
        for t in range(length):
            x[t] = hidden + 0.03 * RNG.normal()
            hidden = np.clip(3.8 * hidden * (1 - hidden) + 0.01 * RNG.normal(), 0.01, 0.99)
        return x

    train, test = machine(2000), machine(2000)
    past = np.column_stack([train[i : i - 5, 0] for i in range(5)] + [np.ones(1995)])
    weights = np.linalg.lstsq(past, train[5:, 0], rcond=None)[0]
    new = np.column_stack([test[i : i - 5, 0] for i in range(5)] + [np.ones(1995)])
    linear = np.var(test[5:, 0] - new @ weights) / test.var()
    model = mc.EmbeddedHMM(n_components=10, landmarks=60, alpha=1e-4).fit([train])
    VALUES["streams"] = {"linear, 5 steps": linear, "EmbeddedHMM": 1 - model.score([test])}
    print(f"\nstreams\nlinear, 5 steps {linear:.3f}\nEmbeddedHMM {1 - model.score([test]):.3f}")


def tree() -> None:
    """Classify genes by the leaves of a known tree that have them, as ``mercer compare --task phylogeny`` does."""
    task = phylogeny(SEED)
    print("\ngenes on a tree")
    for contender in task.contenders:
        error = 1 - np.mean([evaluate_fold(task, contender, fold, 5, SEED).score for fold in range(5)])
        VALUES.setdefault("genes on a tree", {})[contender.name] = float(error)
        print(f"{contender.name:45} {error:.3f}", flush=True)


PARTS = {"sources": sources, "network": network, "own": own, "streams": streams, "tree": tree}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="all of them by default")
    parser.add_argument("--seed", type=int, default=0)
    add_json(parser)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    SEED, RNG = given.seed, np.random.default_rng(given.seed)
    for part in given.parts or PARTS:
        PARTS[part]()
    write_json(given.json, VALUES)
