"""Small objects of every class that can be saved, and what to ask each of them after loading."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tests.families.lists import batches as declared
from tests.families.lists import plural, singulars
from tests.test_capabilities import DATA, LABELS, LISTED, ROOMS, STRINGS, Y, made

import mercer as mc
from mercer._batch import Batch

sys.path.insert(0, str(Path(__file__).parent))
import cases

METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")
TABLE = np.random.default_rng(0).normal(size=(30, 2))
SERIES = np.random.default_rng(1).normal(size=(16, 12)).cumsum(axis=1) + LABELS[:, None]
COUNTS = sparse.csr_matrix(np.random.default_rng(2).poisson(1.0, (12, 6)) + np.eye(12, 6))
NOT_SAVED = {
    "Coordinatewise",
    "CoordinatewiseEstimator",
    "Estimator",
    "ExponentialFamily",
    "Family",
    "FamilyEstimator",
    "Kernel",
}
"""Public base classes, of which there are no objects."""


class Savable(NamedTuple):
    """How an object is made, and the data that it is asked about."""

    make: Callable[[], Any]
    X: Any


def public_classes() -> dict[str, type]:
    """Return all public classes of estimators, kernels and batches."""
    found = {name: getattr(room, name) for room in ROOMS for name in room.__all__}
    kinds = {name: kind for name, kind in found.items() if inspect.isclass(kind) and name not in NOT_SAVED}
    return {name: kind for name, kind in kinds.items() if issubclass(kind, BaseEstimator | Batch)}


@cache
def savable() -> dict[str, Savable]:
    """Return the objects by name; none of them is made before it is asked for."""
    return _batches() | _from_capabilities() | _pipelines()


def _from_capabilities() -> dict[str, Savable]:
    """Return expressions of the table of capabilities: one for each class and kind of data that it meets first."""
    found, seen = {}, set()
    for kind in (kind for kind in LISTED if kind in DATA and kind != "profiles"):
        for text in LISTED[kind]:
            words = set(re.findall(r"[A-Z]\w+", text)) & public_classes().keys()
            if words - seen and "SwitchingLDS" not in text and "Residualized" not in text:
                seen |= words
                found[f"{kind}-{re.sub('[^A-Za-z]+', '-', text)[:50]}"] = Savable(
                    lambda text=text, kind=kind: made(text).fit(DATA[kind], Y), DATA[kind]
                )
    return found


def _batches() -> dict[str, Savable]:
    """Return a batch of every family and model, and those that are stored in a form of their own."""
    strings, points, counts = STRINGS[:6], DATA["points"], np.asarray(COUNTS.todense())
    emission = mc.Gaussian("diagonal")
    fitted: dict[str, tuple[Any, Any]] = {
        "Gaussians": (mc.Gaussian(), points), "Poissons": (mc.Poisson(), DATA["counts"]),
        "Gammas": (mc.families.Gamma(), DATA["positive"]),
        "Exponentials": (mc.families.Exponential(), DATA["positive"]),
        "Bernoullis": (mc.Bernoulli(), DATA["binary"]), "Categoricals": (mc.Categorical(), strings),
        "Multinomials": (mc.Multinomial(), counts), "sparse-Multinomials": (mc.Multinomial(), COUNTS),
        "KDEs": (mc.KDE(), points),
        "Mixtures": (mc.Mixture(n_components=2, n_iter=2), points), "HMMs": (mc.HMM(2, n_iter=2), strings),
        "Gaussian-HMMs": (mc.HMM(2, emission, n_iter=2), points), "MarkovChains": (mc.MarkovChain(2), strings),
        "LDSs": (mc.LDS(2, n_iter=2), points), "SwitchingLDSs": (mc.SwitchingLDS(2, 1, n_iter=1), points),
        "FactorialHMMs": (mc.FactorialHMM(2, 2, n_iter=1), points),
        "BayesNets": (made("BayesNet(**NET)"), DATA["sites"]),
    }  # fmt: skip
    shared: dict[str, tuple[Any, Any]] = {
        "PairHMMs": (mc.PairHMM(n_iter=1), strings),
        "AffinePairHMMs": (mc.AffinePairHMM(substitution=(2, -3), alphabet="dna"), strings),
        "LocalPairHMMs": (mc.AffinePairHMM(substitution=(2, -3), alphabet="dna", local=True), strings),
        "HiddenTrees": (mc.HiddenTree("((a,b),c);"), DATA["sites"]),
    }  # fmt: skip
    rows = {"Gaussians", "Poissons", "Gammas", "Exponentials", "Bernoullis", "KDEs", "Mixtures"}
    asked = {name: np.concatenate(X) if name in rows else X for name, (_, X) in fitted.items()}
    found = {name: Savable(lambda m=m, X=X: m.fit_each(X), asked[name]) for name, (m, X) in fitted.items()}
    found |= {name: Savable(lambda m=m, X=X: m.fit(X).model_, X) for name, (m, X) in shared.items()}
    for name in singulars():
        if plural(name).__name__.lower() in declared():
            batch, model = declared()[plural(name).__name__.lower()], getattr(mc.families, name)()
            drawn = list(batch.sample(20, 0))
            found[name] = Savable(lambda model=model, X=drawn: mc.SymmetricKL(model).fit(X), drawn)
    found |= {name: Savable(lambda batch=batch: batch, points) for name, batch in declared().items()}
    found["ProfileHMMs"] = Savable(lambda: DATA["profiles"], strings)
    found["single-KDEs"] = Savable(lambda: mc.KDE().fit_each(points)[0], points[0])
    return found


def _pipelines() -> dict[str, Savable]:
    """Return pipelines of the tests of saving, and classifiers and regressors of series."""
    data, found = cases.data(), {}
    for name, (model, inputs, target) in cases.cases().items():
        X, y = cases.split(data[inputs]), cases.split(data[target])[0]
        found[name] = Savable(lambda model=model, X=X, y=y: model.fit(X[0], y), X[1])
    confounded = mc.Confounded(STRINGS, np.arange(16.0)[:, None])
    svc = lambda: SVC(kernel="precomputed")  # noqa: E731
    compacted = lambda: mc.compact(make_pipeline(mc.Spectrum(2), svc()).fit(STRINGS, LABELS))  # noqa: E731
    own = {
        "SeriesClassifier": (lambda: mc.SeriesClassifier("fast").fit(SERIES, LABELS), SERIES),
        "SeriesRegressor": (lambda: mc.SeriesRegressor("fast").fit(SERIES, SERIES[:, 0]), SERIES),
        "GaussianProcess": (lambda: mc.GaussianProcess(mc.Spectrum(2)).fit(STRINGS, LABELS), STRINGS),
        "GaussianProcessClassifier": (
            lambda: mc.kernels.GaussianProcessClassifier(mc.Spectrum(2)).fit(STRINGS, LABELS), STRINGS,
        ),
        "KernelRidge": (lambda: mc.KernelRidge(mc.Fisher(mc.HMM(2, n_iter=2))).fit(STRINGS, LABELS), STRINGS),
        "Residualized": (lambda: mc.Residualized(mc.Spectrum(2)).fit(confounded), confounded),
        "Compacted": (compacted, STRINGS),
        "words": (lambda: make_pipeline(mc.JensenShannon(mc.Multinomial()), svc()).fit(COUNTS, LABELS[:12]), COUNTS),
        "steps": (
            lambda: make_pipeline(
                mc.PerStep(StandardScaler()), mc.data.Resample(9), mc.data.Clock(), mc.Windows(3), mc.Lengths()
            ).fit(DATA["points"]),
            DATA["points"],
        ),
        "ProfileHMM": (lambda: mc.Fisher(mc.ProfileHMM(alphabet="dna")).fit(STRINGS), STRINGS),
        "switching": (
            lambda: mc.kernels.SwitchingProduct(mc.SwitchingLDS(2, 1, n_iter=1)).fit(DATA["points"]), DATA["points"],
        ),
        "densities": (lambda: make_pipeline(mc.MeanMap(mc.KDE()), svc()).fit(DATA["points"], Y), DATA["points"]),
    }  # fmt: skip
    return found | {name: Savable(make, X) for name, (make, X) in own.items()}


KERNEL = mc.RBF(gamma=0.5)


def write_all(folder: Path) -> None:
    """Write a file of every object, a Gram matrix and the folder of a store."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, entry in savable().items():
            thing = entry.make()
            (thing.save if isinstance(thing, Batch) else lambda path, thing=thing: mc.save(thing, path))(
                folder / f"{name}.mercer"
            )
        mc.gram.save(folder / "gram.mercer", KERNEL(TABLE), rows=range(len(TABLE)), kernel=KERNEL)
        mc.gram.compute(KERNEL, TABLE, store=folder / "store.zarr")


