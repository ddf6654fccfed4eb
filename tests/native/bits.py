"""Cases for `test_bits`: whether the bits of a result depend on its neighbors, which share SIMD lanes with it.

A case is a function ``case_<name>(rng)`` that returns ``compute(left, right)`` and the numbers of members of both
sides: ``compute`` gives one entry per pair of the members with these indices, pairs in the first two axes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import mercer as mc

Case = tuple[Callable[[Any, Any], Any], int, int]


def hmms(rng: Any, count: int, n: int) -> mc.HMMs:
    emission = mc.Categoricals(rng.dirichlet(np.ones(4), (count, n)), "acgt")
    return mc.HMMs(rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n)), emission)


def chains(n: int, length: Any) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        models = hmms(rng, 13, n)
        kernel = mc.ProbabilityProduct(length=length, normalize=False)
        return (lambda left, right: kernel.log(models[left], models[right])), 13, 13

    return case


def grid(left: Any, right: Any) -> tuple[Any, Any]:
    return np.repeat(left, len(right)), np.tile(right, len(left))


def general_pairs(n: int) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        step = rng.dirichlet(np.ones(n + 1), (1, n))
        emission = mc.Categoricals(rng.dirichlet(np.ones(4), (1, n)), "acgt")
        model = mc.models.PairHMMs(
            rng.dirichlet(np.ones(n), 1), step[..., :-1], step[..., -1], emission, 0.5 * rng.random((1, n)) + 0.05
        )
        operand = model.shared_history(mc.Sequences.from_codes([rng.integers(0, 4, k) for k in range(13)], "acgt"))
        return (lambda left, right: operand[left].pair(operand[right])), 13, 13

    return case


def affine_pairs(kind: str) -> Callable[[Any], Case]:
    """Strings of many lengths: they end in different strips and lanes."""

    def case(rng: Any) -> Case:
        hidden = rng.dirichlet(np.ones(4), 4) + 2 * np.eye(4)
        joint = hidden @ hidden.T / (hidden @ hidden.T).sum()
        arguments = [joint], [joint.sum(axis=0)], [0.03], [0.6], [0.98]
        model = (
            mc.models.LocalPairHMMs(*arguments, [0.9], [0.98])
            if "local" in kind
            else mc.models.AffinePairHMMs(*arguments)
        )
        X = mc.Sequences.from_codes(
            [rng.integers(0, 4, size) for size in (*range(1, 18), 33, 64, 70, 40)], model.alphabet
        )
        if "single" in kind:
            return (lambda left, right: np.tile(model.log_prob(X[right]), (len(left), 1))), 21, 21
        operand = model.shared_history(X)
        if "ranged" in kind:
            return (lambda left, right: operand.some(operand, *grid(left, right)).reshape(len(left), -1)), 21, 21
        return (lambda left, right: operand[left].pair(operand[right])), 21, 21

    return case


def systems(rng: Any, n: int, d: int, *shape: int) -> mc.LDSs:
    def covariance(k: int) -> Any:
        root = rng.normal(size=(*shape, k, k))
        return root @ root.swapaxes(-1, -2) / k + 0.1 * np.eye(k)

    turn = 0.9 * np.linalg.qr(rng.normal(size=(*shape, n, n)))[0]
    return mc.LDSs(
        turn, rng.normal(size=(*shape, d, n)), covariance(n), covariance(d), rng.normal(size=(*shape, n)), covariance(n)
    )


def series_of(rng: Any, d: int) -> list[Any]:
    """Return series of different lengths; some have gaps, so that covariances start again."""
    found = [rng.normal(size=(length, d)) for length in rng.integers(1, 90, 45)]
    for x in found[::4]:
        x[rng.random(x.shape) < 0.1] = np.nan
    return found


def filters(n: int, d: int) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        models, series = systems(rng, n, d, 3), series_of(rng, d)
        return (lambda left, right: models[left].log_prob([series[j] for j in right])), 3, 45

    return case


def smoothers(n: int, d: int) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        models, series = systems(rng, n, d, 3), series_of(rng, d)

        def scores(left: Any, right: Any) -> Any:
            return np.concatenate([models[i : i + 1].sequence_scores([series[j] for j in right]) for i in left])

        return scores, 3, 45

    return case


def system_pairs(n: int, d: int) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        models, kernel = systems(rng, n, d, 19), mc.ProbabilityProduct(rho=1.0, length=90, normalize=False)
        return (lambda left, right: kernel.log(models[left], models[right])), 19, 19

    return case


def switching(rng: Any) -> mc.models.SwitchingLDSs:
    initial, transition = rng.dirichlet(np.ones(2), 5), rng.dirichlet(np.ones(2), (5, 2))
    return mc.models.SwitchingLDSs(initial, transition, systems(rng, 2, 3, 5, 2))


def case_regime_paths(rng: Any) -> Case:
    models = switching(rng)
    kernel = mc.kernels.SwitchingProduct(rho=1.0, length=12, n_paths=7, normalize=False)
    return (lambda left, right: kernel.log(models[left], models[right])), 5, 5


def case_branches(rng: Any) -> Case:
    models, series = switching(rng), [rng.normal(size=(length, 3)) for length in rng.integers(1, 8, 11)]
    return (lambda left, right: models[left].log_prob([series[j] for j in right])), 5, 11


def case_sparse_products(rng: Any) -> Case:
    from mercer.data.csr import CSRRows, outer

    rows = CSRRows.of(rng.poisson(0.4, (21, 40)).astype(float))
    return (lambda left, right: outer(rows[np.asarray(left)], rows[np.asarray(right)])), 21, 21


def case_sparse_entropies(rng: Any) -> Case:
    from mercer.data.csr import CSRRows, shared_entropy

    rows = CSRRows.of(rng.poisson(0.4, (21, 40)) / 7.0)
    return (lambda left, right: shared_entropy(rows[np.asarray(left)], rows[np.asarray(right)])), 21, 21


def gaussians(structure: str) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        factors = rng.normal(size=(19, 5, 9))
        covariance = factors @ factors.swapaxes(1, 2)
        if structure == "diagonal":
            covariance = np.diagonal(covariance, axis1=1, axis2=2)
        models = mc.Gaussians(rng.normal(size=(19, 5)), covariance)
        return (lambda left, right: models[left].log_product(models[right], 0.5)), 19, 19

    return case


def points(order: int, d: int) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        series = [rng.normal(size=(size, d)) for size in (3, 9, 17, 8, 30, 5, 64)]
        kernel = mc.EmpiricalMeanMap(order=order, gamma=0.3, normalize=False)
        return (lambda left, right: kernel.log([series[i] for i in left], [series[j] for j in right])), 7, 7

    return case


def histories(states: int, zeros: bool) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        from mercer.models._history.operand import history_operand

        parent = [-1, 0, 0, 1, 1, 2, 5, 5, 5]
        transition = rng.dirichlet(np.ones(states), (9, states))
        transition[:, 0, 1:] *= not zeros
        evidence = np.log(rng.random((21, 9, states)))
        evidence[::6] *= 150  # some pairs leave the range of floats
        data = history_operand(parent, transition, np.full(states, 1 / states), evidence)
        return (lambda left, right: data[left].pair(data[right])), 21, 21

    return case


def runs(n: int, codes: int) -> Callable[[Any], Case]:
    """Expectations, log-likelihoods and best paths of sequences under models, one of which needs unlimited range."""
    from mercer.models._forward.interface import Densities, Runs, Symbols, expectations, log_likelihoods, paths

    def case(rng: Any) -> Case:
        length = rng.integers(1, 90, 37)
        start, total = np.cumsum(length) - length, int(length.sum())
        models = rng.dirichlet(np.ones(n), 4), rng.dirichlet(np.ones(n), (4, n))
        models[1][3] *= 10.0 ** -rng.uniform(0, 250, (n, n))
        symbols = Symbols(rng.integers(0, max(codes, 1), total), rng.dirichlet(np.ones(codes or 1), (4, n)))
        evidence = symbols if codes else Densities(rng.normal(scale=9.0, size=(total, n)))

        def compute(left: Any, right: Any) -> Any:
            own = Runs(np.tile(start[right], len(left)), np.tile(length[right], len(left)), np.repeat(left, len(right)))
            parts = [part for part in expectations(*models, evidence, own) if part is not None]
            parts += [log_likelihoods(*models, evidence, own), paths(*models, evidence, own)[1]]
            flat = np.concatenate([part.reshape(len(own.start), -1) for part in parts], axis=1)
            return flat.reshape(len(left), len(right), -1)

        return compute, 4, 37

    return case


def case_density_estimates(rng: Any) -> Case:
    models = mc.KDE(bandwidth=0.4).fit_each([rng.normal(size=(size, 2)) for size in (3, 9, 17, 8, 30, 5, 64)])
    return (lambda left, right: mc.ProbabilityProduct(rho=1, normalize=False).log(models[left], models[right])), 7, 7


def case_step_counts(rng: Any) -> Case:
    models, X = hmms(rng, 4, 3), ["".join(rng.choice(list("acgt"), k)) for k in rng.integers(2, 60, 21)]

    def compute(left: Any, right: Any) -> Any:
        strings = mc.Sequences([X[j] for j in right], alphabet="acgt")
        return np.stack([models[i : i + 1].hidden_chain().step_counts(strings) for i in left])

    return compute, 4, 21


def densities(structure: str) -> Callable[[Any], Case]:
    """Log densities of points, some of them incomplete, under the states of models."""
    from mercer.models._forward.evidence import row_log_prob

    def case(rng: Any) -> Case:
        factors = rng.normal(size=(4, 11, 3, 5))
        covariance = factors @ factors.swapaxes(-1, -2)
        if structure == "diagonal":
            covariance = np.diagonal(covariance, axis1=-2, axis2=-1)
        emission, x = mc.Gaussians(rng.normal(size=(4, 11, 3)), covariance), rng.normal(size=(23, 3))
        x[3, 0] = x[9, 1] = x[9, 2] = np.nan

        def compute(left: Any, right: Any) -> Any:
            points, owner = np.tile(x[right], (len(left), 1)), np.repeat(left, len(right))
            return row_log_prob(emission, points, owner).reshape(len(left), len(right), 11)

        return compute, 4, 23

    return case


def case_moments(rng: Any) -> Case:
    from mercer._native.moments import moments

    length = rng.integers(1, 50, 21)
    parts = np.split(np.arange(length.sum()), np.cumsum(length)[:-1])
    x, weights, center = rng.normal(size=(length.sum(), 3)), rng.random((length.sum(), 5)), rng.normal(size=(1, 5, 3))
    x[rng.random(x.shape) < 0.1] = np.nan

    def compute(left: Any, right: Any) -> Any:
        points = np.concatenate([parts[j] for j in right])
        offsets = np.concatenate([[0], np.cumsum(length[right])])
        own = weights[np.ix_(points, left)]
        found = moments(x[points], own, offsets, center[:, left], first=True, second=True, full=True)
        flat = np.concatenate([part.reshape(len(right), len(left), -1) for part in found], axis=-1)
        return flat.swapaxes(0, 1)

    return compute, 5, 21


def case_profiles(rng: Any) -> Case:
    from mercer.models._profile.inference import expected

    sizes = (3, 9, 17, 40)
    steps = [np.tile([0.9, 0.05, 0.05, 0.6, 0.4, 0.6, 0.4], (m + 1, 1)) for m in sizes]
    for step in steps:
        step[-1], step[0, 5:] = [0.9, 0.1, 0.0, 0.6, 0.4, 1.0, 0.0], [1.0, 0.0]
    match = [rng.dirichlet(np.full(4, 0.3), m) + 1e-60 * (m > 9) for m in sizes]
    insert = [rng.dirichlet(np.ones(4), m + 1) for m in sizes]
    models = mc.models.ProfileHMMs(match, insert, steps, "acgt", mode="unilocal")
    X = ["".join(rng.choice(list("acgt"), k)) for k in rng.integers(1, 60, 13)]

    def compute(left: Any, right: Any) -> Any:
        found = [expected(models, i, mc.Sequences([X[j] for j in right], alphabet="acgt")) for i in left]
        return np.stack([np.stack([one.log_odds, one.match[:, 1, 0], one.entry[:, 0]], axis=1) for one in found])

    return compute, 4, 13


def profile_products(same: bool) -> Callable[[Any], Case]:
    """Products of profiles of many sizes, some of which need unlimited range."""
    from mercer.models._profile.product import ProfileOperand

    def case(rng: Any) -> Case:
        sizes = np.array([1, 2, 3, 5, 8, 9, 17, 40, 7, 7, 30, 4, 33])
        steps = np.tile([0.9, 0.05, 0.05, 0.6, 0.4, 0.6, 0.4], (sum(sizes + 1), 1))
        steps[np.cumsum(sizes + 1) - 1] = [0.9, 0.1, 0.0, 0.6, 0.4, 1.0, 0.0]
        match, insert = rng.dirichlet(np.ones(4), sum(sizes)), rng.dirichlet(np.ones(4), sum(sizes + 1))
        match[-60:] *= 1e-70
        if same:
            insert[: len(insert) // 2] = 0.25
        operand = ProfileOperand.of(match, insert, steps, sizes, 1.0)
        return (lambda left, right: operand[left].pair(operand[right])), 13, 13

    return case


def contexts(order: int) -> Callable[[Any], Case]:
    from mercer._native.chains import context_products

    def case(rng: Any) -> Case:
        size = 4**order
        tables = rng.random((21, size)), rng.random((21, size, 4)), rng.random((21, size))
        for x in tables:
            x[::3] **= 60  # some pairs leave the range of floats

        def compute(left: Any, right: Any) -> Any:
            sides = (tuple(x[side] for x in tables) for side in (left, right))
            found = np.moveaxis(context_products(*sides, np.array([0, 3, 800])), 0, -1)
            return np.nan_to_num(found, nan=1.0)  # NaN is computed again, in logarithms

        return compute, 21, 21

    return case


def mixtures(components: int, shapes: bool) -> Callable[[Any], Case]:
    """Mixtures of scales, on the left, and the windows of series."""
    from mercer._native.mixtures import mixture_sums, window_points

    def case(rng: Any) -> Case:
        dilations = np.array([1, 2, 4, 8, 50])
        floor = 0.1 + rng.random((5, 2)) if shapes else None
        center, whitening = rng.normal(size=(5, 6)), rng.normal(size=(5, 6, 4))
        factors = rng.normal(size=(5, 11, components))
        factors[:, 5:10] = -np.exp(factors[:, 5:10])
        series = [rng.normal(size=(length, 2)) for length in range(1, 14)]

        def compute(left: Any, right: Any) -> Any:
            X = mc.Sequences([series[i] for i in right])
            own = None if floor is None else floor[left]
            steps = np.arange(len(X.values))
            points = window_points(X.values, X.offsets, steps, dilations[left], own, center[left], whitening[left])
            return mixture_sums(points, factors[left], X.offsets)

        return compute, 5, 13

    return case


KINDS = "affine", "ranged", "single", "local", "local ranged", "local single"
CASES = {name.removeprefix("case_"): case for name, case in list(globals().items()) if name.startswith("case_")}
CASES |= {f"pairs, {n} states": general_pairs(n) for n in (1, 2, 3, 4, 7)}
CASES |= {f"pairs, {kind}": affine_pairs(kind) for kind in KINDS}
CASES |= {f"filters, {n} states, {d} coordinates": filters(n, d) for n, d in ((1, 1), (4, 3), (3, 7))}
CASES |= {f"smoothers, {n} states, {d} coordinates": smoothers(n, d) for n, d in ((1, 1), (4, 3), (3, 7))}
CASES |= {f"pairs of systems, {n} states": system_pairs(n, 2) for n in (1, 3, 6)}
CASES |= {f"chains of {n} states": chains(n, 12) for n in (1, 3, 4, 6, 9)}
CASES |= {f"discounted chains of {n} states": chains(n, mc.Discounted(0.1)) for n in (2, 3, 9)}
CASES |= {f"windows of {order + 1} points": points(order, d) for order, d in ((0, 3), (1, 1), (2, 2))}
CASES |= {f"contexts of {order} symbols": contexts(order) for order in (0, 1, 2)}
CASES |= {f"products of profiles, {same}": profile_products(same) for same in (True, False)}
CASES |= {f"gaussians, {structure}": gaussians(structure) for structure in ("full", "diagonal")}
CASES |= {f"runs of {n} states, {k} symbols": runs(n, k) for n in (1, 3, 5, 8, 10, 23) for k in (0, 3, 40)}
CASES |= {f"mixtures of {k} components, {shapes}": mixtures(k, shapes) for k in (1, 7, 32) for shapes in (True, False)}
CASES |= {f"densities, {structure}": densities(structure) for structure in ("full", "diagonal")}
CASES |= {f"histories of {n} states": histories(n, False) for n in (1, 2, 3, 4, 6, 10, 13)}
CASES |= {f"histories of {n} states with zeros": histories(n, True) for n in (2, 10)}


def check(name: str) -> None:
    """Compare all pairs at once with every right member alone, and with another order of both sides."""
    rng = np.random.default_rng(0)
    compute, n, m = CASES[name](rng)
    rows, columns = np.arange(n), np.arange(m)
    whole = np.asarray(compute(rows, columns))
    assert np.isfinite(whole).all(), name
    alone = np.stack([np.asarray(compute(rows[:3], columns[j : j + 1]))[:, 0] for j in range(m)], axis=1)
    np.testing.assert_array_equal(whole[:3], alone, err_msg=f"{name}: alone")
    left, right = rng.permutation(n), rng.permutation(m)
    moved = np.asarray(compute(left, right))
    np.testing.assert_array_equal(whole[left][:, right], moved, err_msg=f"{name}: another order")


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        check(case)
        print(case)
