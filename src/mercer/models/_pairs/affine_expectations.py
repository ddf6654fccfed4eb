"""Expectations under pair HMMs with affine gaps: likelihoods and scores of single sequences, and matches (MK-5b)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._native.pairs import affine_single, ranged_affine
from mercer.data import Sequences
from mercer.models._scores.weighted import check_parametrization


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
        out[i] = _single(AffineParameters.of(model, i), X)
    return out


def _single(affine: AffineParameters, X: Sequences, gradients: tuple[Floats, Floats, Floats] | None = None) -> Floats:
    rates = np.array([affine.open, affine.extend, affine.continuation, *affine.flank_or_gap])
    return affine_single((X.values, X.offsets), affine.match_of_codes, affine.insertion_of_codes, rates, gradients)


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
    codes, local = len(affine.membership), affine.flank is not None
    events, matched, letters = (np.zeros((len(X), n)) for n in (6, codes, codes))
    excluded = np.flatnonzero(_single(affine, X, (events, matched, letters)) == -np.inf)
    if len(excluded):
        raise ValueError(
            f"{X.name(excluded[0])} has probability zero under the model, so it has no score. Leave it out, or use a "
            "model without zeros."
        )
    parameters = np.array([affine.continuation, affine.open, affine.extend, *(affine.flank or ())])
    unmatched = events[:, 5:]
    if not local:
        events[:, 1:3] += events[:, 3:5]  # flanks are gaps
    events = events[:, : len(parameters)]
    numbers = events * parameters
    matches, inserted = numbers[:, :1], numbers[:, 1:2] + numbers[:, 2:3]
    if local:
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
        return np.concatenate([ratio - total for ratio, _, total in blocks], axis=1)
    return np.concatenate([p * (ratio - total) for ratio, p, total in blocks], axis=1)


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
