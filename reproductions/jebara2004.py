"""Jebara, Kondor and Howard, Probability product kernels, JMLR 2004: figures 7 (text), 8 (DNA) and 10 (series).

Run: python reproductions/jebara2004.py figure7 (or figure8a, figure8b, figure10); --help has the options

A *family* of kernels has one member for every value of its other parameters (a length, a number of states). At every C
the member is chosen by cross-validation within the training objects; for the error reported next to the curve, C is
chosen as well. A family of one member corresponds to a curve of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from _protocol import Array, KernelSVM, Outcome, Split, curve, stratified, svm_errors
from _results import Curve, Figure, main, tell
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.preprocessing import normalize

import mercer as mc
from mercer.datasets import fetch_hs3d, fetch_intron_exon, fetch_webkb

PARTS = {
    "figure7": Figure(
        "Student against faculty pages of WebKB: Bhattacharyya kernel of multinomials and plain kernels",
        "Differs from the paper: random pages are held out instead of a university, which the files do not name, and "
        "words are stemmed; the paper does not give the base of log(C), ours is e.",
        "log C",
    ),
    "figure8a": Figure(
        "Exons against introns: one hidden Markov model per string, compared on strings of length T (rho = 1)",
        "Differs from the paper: HS3D's whole introns and exons are not available. Human: 70 letters on either side of "
        "a splice site. Fly: other genes, with ends removed, in pairs of an exon and an intron of equal length.",
        "log C",
    ),
    "figure8b": Figure(
        "Exons against introns: counts of words of K letters, and Markov chains of order K - 1 (rho = 1)",
        "Differs from the paper: the data, as for figure8a. The paper describes Markov chains and reports spectrum "
        "kernels; both are included.",
        "log C",
    ),
    "lengths": Figure(
        "Exons against introns of the fly, by the length of the string: counts of words of K letters, log C = 1",
        "Not in the paper, whose strings are longer.",
    ),
    "figure10": Figure(
        "Series of 20 random switching systems in two classes: one model per series, compared by T and rho",
        "Differs from the paper: the random systems are our own, which the paper does not describe; models of series "
        "are shrunk to one model of all series; C is the best of 1, 10 and 100 for every curve.",
        "T, or rho",
    ),
}


def reproduce(
    part: str, *, draws: int | None = None, quick: bool = False, variants: bool = False, seed: int = 0
) -> list[Curve]:
    """Reproduce a figure: the test error along log C, and the error with all parameters chosen in the training part.

    ``draws`` is the number of random splits, 20 for figure 7 and 5 for figure 8, or of sets of series, 1 for figure 10.
    ``quick``: fewer draws, figure 7 with 77 training pages only, figure 8 with 150 strings per class, figure 10 with 8
    systems. ``variants`` adds, in figure 7, the cosine of the frequencies and, in figure 8, human strings without their
    ends and the fly's strings with their ends and lengths.
    """
    if part == "figure7":
        return figure7(SIZES[: 1 if quick else None], draws or (3 if quick else 20), seed, variants)
    if part == "lengths":
        return lengths(draws or (2 if quick else 5), 150 if quick else 500, seed)
    if part == "figure10":
        return figure10(draws or 1, quick, seed)
    return figure8(part, draws or (2 if quick else 5), 150 if quick else 500, seed, variants)


# -- errors along C -------------------------------------------------------------------------------------------------


def along(kernels: Sequence[Array], labels: Array, split: Split, log_costs: Sequence[float]) -> Outcome:
    """Run every kernel of a family at every C, by its natural logarithms, in one split."""
    members = {str(i): gram for i, gram in enumerate(kernels)}
    return KernelSVM("", members, tuple(np.exp(log_costs)), scaled=False).outcome(labels, split)


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Merge several families of one split into one."""
    return Outcome(*(np.concatenate(parts) for parts in zip(*outcomes, strict=True)))


def line(panel: str, method: str, axis: Sequence[float], outcomes: Sequence[Outcome], paper: str = "") -> Curve:
    """Average the outcomes of a family over all splits; at every C, its member is chosen."""
    runs = []
    for one in outcomes:
        test, inside = (values.reshape(-1, len(axis)).T for values in (one.test, one.inside))
        runs.append([Outcome([], *pair).chosen for pair in zip(test, inside, strict=True)])
    return curve(panel, method, axis, np.array(runs), paper, float(np.mean([one.chosen for one in outcomes])))


