"""Song, Boots, Siddiqi, Gordon and Smola, Hilbert space embeddings of hidden Markov models, ICML 2010.

Run: python reproductions/song2010.py known (or horizon, audio); --help has the options
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import _song_streams as streams
import numpy as np
from _protocol import Array
from _results import Curve, Figure, main, tell
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.datasets import fetch_char_trajectories, fetch_fsdd, fetch_watch_imu

_PRIVATE = "The paper's robot, slot-car and audio data are not public."

PARTS = {
    "known": Figure(
        "Error over the number of training triples, for known models: L1 of the predicted distribution of symbols with "
        "the delta kernel, and absolute error of the predicted mean of Gaussian emissions",
        "Not in the paper: hidden Markov models whose exact filter is the truth.",
        "training triples",
        "mean error",
        log_x=True,
        log_y=True,
    ),
    "horizon": Figure(
        "Squared error of predictions over the horizon, on recordings of a watch and of a pen",
        f"{_PRIVATE} Ours are inertial recordings of a watch and trajectories of a pen. As in the paper: 50 "
        "components, windows of 20, median rule, regularization 1e-4. Bars are standard errors over the test series.",
        "steps ahead",
        "mean squared error",
        log_x=True,
        log_y=True,
    ),
    "audio": Figure(
        "Error on spoken digits, one model per class or a kernel",
        f"{_PRIVATE} Ours are the 13 cepstral coefficients of spoken digits (FSDD). Kernels of this library, with an "
        "SVM, are flat lines: their parameters are chosen by cross-validation in the training data. Bars are standard "
        "errors of a rate.",
        "components or states",
    ),
}


def reproduce(part: str, *, quick: bool = False, seed: int = 0) -> list[Curve]:
    """Reproduce an experiment in the form of the paper; quick: with fewer data, components and horizons."""
    return {"known": _known, "horizon": _horizon, "audio": _audio}[part](quick, seed)


# -- made models with known filters ------------------------------------------------------------------------------

TRANSITION = np.array([[0.8, 0.15, 0.05], [0.05, 0.8, 0.15], [0.15, 0.05, 0.8]])
EMISSION = np.array([[0.7, 0.2, 0.1, 0.0, 0.0], [0.0, 0.1, 0.8, 0.1, 0.0], [0.1, 0.0, 0.1, 0.2, 0.6]])
MEANS = np.array([-2.0, 0.0, 2.0])


def _draw(size: int, length: int, rng: np.random.Generator) -> Any:
    """Draw states of ``size`` chains, ``(size, length)``."""
    states = np.zeros((size, length), dtype=np.int64)
    states[:, 0] = rng.integers(0, 3, size)
    for t in range(1, length):
        states[:, t] = (rng.random((size, 1)) > np.cumsum(TRANSITION, axis=1)[states[:, t - 1]]).sum(axis=1)
    return states


def _filtered(likelihoods: Array) -> Array:
    """Return the distribution of the next state after every step, ``(N, T, 3)``."""
    belief = np.full((len(likelihoods), 3), 1 / 3)
    out = np.zeros(likelihoods.shape)
    for t in range(likelihoods.shape[1]):
        belief = belief * likelihoods[:, t]
        belief = belief / belief.sum(axis=1, keepdims=True) @ TRANSITION
        out[:, t] = belief
    return out


def _known(quick: bool, seed: int) -> list[Curve]:
    rng = np.random.default_rng(seed)
    sizes = (300, 3000) if quick else (1000, 3000, 10_000, 30_000, 100_000)
    states = _draw(40, 6, rng)
    cells: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for solver in ("svd", "reduced_rank"):
        for m in sizes:
            tell(f"{solver}, {m} triples")
            for panel, one in (("symbols", _symbols), ("Gaussian emissions", _gaussian)):
                runs = [one(m, states, solver, np.random.default_rng([seed, m, i])) for i in range(2 if quick else 4)]
                cells.setdefault((panel, solver), []).append((float(np.mean(runs)), float(np.std(runs))))
    axis = tuple(map(float, sizes))
    return [
        Curve(panel, solver, axis, tuple(mean for mean, _ in found), tuple(spread for _, spread in found))
        for (panel, solver), found in cells.items()
    ]


def _symbols(m: int, states: Any, solver: str, rng: np.random.Generator) -> float:
    def emitted(s: Any) -> Any:
        return np.minimum((rng.random((*s.shape, 1)) > np.cumsum(EMISSION, axis=1)[s]).sum(axis=-1), 4)

    model = mc.EmbeddedHMM(n_components=3, solver=solver)
    model.fit(mc.Sequences(emitted(_draw(m, 3, rng)), alphabet=range(5)))
    test = emitted(states)
    truth = _filtered(np.moveaxis(EMISSION[:, test], 0, -1)) @ EMISSION
    found = np.array(model.predict_proba(mc.Sequences(test, alphabet=range(5))))
    return float(np.abs(found - truth).sum(axis=-1).mean())


def _gaussian(m: int, states: Any, solver: str, rng: np.random.Generator) -> float:
    def emitted(s: Any) -> Array:
        return MEANS[s][..., None] + 0.5 * rng.normal(size=(*s.shape, 1))

    model = mc.EmbeddedHMM(n_components=3, alpha=1e-3, landmarks=60, solver=solver).fit(emitted(_draw(m, 3, rng)))
    test = emitted(states)
    truth = _filtered(np.exp(-2 * (test - MEANS) ** 2)) @ MEANS
    return float(np.abs(np.array(model.predict(test))[..., 0] - truth).mean())


# -- streams -----------------------------------------------------------------------------------------------------


def _horizon(quick: bool, seed: int) -> list[Curve]:
    watch, pen = fetch_watch_imu(), fetch_char_trajectories()
    # One exercise of the watch: the first six subjects for training, the others for testing.
    own = [i for i in range(len(watch.data)) if watch.target[i] == 0]
    train = [watch.data[i][:900] for i in own if watch.groups[i] <= 6]
    test = [watch.data[i][:900] for i in own if watch.groups[i] > 6]
    letters = [pen.data[i] for i in range(len(pen.data))]
    sets = {"watch": (train, test), "pen": (letters[0::2], letters[1::2])}
    found = []
    for name, (known, new) in sets.items():
        if quick:
            known, new = [x[:300] for x in known[:3]], [x[:200] for x in new[:2]]
        horizons = (1, 5) if quick else (1, 2, 5, 10, 20, 50, 100)
        methods = streams.predictors(10 if quick else 50, 40 if quick else 300)
        found += _compared(name, known, new, horizons, methods)
    return found


def _compared(
    panel: str,
    train: Sequence[Array],
    test: Sequence[Array],
    horizons: Sequence[int],
    methods: dict[str, streams.Predictor],
) -> list[Curve]:
    pooled = np.concatenate(train)
    center, scale = pooled.mean(axis=0), pooled.std(axis=0)
    train, test = ([(x - center) / scale for x in side] for side in (train, test))
    curves = []
    for name, method in methods.items():
        tell(f"{panel}: {name}")
        each = streams.errors(method(train, test, horizons), test)
        means = [float(np.mean(each[h])) for h in horizons]
        spreads = [float(np.std(each[h]) / np.sqrt(len(each[h]))) for h in horizons]
        curves.append(Curve(panel, name, tuple(map(float, horizons)), tuple(means), tuple(spreads)))
    return curves


# -- classification ----------------------------------------------------------------------------------------------


def _audio(quick: bool, seed: int) -> list[Curve]:
    digits = fetch_fsdd()
    rng = np.random.default_rng(seed)
    per_class = 20 if quick else 50
    chosen = [rng.permutation(np.flatnonzero(digits.target == c))[: 2 * per_class] for c in range(10)]
    train, test = (np.concatenate([c[part] for c in chosen]) for part in (slice(per_class), slice(per_class, None)))
    values = np.concatenate([digits.data[i] for i in train])
    center, scale = values.mean(axis=0), values.std(axis=0)
    X = digits.data.mapped(lambda x: (x - center) / scale)
    y = digits.target
    sizes = (5,) if quick else (10, 20, 30, 40, 50)

    def wrong(clf: Any) -> float:
        return float(1 - clf.fit(X[train], y[train]).score(X[test], y[test]))

    per_class_models: dict[str, Callable[[int], Any]] = {
        "embedded HMM": lambda n: _embedded(n, "svd", quick),
        "embedded HMM, reduced_rank": lambda n: _embedded(n, "reduced_rank", quick),
        "Gaussian HMM, EM": lambda n: mc.LikelihoodRatio(_states(n)),
    }
    kernels = {name: one for name, one in _kernels().items() if not quick or name in QUICK_KERNELS}
    axis, found = tuple(map(float, sizes)), []

    def add(label: str, rates: list[float], *, bars: bool = True) -> None:
        spread = [float(np.sqrt(rate * (1 - rate) / len(test))) * bars for rate in rates]
        found.append(Curve("FSDD", label, axis, tuple(rates), tuple(spread)))

    for label, make in per_class_models.items():
        rates = []
        for n in sizes:
            tell(f"{label}, {n}")
            rates.append(wrong(make(n)))
        add(label, rates)
    for label, (kernel, grid) in kernels.items():
        tell(label)
        add(label, [wrong(_searched(kernel, grid, quick))] * len(sizes), bars=False)
    return found


QUICK_KERNELS = ("EmpiricalMeanMap", "Fisher(HMM)")


def _states(n: int) -> Any:
    return mc.HMM(n, mc.Gaussian("diagonal"), n_iter=20, tol=1e-3, n_init=1)


def _embedded(n: int, solver: str, quick: bool) -> Any:
    model = mc.EmbeddedHMM(mc.RBF(gamma=0.2), n_components=n, alpha=1e-3, start="first", solver=solver)
    return mc.LikelihoodRatio(model.set_params(landmarks=60 if quick else 200))


def _kernels() -> dict[str, tuple[Any, dict[str, list[Any]]]]:
    """Return kernels of this library and the parameters to choose from."""
    own = mc.EmbeddedHMM(mc.RBF(gamma=0.2), n_components=20, alpha=1e-3, landmarks=200)
    return {
        "Fisher(HMM)": (mc.Fisher(_states(5), information="diagonal", per="step"), {"model__n_states": [5, 10]}),
        "ProbabilityProduct(HMM)": (mc.ProbabilityProduct(_states(2)), {"rho": [0.5, 0.1]}),
        "MeanMap(HMM)": (mc.MeanMap(_states(2)), {"gamma": [0.02, 0.005, 0.1]}),
        "EmpiricalMeanMap": (mc.EmpiricalMeanMap(), {"gamma": [0.1, 0.02, 0.5]}),
        "BeliefKernel(EmbeddedHMM)": (mc.embedding.BeliefKernel(own, when="mean"), {"when": ["mean", "last"]}),
    }


def _searched(kernel: Any, grid: dict[str, list[Any]], quick: bool) -> Any:
    """Return an SVM with this kernel whose parameters are chosen by three folds of the training data."""
    wanted = {f"kernel__{name}": values[:1] if quick else values for name, values in grid.items()}
    wanted["svc__C"] = [10.0] if quick else [1.0, 10.0, 100.0]
    pipeline = Pipeline([("kernel", kernel), ("svc", SVC(kernel="precomputed"))])
    return GridSearchCV(pipeline, wanted, cv=StratifiedKFold(3, shuffle=True, random_state=0))


if __name__ == "__main__":
    main(__doc__, PARTS, reproduce)
