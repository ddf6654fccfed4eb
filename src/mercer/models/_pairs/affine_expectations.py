"""Expectations under pair HMMs with affine gaps: likelihoods and scores of single sequences, and matches (MK-5b)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._native.pairs import ranged_affine
from mercer._probability import ratio
from mercer.data import Sequences
from mercer.models._forward.interface import Runs, Symbols, expectations, log_likelihoods
from mercer.models._pairs.general_single import ended
from mercer.models._scores.scores import ratios
from mercer.models._scores.weighted import TINY, check_parametrization


class Flank(NamedTuple):
    """Distribution of the letters before the first and after the last match of local alignments (MK-5d)."""

    open: float
    extend: float


class AffineParameters(NamedTuple):
    """The distributions of one model, extended to ambiguity codes, which sum over their symbols."""

    joint: Floats
    insertion: Floats
    open: float
    extend: float
    continuation: float
    membership: Floats
    """``(codes, k)``."""
    flank: Flank | None = None
    """None if alignments are global."""

    @classmethod
    def of(cls, model: Any, i: int = 0) -> AffineParameters:
        """Create from member ``i`` of a batch."""
        joint, insertion = (np.asarray(to_numpy(x)[i], dtype=np.float64) for x in (model.joint, model.insertion))
        opened, extended, goes_on = (float(to_numpy(x)[i]) for x in (model.open, model.extend, model.continuation))
        flank = None
        if model.is_local:
            flank = Flank(*(float(to_numpy(x)[i]) for x in (model.flank_open, model.flank_extend)))
        return cls(joint, insertion, opened, extended, goes_on, model.alphabet.membership, flank)

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
    def of_codes(self) -> tuple[Floats, Floats, Floats]:
        """Parameters of the recursions over pairs of codes: joint, insertion, and `rates`."""
        return self.joint_of_codes, self.insertion_of_codes, self.rates

    @property
    def rates(self) -> Floats:
        """Open, extend, continuation, and if alignments are local, open and extend of flanks."""
        return np.array([self.open, self.extend, self.continuation, *(self.flank or ())])

    @property
    def flank_or_gap(self) -> Flank:
        """Distribution of the letters before the first and after the last match; that of gaps if global."""
        return Flank(self.open, self.extend) if self.flank is None else self.flank

    @property
    def mean_length(self) -> float:
        """Expected number of letters of a sequence."""
        matches, (opened, extended) = self.continuation / (1.0 - self.continuation), self.flank_or_gap
        gaps = (matches - self.continuation) * self.open / (1.0 - self.extend)
        return matches + gaps + (1.0 + self.continuation) * opened / (1.0 - extended)

    @property
    def match_of_codes(self) -> Floats:
        """``(codes,)``."""
        return np.ascontiguousarray(self.membership @ self.match)


# -- single sequences -------------------------------------------------------------------------------------------


def log_probabilities(model: Any, X: Sequences) -> Floats:
    """Log probability of every sequence under every model, ``(N, M)``: the sum of kappa over all partners."""
    out = np.empty((len(model), len(X)))
    for i in range(len(model)):
        initial, transition, evidence, offsets = _chain(AffineParameters.of(model, i), X)
        out[i] = log_likelihoods(initial, transition, evidence, Runs.shared(offsets))
    return out


def _chain(affine: AffineParameters, X: Sequences) -> tuple[Floats, Floats, Symbols, Floats]:
    """Convert the model to a hidden Markov model of single strings: initial, transition, evidence and offsets.

    States are insertion, match and the end; of local alignments the flank before the first match, match, insertion, the
    flank after the last match, and the end.
    """
    o, e, c, q = affine.open, affine.extend, affine.continuation, affine.insertion_of_codes
    if affine.flank is None:
        initial = [o, (1 - o) * c, (1 - o) * (1 - c)]
        transition = [[e, (1 - e) * c, (1 - e) * (1 - c)], initial, [0.0, 0.0, 1.0]]
        letters = [q, affine.match_of_codes]
    else:
        fo, fe = affine.flank
        initial = [fo, (1 - fo) * c, 0.0, 0.0, (1 - fo) * (1 - c)]
        transition = [
            [fe, (1 - fe) * c, 0.0, 0.0, (1 - fe) * (1 - c)],
            [0.0, c * (1 - o), c * o, (1 - c) * fo, (1 - c) * (1 - fo)],
            [0.0, 1 - e, e, 0.0, 0.0],
            [0.0, 0.0, 0.0, fe, 1 - fe],
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
        letters = [q, affine.match_of_codes, q, q]
    return np.array([initial]), np.array([transition]), *ended(X, np.stack(letters))


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
    initial, transition, evidence, offsets = _chain(affine, X)
    found, local = expectations(initial, transition, evidence, Runs.shared(offsets)), affine.flank is not None
    excluded = np.flatnonzero(found.log_prob == -np.inf)
    if len(excluded):
        raise ValueError(
            f"{X.name(excluded[0])} has probability zero under the model, so it has no score. Leave it out, or use a "
            "model without zeros."
        )
    parameters = np.array([affine.continuation, affine.open, affine.extend, *(affine.flank or ())])
    least = min(x.min() for x in (parameters, affine.match, affine.insertion))
    if parametrization == "weight" and least <= TINY:
        divided: Any = ratios(initial, transition, evidence, offsets, X.name)
    else:
        counted: Any = (found.first, found.transitions, found.symbols)
        divided = map(ratio, counted, (initial, transition, evidence.probability))
    events, matched, letters = _gradients(affine, *divided)
    numbers = events * parameters
    matches, inserted = numbers[:, :1], numbers[:, 1:2] + numbers[:, 2:3]
    if local:
        unmatched = found.first[:, 4:] + found.transitions[:, 0, 4:]
        # A run may begin after every match except the last; a flank at the start, and after the last match.
        flanked = numbers[:, 3:4] + numbers[:, 4:]
        chances = np.concatenate([matches + 1, matches - 1 + unmatched, inserted, 2 - unmatched, flanked], axis=1)
        inserted = inserted + flanked
    else:
        # A run may begin at the start and after every match.
        chances = np.concatenate([matches + 1, matches + 1, inserted], axis=1)
    blocks = [
        (events, parameters, chances),
        (matched @ affine.membership, affine.match, matches),
        (letters @ affine.membership, affine.insertion, inserted),
    ]
    if parametrization == "weight":
        return np.concatenate([gradient - total for gradient, _, total in blocks], axis=1)
    return np.concatenate([p * (gradient - total) for gradient, p, total in blocks], axis=1)


def _gradients(affine: AffineParameters, first: Floats, moves: Floats, symbols: Floats) -> tuple[Floats, ...]:
    """Gradients in the rates and in the codes of matches and insertions as free weights, from those of the chain."""
    o, e, c, coded = affine.open, affine.extend, affine.continuation, symbols[..., :-1]
    if affine.flank is None:
        more = (1 - o) * (first[:, 1] + moves[:, 1, 1]) + (1 - e) * moves[:, 0, 1]
        return np.stack([more, first[:, 0] + moves[:, 1, 0], moves[:, 0, 0]], axis=1), coded[:, 1], coded[:, 0]
    fo, fe = affine.flank
    more = (1 - fo) * first[:, 1] + (1 - fe) * moves[:, 0, 1] + (1 - o) * moves[:, 1, 1] + o * moves[:, 1, 2]
    gaps = c * moves[:, 1, 2], moves[:, 2, 2]
    flanks = first[:, 0] + (1 - c) * moves[:, 1, 3], moves[:, 0, 0] + moves[:, 3, 3]
    return np.stack([more, *gaps, *flanks], axis=1), coded[:, 1], coded[:, 0] + coded[:, 2] + coded[:, 3]


def score_names(model: Any) -> list[str]:
    """Name the columns of the scores."""
    symbols = [str(symbol) for symbol in model.alphabet.symbols]
    letters = [f"{kind}[{symbol}]" for kind in ("match", "insertion") for symbol in symbols]
    flanks = ["flank_open", "flank_extend"] if model.is_local else []
    return ["continuation", "open", "extend", *flanks, *letters]


# -- pairs ------------------------------------------------------------------------------------------------------


def pair_posterior(model: Any, s: Floats, t: Floats) -> tuple[Floats, float]:
    """Posterior probability of every match of two sequences of codes, ``(n, m)``, and the log kernel."""
    affine, codes = AffineParameters.of(model), len(model.alphabet.membership)
    probability = np.zeros((len(s), len(t)))
    counts = np.zeros((1, codes, codes)), np.zeros((1, codes)), np.zeros((1, 5))
    left, right = ((x, np.array([0, len(x)])) for x in (s, t))
    one = np.zeros(1, dtype=np.int64)
    return probability, float(ranged_affine(affine.of_codes, left, right, one, one, counts, probability)[0])