def drawn_splits(labels: Array, n: int, draws: int, seed: int = 0) -> list[Split]:
    """Draw n training objects, stratified by class, ``draws`` times; with fewer draws, the first ones are the same."""
    drawn = StratifiedShuffleSplit(draws, train_size=n, random_state=seed).split(labels, labels)
    return [Split(train, test, stratified(labels, train, 5)) for train, test in drawn]


def halves(labels: Array, groups: Array, seed: int = 0) -> Split:
    """Split the groups into halves for training and test; inner folds also keep groups together."""
    train, test = next(GroupShuffleSplit(1, test_size=0.5, random_state=seed).split(labels, labels, groups))
    return Split(train, test, stratified(labels, train, 5, groups))


# -- figure 7: text -------------------------------------------------------------------------------------------------

SIZES = (77, 622)
"""Numbers of training pages."""
SIGMAS = {"1/4": 0.25, "1": 1.0, "4": 4.0}  # widths of the Gaussian kernels
TEXT_COSTS = tuple(float(x) for x in range(9))
"""Natural logarithms of C on the axis; the paper does not name the base."""


def text_kernels(counts: Any, variants: bool = False) -> dict[str, Array]:
    """Return the kernels between all pages; the variant, a cosine, is normalized but has no square roots."""
    frequencies = normalize(counts, norm="l1")
    found = {f"RBF sigma={name}": mc.RBF(gamma=0.5 / sigma**2)(frequencies) for name, sigma in SIGMAS.items()}
    found["Linear"] = mc.Linear(normalize=False)(frequencies)
    found["Bhattacharyya"] = mc.ProbabilityProduct(mc.Multinomial(), rho=0.5)(counts)
    if variants:
        found["Cosine"] = mc.Linear()(frequencies)
    return found


def figure7(sizes: Sequence[int], draws: int, seed: int, variants: bool) -> list[Curve]:
    """Run figure 7."""
    pages = fetch_webkb()
    labels = np.array(pages.target_names)[pages.target]
    both = np.isin(labels, ["student", "faculty"])
    labels, kernels = labels[both], text_kernels(pages.data[both], variants)
    found = []
    for size in sizes:
        splits = drawn_splits(labels, size, draws, seed)
        for name, gram in kernels.items():
            tell(f"{size} pages: {name}")
            outcomes = [along([gram], labels, split, TEXT_COSTS) for split in splits]
            paper = "lowest" if name == "Bhattacharyya" else ""
            found.append(line(f"{size} training pages", name, TEXT_COSTS, outcomes, paper))
    return found


# -- figure 8: DNA --------------------------------------------------------------------------------------------------

LENGTHS = (7, 8, 9, 10, 11)
"""Values of T, the length of the strings on which two models are compared."""
ORDERS = (1, 2, 3, 4, 5)
"""Values of K, the length of words: one more than the order of a Markov chain."""
STRENGTHS = (5.0, 20.0, 80.0)
"""Strengths of the pooled prior, in letters."""
LOG_COSTS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
SHORTEST, LONGEST = 30, 1000
"""Range of lengths of the fly's strings."""
PAPER = {
    "T=9": "10-11 %",
    "K=1": "34 %",
    "K=2": "18 %",
    "K=3": "7-8 %",
    "K=4": "worse than K=3",
    "K=5": "worse than K=3",
}
"""Errors that the paper reports for its curves at the best C."""


@dataclass(frozen=True)
class Strings:
    """Strings of two classes, and the groups that must not be split."""

    data: mc.Sequences
    labels: Array
    groups: Array

    def __getitem__(self, at: Array) -> Strings:
        return Strings(self.data[at], self.labels[at], self.groups[at])


def human(n: int = 500, seed: tuple[int, ...] = (0,)) -> Strings:
    """Draw n exon and n intron halves of human splice windows."""
    every, generator = _without_copies(fetch_hs3d()), np.random.default_rng(seed)
    return every[_of_each_class(every.labels, n, generator)]


def human_ends_cut(n: int = 500, seed: tuple[int, ...] = (0,), trim: int = 6) -> Strings:
    """Draw like ``human``, and remove ``trim`` letters at both ends, one of which is the splice site."""
    drawn = human(n, seed)
    cut = mc.Sequences([string[trim:-trim] for string in drawn.data], alphabet=drawn.data.alphabet)
    return replace(drawn, data=cut)


def fly(n: int = 500, seed: tuple[int, ...] = (0,), trim: int = 10) -> Strings:
    """Draw n pairs of an exon and an intron of the fly of equal length, without the ends, where introns are alike."""
    every, generator = _without_copies(fetch_intron_exon(trim=trim)), np.random.default_rng(seed)
    pairs = equal_lengths(every.data.lengths, every.labels, generator)
    return every[np.sort(pairs[generator.choice(len(pairs), n, replace=False)].ravel())]