def use(name: str, made_again: Any, path: Path) -> None:
    """Ask a loaded object what it is for; raise the first error after all questions."""
    if path.is_dir():
        found = mc.gram.compute(KERNEL, TABLE, store=path)
        np.testing.assert_allclose(found[:], KERNEL(TABLE), rtol=1e-12)
        return
    errors = []
    for ask in _questions(name, made_again):
        try:
            ask()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _questions(name: str, thing: Any) -> list[Callable[[], Any]]:
    if name == "gram":
        return [lambda: thing.K @ np.ones(thing.K.shape[1]), lambda: repr(thing)]
    X = savable()[name].X
    if not isinstance(thing, Batch):
        return [lambda m=m: getattr(thing, m)(X) for m in METHODS if hasattr(thing, m)]
    kernels = [mc.ProbabilityProduct(length=3), mc.MeanMap(gamma=0.5, length=3), mc.JensenShannon()]
    asked = [m for m in ("log_prob", "fisher_scores", "sequence_scores") if hasattr(thing, m)]
    return [
        lambda: repr(thing), lambda: thing.digests(), lambda: thing[0], lambda: thing.sample(3, random_state=0),
        *(lambda m=m: getattr(thing, m)(X) for m in asked),
        *(lambda kernel=kernel: kernel(thing) for kernel in kernels),
    ]  # fmt: skip
