"""Pair HMMs with affine gaps as machines: likelihoods, scores and EM (MK-5b, MK-5d)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask, to_numpy
from mercer._native.pairs import Machine
from mercer.data import Sequences
from mercer.models._fitting.em import EMResult, em_single
from mercer.models._pairs.joint import lowest_eigenvalue
from mercer.models._pairs.machine import END, Gradients, by_itself, gradients, logs_of, machine_of
from mercer.models._scores.weighted import check_parametrization

RATES = ("continuation", "open", "extend", "flank_open", "flank_extend")
"""Fields of a batch; the last two are of local alignments."""
CONTINUATION, OPEN, EXTEND, FLANK_OPEN, FLANK_EXTEND = range(5)


class AffineParameters(NamedTuple):
    """The distributions of one model, extended to ambiguity codes, which sum over their symbols."""

    joint: Floats
    """Of two matched letters, ``(k, k)``."""
    insertion: Floats
    """``(k,)``."""
    rates: Floats
    """`RATES`: five numbers if alignments are local, else three."""
    membership: Floats
    """``(codes, k)``."""

    @classmethod
    def of(cls, model: Any, i: int = 0) -> AffineParameters:
        """Create from member ``i`` of a batch."""
        joint, insertion, *rates = (
            np.asarray(to_numpy(getattr(model, name))[i], dtype=np.float64)
            for name in ("joint", "insertion", *rates_of(model))
        )
        return cls(joint, insertion, np.array(rates), model.alphabet.membership)

    @property
    def is_local(self) -> bool:
        """Whether flanks have rates of their own."""
        return len(self.rates) > FLANK_OPEN

    @property
    def match(self) -> Floats:
        """Distribution of one letter of a match, ``(k,)``."""
        return np.asarray(self.joint.sum(axis=1))

    @property
    def joint_of_codes(self) -> Floats:
        """``(codes, codes)``."""
        return np.ascontiguousarray(self.membership @ self.joint @ self.membership.T)

    @property
    def insertion_of_codes(self) -> Floats:
        """``(codes,)``."""
        return np.ascontiguousarray(self.membership @ self.insertion)

    @property
    def flank(self) -> tuple[float, float]:
        """Open and extend of the letters before the first and after the last match; those of gaps if global."""
        opened, extended = self.rates[FLANK_OPEN:] if self.is_local else self.rates[OPEN:]
        return float(opened), float(extended)

    @property
    def mean_length(self) -> float:
        """Expected number of letters of a sequence."""
        c, o, e = map(float, self.rates[:3])
        matches, (opened, extended) = c / (1.0 - c), self.flank
        return matches + (matches - c) * o / (1.0 - e) + (1.0 + c) * opened / (1.0 - extended)


def rates_of(model: Any) -> tuple[str, ...]:
    """Return the names of the rates of a batch, global or local."""
    return RATES if model.is_local else RATES[:FLANK_OPEN]


class AffineMachine(NamedTuple):
    """A model as a machine, whose edges have a rate, or one minus a rate, as their weights."""

    machine: Machine
    rate: Indices
    """Which rate an edge has, ``(E,)``; -1 for none."""
    happens: Mask
    """Whether it has the rate itself, ``(E,)``."""
    n_matched: int
    """The table has so many numbers of matches; those of insertions follow."""

    @classmethod
    def of(cls, affine: AffineParameters, strings: int) -> AffineMachine:
        """Return the machine of single strings or of pairs."""
        members = affine.membership
        matched = affine.joint_of_codes if strings == 2 else members @ affine.match
        states: dict[str, Any] = {}
        edges: list[tuple[str, str, int, bool]] = []

        def choose(source: str, yes: str, no: str, rate: int) -> None:
            edges.extend([(source, yes, rate, True), (source, no, rate, False)])

        def runs(source: str, target: str, opened: int, extended: int) -> None:
            """Add a run of insertions into each string."""
            for given in range(1, strings + 1):
                run, after = f"{target} {given}", target if given == strings else f"{target} after {given}"
                states.update({run: (given, "inserted"), after: (0, None)})
                choose(source, run, after, opened)
                choose(run, run, after, extended)
                source = after

        match = (2**strings - 1, "matched")
        if affine.is_local:
            states["begin"] = (0, None)
            runs("begin", "ready", FLANK_OPEN, FLANK_EXTEND)
            states |= {"match": match, "more": (0, None), "last": (0, None)}
            choose("match", "more", "last", CONTINUATION)
            runs("more", "next", OPEN, EXTEND)
            runs("last", "done", FLANK_OPEN, FLANK_EXTEND)
            edges += [("next", "match", -1, True), ("done", END, -1, True)]
        else:
            states["match"] = match  # the begin, too
            runs("match", "ready", OPEN, EXTEND)
        choose("ready", "match", END, CONTINUATION)
        rate, happens = np.array([e[2] for e in edges]), np.array([e[3] for e in edges])
        given = np.append(affine.rates, 1.0)[rate]
        weights = np.where(happens, given, 1.0 - given)
        steps = [(source, target, weight) for (source, target, *_), weight in zip(edges, weights, strict=True)]
        tables = {"matched": matched, "inserted": affine.insertion_of_codes}
        return cls(machine_of(states, steps, tables, len(members)), rate, happens, matched.size)

    def rates(self, found: Gradients) -> tuple[Floats, Floats]:
        """Return gradients in the rates as free weights, and expected numbers of their chances, both ``(P, R)``."""
        counts = found.weights * self.machine.weights
        each = [(self.rate == r) for r in range(int(self.rate.max()) + 1)]
        free, chances = (
            [sum(values[:, e] for e in np.flatnonzero(some)) for some in chosen]
            for values, chosen in ((found.weights, [own & self.happens for own in each]), (counts, each))
        )
        return np.stack(free, axis=1), np.stack(chances, axis=1)


# -- single sequences -------------------------------------------------------------------------------------------


def log_probabilities(model: Any, X: Sequences) -> Floats:
    """Log probability of every sequence under every model, ``(N, M)``: the sum of kappa over all partners."""
    out, single = np.empty((len(model), len(X))), by_itself(X)
    for i in range(len(model)):
        out[i] = logs_of(AffineMachine.of(AffineParameters.of(model, i), 1).machine, X, *single)
    return out


def scores(model: Any, X: Sequences, parametrization: str = "logit") -> Floats:
    """Fisher scores of every sequence under every model, ``(N, M, P)`` (FK-7).

    Columns: continuation, open, extend, of local alignments also open and extend of flanks, then the letters of matches
    (k) and of insertions (k). With n the expected count of an outcome of probability p, and m that of all outcomes of
    its kind: ``"logit"`` is n - p m, ``"weight"`` is n / p - m, computed without the division.
    """
    check_parametrization(parametrization)
    out = np.empty((len(model), len(X), len(score_names(model))))
    for i in range(len(model)):
        out[i] = _scores_of_one(AffineParameters.of(model, i), X, parametrization)
    return out


def _scores_of_one(affine: AffineParameters, X: Sequences, parametrization: str) -> Floats:
    form = AffineMachine.of(affine, 1)
    found = gradients(form.machine, X, *by_itself(X), zeros=parametrization == "weight")
    excluded = np.flatnonzero(found.log_kernel == -np.inf)
    if len(excluded):
        raise ValueError(
            f"{X.name(excluded[0])} has probability zero under the model, so it has no score. Leave it out, or use a "
            "model without zeros."
        )
    free, chances = form.rates(found)
    blocks = [(free, affine.rates, chances)]
    parts, tables = (np.split(x, [form.n_matched], axis=-1) for x in (found.table, form.machine.table))
    for gradient, coded, p in zip(parts, tables, (affine.match, affine.insertion), strict=True):
        number = (gradient * coded).sum(axis=1, keepdims=True)
        blocks.append((gradient @ affine.membership, p, number))
    if parametrization == "weight":
        return np.concatenate([gradient - total for gradient, _, total in blocks], axis=1)
    return np.concatenate([p * (gradient - total) for gradient, p, total in blocks], axis=1)


def score_names(model: Any) -> list[str]:
    """Name the columns of the scores."""
    symbols = [str(symbol) for symbol in model.alphabet.symbols]
    letters = [f"{kind}[{symbol}]" for kind in ("match", "insertion") for symbol in symbols]
    return [*rates_of(model), *letters]


LEARNED = ("gaps", "letters", "substitution")
"""Parameters that EM can learn."""
SHORT_OF_THE_BORDER = 0.9
"""If a full step leaves the positive semi-definite matrices, this fraction of the way to their boundary is used."""


class _Expected(NamedTuple):
    """Expected counts of events, over all pairs."""

    matched: Floats
    """``(k, k)``."""
    letters: Floats
    """``(k,)``, of insertions."""
    yes: Floats
    """Events of every rate, ``(R,)``."""
    chances: Floats
    """Of these events, ``(R,)``."""


def em_pairs(
    start: AffineParameters,
    X: Sequences,
    pairs: tuple[Indices, Indices],
    learn: tuple[str, ...],
    strength: float,
    n_iter: int,
    tol: float,
) -> EMResult:
    """Maximize the sum of log kappa over pairs plus a log prior whose mode is the start.

    Each distribution has ``strength`` pseudo-counts, spread as in the start, so nothing that the start allows becomes
    impossible. The objective never decreases. EM stops once it grows by at most ``tol`` per symbol.
    """

    def expect(affine: AffineParameters) -> tuple[float, _Expected]:
        log_kernel, found = _expect(affine, X, pairs)
        return log_kernel + _log_prior(affine, start, learn, strength), found

    def maximize(affine: AffineParameters, found: _Expected) -> AffineParameters:
        return _maximize(affine, start, found, learn, strength)

    about = f"AffinePairHMM of {len(pairs[0])} pairs"
    symbols = max(1, sum(int(X.lengths[side].sum()) for side in pairs))
    return em_single(expect, maximize, start, n_iter, tol * symbols, about, "the model of all data")


def _expect(affine: AffineParameters, X: Sequences, pairs: tuple[Indices, Indices]) -> tuple[float, _Expected]:
    """Return the sum of log kernels and the expected counts over all pairs."""
    form = AffineMachine.of(affine, 2)
    found = gradients(form.machine, X, X, *pairs)
    if not np.isfinite(found.log_kernel).all():
        first, second = (side[np.flatnonzero(~np.isfinite(found.log_kernel))[0]] for side in pairs)
        raise ValueError(
            f"{X.name(first)} and {X.name(second)} have joint probability zero at the start of EM, so nothing can be "
            "learned from them. Use a start without zeros, such as a positive open_probability and extend_probability."
        )
    free, chances = (x.sum(axis=0) for x in form.rates(found))
    matched, inserted = np.split(found.table.sum(axis=0), [form.n_matched])
    members = affine.membership  # a code is distributed over its letters by their probabilities
    matched = affine.joint * (members.T @ matched.reshape(len(members), -1) @ members)
    counts = _Expected(matched, affine.insertion * (inserted @ members), affine.rates * free, chances)
    return float(found.log_kernel.sum()), counts


def _log_prior(affine: AffineParameters, start: AffineParameters, learn: tuple[str, ...], strength: float) -> float:
    """Log prior up to a constant: ``strength`` pseudo-counts per learned distribution, spread as in the start."""
    if strength == 0:  # probabilities may become zero then; 0 log 0 = 0
        return 0.0
    value = 0.0
    if "gaps" in learn:
        value += _cross(affine.rates, start.rates) + _cross(1 - affine.rates, 1 - start.rates)
    if "letters" in learn:
        value += _cross(affine.insertion, start.insertion)
    if "substitution" in learn:
        value += _cross(affine.joint, start.joint)
    return strength * value


def _cross(now: Floats, then: Floats) -> float:
    """Return sum then log now, where 0 log 0 = 0."""
    seen = then > 0
    return float((then[seen] * np.log(now[seen])).sum())


def _maximize(
    affine: AffineParameters, start: AffineParameters, found: _Expected, learn: tuple[str, ...], strength: float
) -> AffineParameters:
    """Refit the distributions to the expected counts."""
    if "gaps" in learn:
        total = found.chances + strength
        seen = np.where(total > 0, total, 1.0)
        affine = affine._replace(rates=np.where(total > 0, (found.yes + strength * start.rates) / seen, start.rates))
    if "letters" in learn:
        insertion = found.letters + strength * start.insertion
        if insertion.sum() > 0:
            affine = affine._replace(insertion=insertion / insertion.sum())
    if "substitution" in learn:
        joint = (found.matched + found.matched.T) / 2 + strength * start.joint
        if joint.sum() > 0:
            affine = affine._replace(joint=_toward(affine.joint, joint / joint.sum()))
    return affine


def _toward(old: Floats, new: Floats) -> Floats:
    """Go from ``old`` to ``new``, as far as the matrices between them are positive semi-definite.

    The objective is concave on this line with its maximum at ``new``, so any step along it increases the objective.
    The positive semi-definite matrices are convex, so the feasible steps are an interval. Stopping short of its end
    leaves room for the next step.
    """

    def stays(step: float) -> bool:
        return bool(lowest_eigenvalue(old + step * (new - old)) >= -1e-13)

    if stays(1.0):
        return new
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if stays(middle) else (low, middle)
    return np.asarray(old + SHORT_OF_THE_BORDER * low * (new - old))