def fly_as_it_is(n: int = 500, seed: tuple[int, ...] = (0,)) -> Strings:
    """Draw n exons and n introns of the fly with their ends and lengths, as the paper does with human ones."""
    every, generator = _without_copies(fetch_intron_exon()), np.random.default_rng(seed)
    every = every[np.flatnonzero((every.data.lengths >= SHORTEST) & (every.data.lengths <= LONGEST))]
    return every[_of_each_class(every.labels, n, generator)]


def equal_lengths(lengths: Array, labels: Array, generator: np.random.Generator) -> Any:
    """Return all random pairs of objects of equal length from two classes, ``(pairs, 2)``.

    Surplus objects of the larger class are dropped, and lengths below ``SHORTEST`` or above ``LONGEST``.
    """
    pairs = []
    for length in np.unique(lengths[(lengths >= SHORTEST) & (lengths <= LONGEST)]):
        same = lengths == length
        sides = (generator.permutation(np.flatnonzero(same & (labels == name))) for name in np.unique(labels))
        pairs += list(zip(*sides, strict=False))
    return np.array(pairs).reshape(-1, 2)


def _without_copies(found: Any) -> Strings:
    """Drop duplicate strings: genes have copies, which could be on both sides of a split."""
    labels = np.array(found.target_names)[found.target]
    first: dict[str, int] = {}
    for place, string in enumerate(found.data):
        first.setdefault(string, place)
    return Strings(found.data, labels, found.groups)[np.array(list(first.values()))]


def _of_each_class(labels: Array, n: int, generator: np.random.Generator) -> Array:
    drawn = [generator.choice(np.flatnonzero(labels == name), n, replace=False) for name in np.unique(labels)]
    return np.sort(np.concatenate(drawn))


def stationary(models: mc.HMMs) -> mc.HMMs:
    """Replace initial distributions with stationary ones: a single string does not determine its start."""
    return mc.HMMs(models.stationary(), models.transition, models.emission, models.n_states)


def hmm_kernels(strings: Strings, train: Array) -> dict[str, list[Array]]:
    """Return the kernels of figure 8a: one model per string, fitted by itself or with a pooled prior of ``train``.

    Another family, with T chosen, keeps the initial distributions of EM instead of the stationary ones.
    """
    kernel, found = mc.ProbabilityProduct(rho=1.0), []
    single = mc.HMM("jebara", prior=None, n_iter=400, n_init=1).fit_each(strings.data)
    grams = zip(LENGTHS, kernel.path(stationary(single), lengths=LENGTHS), strict=True)
    for strength in STRENGTHS:
        model = mc.HMM("jebara", prior_strength=strength, n_iter=400, n_init=1)
        shrunk = model.fit_each(strings.data, model.context(strings.data[train]))
        found += list(kernel.path(stationary(shrunk), lengths=LENGTHS))
    return {f"T={length}": [gram] for length, gram in grams} | {
        "EM's start": list(kernel.path(single, lengths=LENGTHS)),
        "pooled prior": found,
    }


def chain_kernels(strings: Strings, train: Array) -> dict[str, list[Array]]:
    """Return the kernels that the paper describes for figure 8b: Markov chains of order K - 1, with T chosen."""
    kernel, lengths, pooled = mc.ProbabilityProduct(rho=1.0), LENGTHS[::2], []
    single = {k: mc.MarkovChain(k - 1, initial="anywhere", prior=None).fit_each(strings.data) for k in ORDERS}
    for k, strength in product(ORDERS[1:4], STRENGTHS):
        model = mc.MarkovChain(k - 1, initial="anywhere", prior_strength=strength)
        shrunk = model.fit_each(strings.data, model.context(strings.data[train]))
        pooled += list(kernel.path(shrunk, lengths=lengths))
    found = {f"K={k}": list(kernel.path(chains, lengths=lengths)) for k, chains in single.items()}
    return found | {"pooled prior": pooled}


def word_kernels(strings: Strings, train: Array) -> dict[str, list[Array]]:
    """Return the kernels that the paper reports in figure 8b: counts of words of length K; nothing is learned."""
    return {f"K={k}": [mc.Spectrum(k=k)(strings.data)] for k in ORDERS}


