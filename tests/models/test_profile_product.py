"""Products of profile HMMs (PPK-4.2d): against the dense joint chain, enumeration, and degenerate profiles."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from mercer.models._profile.product import ProfileOperand


class Profile(NamedTuple):
    match: np.ndarray
    insert: np.ndarray
    transitions: np.ndarray


def square(profiles):
    return profiles.pair(profiles)


def profile(rng: np.random.Generator, nodes: int, letters: int = 3, zeros: float = 0.0) -> Profile:
    def rows(count: int, width: int) -> np.ndarray:
        x = rng.dirichlet(np.ones(width), count)
        x[rng.random(x.shape) < zeros] = 0.0
        x[x.sum(axis=1) == 0] = 1.0
        return x / x.sum(axis=1, keepdims=True)

    m, i, d = rows(nodes + 1, 3), rows(nodes + 1, 2), rows(nodes + 1, 2)
    m[-1, 2] = 0.0
    m[-1] = m[-1] / m[-1].sum() if m[-1].sum() > 0 else [1.0, 0.0, 0.0]
    d[-1] = [1.0, 0.0]
    i[i[:, 0] == 0] = [0.1, 0.9]  # an insertion ends
    return Profile(rows(nodes, letters), rows(nodes + 1, letters), np.hstack([m, i, d]))


def operand(profiles: list[Profile], rho: float = 1.0) -> ProfileOperand:
    stacked = [np.concatenate(part) for part in zip(*profiles, strict=True)]
    return ProfileOperand.of(*stacked, [len(p.match) for p in profiles], rho)


MOVES = {"M": ((0, "M", 1), (1, "I", 0), (2, "D", 1)), "I": ((3, "M", 1), (4, "I", 0)), "D": ((5, "M", 1), (6, "D", 1))}


def states(p: Profile, rho: float) -> tuple[np.ndarray, ...]:
    """Return the plain state space: start, transitions, emissions and stop of M_1.., I_0.., D_1.., one by one."""
    n, t = len(p.match), p.transitions**rho
    names = [("M", k) for k in range(1, n + 1)] + [("I", k) for k in range(n + 1)] + [("D", k) for k in range(1, n + 1)]
    index = {name: s for s, name in enumerate(names)}
    step, start, stop = np.zeros((len(names), len(names))), np.zeros(len(names)), np.zeros(len(names))
    emission = np.zeros((len(names), p.match.shape[1]))
    for (kind, k), s in [*index.items(), (("M", 0), -1)]:
        if s >= 0 and kind != "D":
            emission[s] = (p.match[k - 1] if kind == "M" else p.insert[k]) ** rho
        for column, to, ahead in MOVES[kind]:
            target = index.get((to, k + ahead))
            if target is None:
                if to == "M" and s >= 0:
                    stop[s] = t[k, column]
            elif s >= 0:
                step[s, target] = t[k, column]
            else:
                start[target] = t[k, column]
    return start, step, emission, stop


def emitting(p: Profile, rho: float) -> tuple[Any, ...]:
    """Return the chain of emitting states, the silent ones eliminated by a matrix inverse, and the weight of ''."""
    start, step, emission, stop = states(p, rho)
    n = 2 * len(p.match) + 1
    runs = np.linalg.inv(np.eye(len(step) - n) - step[n:, n:])
    direct = step[:n, :n] + step[:n, n:] @ runs @ step[n:, :n]
    first = start[:n] + start[n:] @ runs @ step[n:, :n]
    last = stop[:n] + step[:n, n:] @ runs @ stop[n:]
    return first, direct, emission[:n], last, float(start[n:] @ runs @ stop[n:])


def dense(p: Profile, q: Profile, rho: float = 1.0) -> float:
    """Return the kernel by a linear system in all pairs of emitting states, (I - T)^-1."""
    a, b = emitting(p, rho), emitting(q, rho)
    psi = (a[2] @ b[2].T).ravel()
    joint = np.kron(a[1], b[1]) * psi
    visits = np.linalg.solve(np.eye(len(psi)) - joint.T, np.kron(a[0], b[0]) * psi)
    return float(visits @ np.kron(a[3], b[3]) + a[4] * b[4])


def probability(p: Profile, x: tuple[int, ...]) -> float:
    """Return p(x), by the chain of emitting states."""
    first, direct, emission, last, empty = emitting(p, 1.0)
    if not x:
        return empty
    weight = first * emission[:, x[0]]
    for symbol in x[1:]:
        weight = (weight @ direct) * emission[:, symbol]
    return float(weight @ last)


@pytest.mark.parametrize("rho", [0.5, 1.0, 1.7])
def test_the_dense_joint_chain_is_solved(rho: float) -> None:
    rng = np.random.default_rng(0)
    profiles = [profile(rng, nodes) for nodes in (1, 2, 3, 5, 1, 4, 2, 6, 3)]
    for p in profiles[1::3]:  # the longest, too, which has a vector of its own
        p.insert[:] = p.insert[0]
    truth = np.log([[dense(p, q, rho) for q in profiles] for p in profiles])
    found = square(operand(profiles, rho))
    np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found, found.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operand(profiles, rho).alone(), np.diag(truth), rtol=1e-11, atol=1e-11)


def test_the_strings_are_enumerated() -> None:
    rng = np.random.default_rng(1)
    p, q = profile(rng, 2, letters=2), profile(rng, 1, letters=2)
    p.transitions[:, 4], p.transitions[:, 3] = 0.2, 0.8
    total, seen = 0.0, 0.0
    for length in range(12):
        for x in itertools.product(range(2), repeat=length):
            a = probability(p, x)
            total += a * probability(q, x)
            seen += a
    found = np.exp(operand([p]).pair(operand([q])))[0, 0]
    assert total <= found * (1 + 1e-12)
    assert found <= total + (1 - seen)  # q(x) <= 1 for the strings that are left
    assert 1 - seen < 2e-5


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 0.6]), st.sampled_from([0.5, 1.0, 2.0]))
def test_zeros_and_sizes(seed: int, zeros: float, rho: float) -> None:
    rng = np.random.default_rng(seed)
    profiles = [profile(rng, int(rng.integers(1, 6)), zeros=zeros) for _ in range(4)]
    found = square(operand(profiles, rho))
    with np.errstate(divide="ignore"):
        truth = np.log([[max(dense(p, q, rho), 0.0) for q in profiles] for p in profiles])
    np.testing.assert_allclose(np.exp(found), np.exp(truth), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("stay", [0.0, 1 - 1e-9])
def test_insertions_that_do_not_or_hardly_end(stay: float) -> None:
    rng = np.random.default_rng(2)
    p, q = profile(rng, 3), profile(rng, 2)
    for x in (p, q):
        x.insert[:] = [1.0, 0.0, 0.0]  # the loops of two insertions never disagree
        x.transitions[:, 3], x.transitions[:, 4] = 1 - stay, stay
    np.testing.assert_allclose(square(operand([p, q]))[0, 1], np.log(dense(p, q)), rtol=1e-6)


def test_loops_that_diverge_are_infinite_if_a_path_enters_them() -> None:
    rng = np.random.default_rng(3)
    p = profile(rng, 2)
    p.transitions[:, 3:5] = 0.1, 0.9
    p.insert[:] = 1 / 3
    q = Profile(p.match, p.insert, p.transitions.copy())
    q.transitions[:, :3] = [0.9, 0.0, 0.1]
    q.transitions[-1, :3] = [1.0, 0.0, 0.0]
    found = square(operand([p, q], rho=0.1))  # 3^0.8 0.9^0.2 > 1
    assert found[0, 0] == np.inf
    np.testing.assert_allclose(found[1], np.log([dense(q, p, 0.1), dense(q, q, 0.1)]), rtol=1e-12)


def exact(p: Profile, q: Profile) -> float:
    """Return the log kernel from all states of both, silent ones too, with numbers of any size."""
    with mp.workdps(50):
        chains = []
        for x in (p, q):
            start, step, emission, stop = (np.vectorize(mp.mpf)(y) for y in states(x, 1.0))
            n = 2 * len(x.match) + 1
            runs = np.array(list((mp.eye(len(step) - n) - mp.matrix(step[n:, n:].tolist())) ** -1)).reshape(
                len(step) - n, -1
            )
            after = [y + z @ runs @ w for y, z, w in (
                (start[:n], start[n:], step[n:, :n]), (step[:n, :n], step[:n, n:], step[n:, :n]),
                (stop[:n], step[:n, n:], stop[n:]),
            )]  # fmt: skip
            chains.append((*after, emission[:n], start[n:] @ runs @ stop[n:]))
        (first, step, last, emits, none), (other, more, end, letters, nothing) = chains
        psi = (emits @ letters.T).ravel()
        joint = mp.eye(len(psi)) - mp.matrix((np.kron(step, more) * psi).T.tolist())
        visits = np.array(list(mp.lu_solve(joint, mp.matrix((np.kron(first, other) * psi).tolist()))))
        return float(mp.log(visits @ np.kron(last, end) + none * nothing))


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_of_any_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = profile(rng, 2, letters=2), profile(rng, 3, letters=2)
    for x in (p, q):
        for part in x:
            part *= 10.0 ** rng.choice([0.0, -40.0, -290.0], part.shape)
    np.testing.assert_allclose(operand([p]).pair(operand([q]))[0, 0], exact(p, q), rtol=1e-12)


@pytest.mark.slow
def test_long_profiles_neither_underflow_nor_depend_on_their_neighbors() -> None:
    rng = np.random.default_rng(4)
    profiles = [profile(rng, nodes, letters=20) for nodes in (1, 700, 40, 600, 7, 90, 2, 1, 33)]
    some = operand(profiles)
    found = square(some)
    assert found[1, 3] < -745
    np.testing.assert_allclose(found[[1, 5]], some[[1, 5]].pair(some, ranged=True), rtol=1e-13, atol=1e-12)
    np.testing.assert_array_equal(some[[3, 5]].pair(some[[1, 8]]), found[np.ix_([3, 5], [1, 8])])
    scale = some.alone() / 2
    normalized = np.exp(found - scale[:, None] - scale)
    assert np.linalg.eigvalsh((normalized + normalized.T) / 2).min() > -1e-12
    assert normalized.max() <= 1 + 1e-12


def test_paths_far_below_their_neighbors_are_not_lost() -> None:
    """The only common string needs a run of improbable deletions; all other paths are probable, but lead nowhere."""
    n, tiny = 60, 2.0**-55
    match = np.tile([1.0, 0.0, 0.0], (n, 1))
    match[-1] = [0.0, 1.0, 0.0]
    insert = np.tile([1.0, 0.0, 0.0], (n + 1, 1))
    transitions = np.tile([1.0, 0.0, 0.0, 1.0, 0.0, 1 - tiny, tiny], (n + 1, 1))
    transitions[0, :3] = [1 - tiny, 0.0, tiny]
    transitions[n - 1], insert[n - 1] = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    transitions[n] = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    p = operand([Profile(match, insert, transitions)])
    q = operand([Profile(match[-1:], insert[:2], np.array([[0.5, 0.5, 0.0, 0.5, 0.5, 1.0, 0.0]] * 2))])
    assert p.pair(q) == p.pair(q, ranged=True)
    np.testing.assert_allclose(p.pair(q)[0, 0], (n - 1) * np.log(tiny) + 2 * np.log(0.5), rtol=1e-12)


def test_an_empty_side() -> None:
    some = operand([profile(np.random.default_rng(6), 2)])
    assert some[:0].pair(some).shape == (0, 1)
    assert some.pair(some[:0]).shape == (1, 0)