def figure8(part: str, draws: int, n: int, seed: int, variants: bool) -> list[Curve]:
    """Run figure8a or figure8b with n strings per class."""
    sets = {"human": human, "fly": fly}
    if variants:
        sets |= {"human, ends cut": human_ends_cut, "fly, as it is": fly_as_it_is}
    makers = {"HMM": hmm_kernels} if part == "figure8a" else {"Markov chains": chain_kernels, "words": word_kernels}
    found: dict[tuple[str, str], list[Outcome]] = {}
    for (name, load), (kind, maker), number in product(sets.items(), makers.items(), range(draws)):
        panel = f"{name}, {kind}"
        tell(f"{panel}: draw {number + 1}")
        for method, one in dna_outcomes(load(n, (seed, number)), maker).items():
            found.setdefault((panel, method), []).append(one)
    return [line(*key, LOG_COSTS, outcomes, PAPER.get(key[1], "")) for key, outcomes in found.items()]


def dna_outcomes(strings: Strings, maker: Callable[[Strings, Array], dict[str, list[Array]]]) -> dict[str, Outcome]:
    """Return the outcomes of all curves of a panel in one draw."""
    split = halves(strings.labels, strings.groups)
    families = maker(strings, split.train)
    families["length only"] = [mc.RBF(gamma=1.0)(mc.Lengths().transform(strings.data))]  # a baseline
    found = {name: along(family, strings.labels, split, LOG_COSTS) for name, family in families.items()}
    own = [name for name in found if "=" in name]  # T=7, ... or K=1, ...
    lines = {name: found[name] for name in own} | {f"{own[0][0]} chosen": joined([found[name] for name in own])}
    return lines | {name: one for name, one in found.items() if name not in own}


def lengths(draws: int, n: int, seed: int) -> list[Curve]:
    """Return the errors of counts of words on short, medium and long test strings of the fly, at C = e."""
    sizes = {"30 to 69 letters": (0, 70), "70 to 149 letters": (70, 150), "150 to 1,000 letters": (150, np.inf)}
    errors: dict[tuple[str, int], list[float]] = {}
    for number, k in product(range(draws), ORDERS[:3]):
        drawn = fly(n, (seed, number))
        split, gram = halves(drawn.labels, drawn.groups), mc.Spectrum(k=k)(drawn.data)
        size = drawn.data.lengths[split.test]
        for name, (least, most) in sizes.items():
            test = split.test[(size >= least) & (size < most)]
            error = svm_errors(gram, drawn.labels, split.train, test, [np.e])[0]
            errors.setdefault((name, k), []).append(error)
    return [curve(name, f"K={k}", (1.0,), np.array(found)[:, None]) for (name, k), found in errors.items()]


# -- figure 10: series ----------------------------------------------------------------------------------------------

STEPS = (5, 10, 15, 20, 25)
"""Values of T, the length of the series on which two models are compared."""
POWERS = (0.1, 0.25, 0.5, 1.0, 2.0)
"""Values of rho."""
COSTS = (1.0, 10.0, 100.0)
REPORTED = {"ML LDS": ".35", "ML SLDS": ".30", "RBF": ".34", "LDS": ".28", "SLDS": ".25"}
"""Errors that the paper reports, of kernels the smallest."""


@dataclass(frozen=True)
class Task:
    """Series, their classes and the systems that they come from."""

    series: list[Array]
    labels: Array
    systems: Array


def random_systems(n: int, rng: np.random.Generator, regimes: int = 5) -> mc.models.SwitchingLDSs:
    """Return random switching systems of two state and two observed coordinates."""
    angle, radius = rng.uniform(0, np.pi, (n, regimes)), rng.uniform(0.6, 0.99, (n, regimes))
    turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(n, regimes, 2, 2)
    root = rng.normal(size=(n, regimes, 2, 2))
    unit = np.broadcast_to(np.eye(2), (n, regimes, 2, 2))
    emission = np.repeat(rng.normal(size=(n, 1, 2, 2)), regimes, axis=1)
    parts = mc.LDSs(
        radius[..., None, None] * turn, emission, 0.1 * root @ root.swapaxes(-1, -2) + 0.01 * unit, 0.1 * unit,
        rng.normal(size=(n, regimes, 2)), unit, state_offset=0.3 * rng.normal(size=(n, regimes, 2)),
    )  # fmt: skip
    moves = 0.8 * np.eye(regimes) + 0.2 * rng.dirichlet(np.ones(regimes), (n, regimes))
    return mc.models.SwitchingLDSs(rng.dirichlet(np.ones(regimes), n), moves, parts)


def make_task(seed: Any, models: int = 20, per_model: int = 5, length: int = 25) -> Task:
    """Sample series from random systems, half of which belong to each class."""
    rng = np.random.default_rng(seed)
    drawn = random_systems(models, rng).sample(length, per_model, random_state=rng)
    systems = np.repeat(np.arange(models), per_model)
    return Task(list(drawn.reshape(-1, length, 2)), systems % 2, systems)


def left_out_errors(gram: Array, labels: Array) -> Array:
    """Return the leave-one-out errors of a support vector machine at every C, ``(costs,)``."""
    every = np.arange(len(labels))
    return np.mean([svm_errors(gram, labels, np.delete(every, i), every[[i]], COSTS) for i in every], axis=0)


def likelihood_error(estimator: Any, task: Task) -> float:
    """Return the leave-one-out error of one model per class; a model is refitted without the series in question."""
    series, labels = task.series, task.labels
    members = {name: np.flatnonzero(labels == name) for name in np.unique(labels)}
    whole = {name: estimator.fit([series[i] for i in rows]).model_ for name, rows in members.items()}
    table = {name: np.asarray(model.log_prob(series)[0]) for name, model in whole.items()}
    for name, rows in members.items():
        again = type(estimator)(**{**estimator.get_params(), "init": whole[name], "n_iter": 3, "tol": 0.0})
        for i in rows:
            rest = [series[j] for j in rows if j != i]
            table[name][i] = again.fit(rest).model_.log_prob([series[i]])[0, 0]
    names = list(members)
    return float(np.mean(np.array(names)[np.argmax([table[name] for name in names], axis=0)] != labels))


def fitted(task: Task) -> dict[str, Any]:
    """Return one model per series: linear dynamical systems, and switching ones."""
    return {"LDS": mc.LDS(2).fit_each(task.series), "SLDS": mc.SwitchingLDS(5, 2, n_init=1).fit_each(task.series)}


def figure10(draws: int, quick: bool, seed: int) -> list[Curve]:
    """Run figure 10 on ``draws`` sets of series."""
    errors: dict[str, list[Any]] = {}
    for number in range(draws):
        task = make_task([seed, number], 8 if quick else 20, 3 if quick else 5)
        tell(f"set {number + 1}: models of series")
        for name, batch in fitted(task).items():
            table = []
            for rho in POWERS:
                tell(f"set {number + 1}: {name} kernels, rho = {rho:g}")
                hybrid = mc.kernels.SwitchingProduct(rho=rho, switches="expected", n_paths=8 if quick else 50)
                kernel = mc.ProbabilityProduct(rho=rho) if name == "LDS" else hybrid
                grams = kernel.path(batch, lengths=STEPS)
                table.append([left_out_errors(gram, task.labels) for gram in grams])
            errors.setdefault(name, []).append(table)  # (rho, T, C)
        tell(f"set {number + 1}: likelihoods")
        regimes = 2 if quick else 5
        single = {"ML LDS": mc.LDS(2), "ML SLDS": mc.SwitchingLDS(regimes, 2, n_init=1, n_iter=20)}
        for name, estimator in single.items():
            errors.setdefault(name, []).append([likelihood_error(estimator, task)])
        flat = np.stack([x.ravel() for x in task.series])
        squared = ((flat[:, None] - flat) ** 2).sum(axis=-1)
        median = np.median(squared[np.triu_indices(len(flat), 1)])
        grams = [np.exp(-squared / (scale * median)) for scale in (0.2, 1, 5)]
        errors.setdefault("RBF", []).append([np.min([left_out_errors(gram, task.labels) for gram in grams])])
    least: dict[str, float] = {}
    over_length, over_power = [], []
    for name in ("LDS", "SLDS"):
        table = np.array(errors[name])
        least[name] = float(table.mean(axis=0).min())
        over_length += [(f"{name} rho={POWERS[i]:g}", STEPS, table[:, i]) for i in (0, 2, 3)]
        over_power += [(f"{name} T={STEPS[i]}", POWERS, table[:, :, i]) for i in (0, 2, 4)]
    found = []
    for panel, lines in (("over T", over_length), ("over rho", over_power)):
        for method, axis, values in lines:
            at = values.mean(axis=(0, 1)).argmin()  # one C for a curve
            found.append(curve(panel, method, axis, values[..., at]))
    for name in ("ML LDS", "ML SLDS", "RBF"):
        found.append(curve("one number", name, STEPS[-1:], np.array(errors[name]), REPORTED[name]))
    for name, error in least.items():
        found.append(curve("one number", f"{name} kernel, best", STEPS[-1:], [[error]], REPORTED[name]))
    return found


if __name__ == "__main__":
    main(__doc__, PARTS, reproduce)
