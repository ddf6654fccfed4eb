"""Pair HMMs with affine gaps from substitution matrices and costs, or fitted to pairs of sequences (MK-5b, MK-5d)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._checks import is_choice, is_number
from mercer._notices import notify
from mercer._parameters import NONE, Rules, between, boolean, instance_of, one_of, positive
from mercer._random import seed_of
from mercer.data import Alphabet, Sequences
from mercer.data.alphabet import ALPHABET
from mercer.families.estimator import Context, strength
from mercer.models._fitting.iterative import learned
from mercer.models._pairs.affine import LEARNED, RATES, AffineParameters, em_pairs
from mercer.models._pairs.drawn import drawn_pairs
from mercer.models._pairs.estimator import PairEstimator
from mercer.models._pairs.substitution import joint_of, natural_alphabet
from mercer.models.pairhmm_affine import AffinePairHMMs, LocalPairHMMs

DEFAULT_MATRIX = "BLOSUM62"
HALF_BIT = float(np.log(2.0)) / 2
DEFAULT_COSTS = {"open": 11.0, "extend": 1.0}
"""In half bits, the unit of BLOSUM62."""
NOT_WITH_INIT = (
    "substitution", "gap_open", "gap_extend", "matrix_scale", "background", "open_probability", "extend_probability",
    "continuation", "flank_extend",
)  # fmt: skip
LEAST_CONTINUATION = 0.01
"""Value of ``continuation`` if the insertions by themselves are longer than the training data."""


@dataclass(eq=False, repr=False)
class AffinePairHMM(PairEstimator):
    r"""A pair HMM with affine gaps: a distribution of pairs of sequences that share hidden matches.

    Parameters
    ----------
    substitution : str, Biopython Array, array of shape (k, k), DataFrame, dict, (match, mismatch) or None, default=None
        Scores of substitutions: "BLOSUM62"; the name of another matrix ("PAM250", "NUC.4.4", ...; needs Biopython);
        scores in the order of the alphabet, or with letters as labels; ``{("A", "R"): -1, ...}``; or two numbers such
        as ``(2, -3)``. None is BLOSUM62 unless ``joint`` is given.
    gap_open, gap_extend : float or None, default=None
        What the first residue of a gap costs, and every further one: positive, in the units of the matrix, as EMBOSS
        and Biopython have it. (BLAST's "11, 1" is ``gap_open=12, gap_extend=1``.) None: 11 and 1 half bits, whatever
        the unit.
    matrix_scale : float or None, default=None
        Natural logarithms per unit of the matrix. None: the unit that it is printed in (BLOSUM62: half bits,
        ln 2 / 2), else the one at which its scores are log odds.
    background : array of shape (k,), Series, dict or None, default=None
        Distribution of a letter. None: the one that matrix and scale imply, where it is positive, else the letters of
        the training data.
    open_probability, extend_probability : float or None, default=None
        Probability that a gap begins, and that it goes on, in place of the costs.
    continuation : float or None, default=None
        Probability of one more match. None: the mean length of the training data becomes about that of the model
        (the mean number of matches is a power of two, so that the folds of a search share their pairs). With ``local``,
        half of the mean length is matched.
    alphabet : Alphabet, str, iterable or None, default=None
        The letters; None takes those of `Sequences`, else proteins or DNA as the matrix has it, else finds them in the
        training data.
    unknown : {"raise", "missing"}, default="raise"
        How to treat a symbol outside the alphabet.
    local : bool, default=False
        Whether alignments are local: the letters before the first match and after the last one, the flanks, have a
        distribution of their own, so that unrelated ends cost little.
    flank_extend : float or None, default=None
        With ``local``, the probability that a flank has one more letter. None: a flank is about a quarter of the mean
        length of the training data (rounded to a power of two), on average.
    learn : tuple of {"gaps", "letters", "substitution"}, default=("gaps", "letters", "substitution")
        What EM learns: the probabilities of gaps, flanks and ``continuation``; the distributions of inserted and of
        matched letters.
    n_pairs : int, default=500
        Maximum number of pairs of training sequences for EM: pairs of one class of y, or any without y.
    prior_strength : float, default=10.0
        Weight of the start in each distribution that EM learns, as a number of outcomes.
    n_iter : int, default=0
        Largest number of EM iterations. With 0, as a substitution matrix and costs are usually given, nothing is
        learned from pairs.
    tol : float, default=1e-4
        Stop if the objective per symbol grows by at most this value; with 0 there are always ``n_iter`` iterations.
    init : AffinePairHMMs or LocalPairHMMs of shape (1,), or None, default=None
        A model of your own, in place of a matrix, costs and ``local``: the start of EM, and without EM the model.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the draw of pairs; None draws a new one in every fit.

    Attributes
    ----------
    model_ : AffinePairHMMs or LocalPairHMMs of shape (1,)
        The model learned by ``fit``; the latter with ``local``.
    context_ : Context
        The alphabet.
    matrix_scale_ : float or None
        Natural logarithms per unit of the matrix, as it was used; None with ``init``.
    n_iter_ : int
        Iterations of EM.
    converged_ : bool
        Whether EM converged before ``n_iter``; without EM there was nothing to wait for, and it is True.
    objective_ : ndarray of shape (iterations,)
        Sum of the log kernels of the pairs plus the log prior (up to a constant), before every iteration; never
        decreases.

    Notes
    -----
    With u the scale, :math:`J_{ab} = q_a q_b e^{u S_{ab}}` (normalized) are the probabilities of matched letters,
    :math:`o = e^{-u\,\mathrm{open}}` and :math:`e = e^{-u\,\mathrm{extend}}` those of a gap (MK-5b). A J that is not
    positive semi-definite raises an error. The mean length is :math:`E[N] + (E[N] + 1)\, o / (1 - e)` with
    :math:`E[N] = c / (1 - c)`; if the insertions by themselves are longer than the training data, c is 0.01.

    With ``local`` (MK-5d), each string has a flank before its first match and one after its last: none with probability
    1 - ``flank_open``, else a geometric number of letters. With flanks like gaps the model is the global one.

    EM maximizes the sum of :math:`\log \kappa(s, t)` over pairs, a composite likelihood. The new J is as far on the
    line to the expected pairs of letters as it stays positive semi-definite, so that every iteration is a gain.

    Examples
    --------
    >>> import mercer as mc
    >>> pairs = mc.AffinePairHMM((2, -3), alphabet="dna", gap_open=5, gap_extend=2).fit(
    ...     ["ACGTAC", "ACGAC", "TTGT"]
    ... )
    >>> (
    ...     round(pairs.matrix_scale_, 4),
    ...     pairs.model_.open.round(4),
    ...     pairs.model_.extend.round(4),
    ... )
    (0.6337, array([0.0421]), array([0.2815]))
    >>> pairs.score_samples(["ACG", ""]).round(2)
    array([-6.46, -1.65])
    """

    _parameters: ClassVar[Rules] = {
        "alphabet": ALPHABET,
        "unknown": one_of("raise", "missing"),
        "continuation": between(0, 1, "left", "It is the probability of one more match.") | NONE,
        "matrix_scale": positive("It is the unit of the scores in natural logarithms: log(2) / 2 for half bits.")
        | NONE,
        "prior_strength": strength("outcomes"),
        "local": boolean(),
        "init": instance_of(AffinePairHMMs, cure="Pass AffinePairHMMs or LocalPairHMMs of shape (1,).") | NONE,
        "flank_extend": between(0, 1, "left", "It is the probability of one more letter, not a cost.") | NONE,
    }

    substitution: Any = None
    gap_open: float | None = None
    gap_extend: float | None = None
    matrix_scale: float | None = None
    background: Any = None
    open_probability: float | None = None
    extend_probability: float | None = None
    continuation: float | None = None
    alphabet: Any = None
    unknown: str = "raise"
    local: bool = False
    flank_extend: float | None = None
    learn: tuple[str, ...] = LEARNED
    n_pairs: int = 500
    prior_strength: float = 10.0
    n_iter: int = 0
    tol: float = 1e-4
    init: Any = None
    random_state: Any = 0

    # -- parameters ---------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.init is not None:
            for name in NOT_WITH_INIT:
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} and init exclude each other: init is a whole model. Leave one out.")
        for kind in ("open", "extend"):
            self._check_gap(f"gap_{kind}", f"{kind}_probability")
        if self.flank_extend is not None and not self.local:
            raise ValueError(
                f"flank_extend = {self.flank_extend!r} needs local=True; flanks of global alignments are gaps."
            )
        self._learned()

    def _learned(self) -> tuple[str, ...]:
        """Return the names of what EM learns."""
        if not isinstance(self.learn, str | tuple | list | set | frozenset):
            raise ValueError(f"learn must be some of {', '.join(map(repr, LEARNED))}; got {self.learn!r}.")
        named = (self.learn,) if isinstance(self.learn, str) else tuple(self.learn)
        odd = [part for part in named if not is_choice(part, LEARNED)]
        if odd:
            raise ValueError(
                f"learn must be some of {', '.join(map(repr, LEARNED))}; got {odd[0]!r} in {self.learn!r}."
            )
        return named

    def _check_gap(self, cost_name: str, probability_name: str) -> None:
        cost, probability = getattr(self, cost_name), getattr(self, probability_name)
        if cost is not None and probability is not None:
            raise ValueError(f"{cost_name} and {probability_name} exclude each other. Use one of them.")
        if cost is not None and (not is_number(cost) or not cost > 0):
            cure = f" Use {-cost:g}." if is_number(cost) and cost < 0 else ""
            raise ValueError(f"{cost_name} must be a positive number, the cost of a gap; got {cost!r}.{cure}")
        if probability is not None and (not is_number(probability) or not 0 <= probability < 1):
            raise ValueError(f"{probability_name} must be a probability, 0 or more and below 1; got {probability!r}.")

    # -- data ---------------------------------------------------------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Turn ``X`` into `Sequences`; symbols are read as the matrix has them where nothing else says how."""
        natural = None
        if context is None and self.alphabet is None and not isinstance(X, Sequences) and self.init is None:
            natural = natural_alphabet(self._scores)
            context = None if natural is None else Context(len(natural), natural)
        X = super().accept(X, owner=owner, reset=reset, context=context)
        if natural == Alphabet.of("protein") and _looks_like_dna(X):
            notify(
                "The sequences look like DNA, but the substitution matrix reads them as proteins. Pass alphabet='dna' "
                "with a matrix such as 'NUC.4.4' or (2, -3), or alphabet='protein'.",
            )
        return X

    @property
    def _scores(self) -> Any:
        return DEFAULT_MATRIX if self.substitution is None else self.substitution

    # -- fitting ------------------------------------------------------------------------------------------

    def _fit_all(self, X: Sequences, context: Context, y: Any = None) -> tuple[Any, dict[str, Any]]:
        """Run EM from what parameters and data say; without EM the start is the model."""
        start, scale = (AffineParameters.of(self.init), None) if self.init is not None else self._start(X, context)
        if not self.n_iter:
            self._check_classes(X, y)
            model = self._model(start, context) if self.init is None else self.init
            return model, learned(np.empty(0), True, matrix_scale_=scale)
        pairs = drawn_pairs(
            X, y, int(self.n_pairs), seed_of(self.random_state), "use n_iter=0 to learn nothing from pairs"
        )
        strength, n_iter, tol = float(self.prior_strength), int(self.n_iter), float(self.tol)
        found = em_pairs(start, X, pairs, self._learned(), strength, n_iter, tol)
        return self._model(found.model, context), learned(found.history, found.converged, matrix_scale_=scale)

    def _model(self, affine: AffineParameters, context: Context) -> Any:
        kind = np.float64 if self.init is None else to_numpy(self.init.joint).dtype  # tolerance of rounding
        batch: Any = LocalPairHMMs if affine.is_local else AffinePairHMMs
        rates = dict(zip(RATES, affine.rates[:, None], strict=False))
        return batch(affine.joint[None].astype(kind), affine.insertion[None], **rates, alphabet=context.alphabet)

    def _start(self, X: Sequences, context: Context) -> tuple[AffineParameters, float]:
        """Return the model that parameters and data determine without EM, and the scale of the matrix."""
        alphabet = context.alphabet
        assert alphabet is not None
        found = joint_of(self._scores, self.matrix_scale, self.background, alphabet, _composition(X, alphabet))
        opened, extended = (self._gap(kind, found.scale) for kind in ("open", "extend"))
        continuation, length = self.continuation, float(np.mean(X.lengths))
        if continuation is None:
            continuation = _continuation(length / 2 if self.local else length, opened, extended)
        rates = [float(continuation), opened, extended]
        if self.local:
            flank = self.flank_extend
            if flank is None:
                letters = 2.0 ** round(np.log2(max(length / 4, 1.0)))
                flank = letters / (1.0 + letters)
            rates += [float(flank), float(flank)]  # all lengths of a flank alike
        insertion = found.joint.sum(axis=1)
        return AffineParameters(found.joint, insertion, np.array(rates), alphabet.membership), found.scale

    def _gap(self, kind: str, scale: float) -> float:
        """Return the probability that a gap begins, or goes on."""
        probability, cost = getattr(self, f"{kind}_probability"), getattr(self, f"gap_{kind}")
        if probability is not None:
            return float(probability)
        if cost is None:
            return float(np.exp(-HALF_BIT * DEFAULT_COSTS[kind]))
        probability = float(np.exp(-scale * cost))
        if probability == 1.0:
            raise ValueError(
                f"gap_{kind} = {cost!r} at matrix_scale = {scale:.4g} has probability 1, so gaps would never end. Use "
                "a larger cost, or a larger matrix_scale."
            )
        return probability


def _looks_like_dna(X: Sequences) -> bool:
    """Whether the sequences contain only A, C, G, T and N, and at least three of these."""
    assert X.alphabet is not None
    seen = np.flatnonzero(np.bincount(X.values, minlength=X.alphabet.n_codes))
    letters = set(X.alphabet.decode(seen.astype(np.int32)))
    return letters <= set("ACGTN") and len(letters) >= 3


def _composition(X: Sequences, alphabet: Alphabet) -> Floats:
    """Return the frequencies of letters, and one more letter that is spread evenly, so that none is impossible."""
    k = len(alphabet)
    counts = np.bincount(X.values, minlength=alphabet.n_codes)[:k] + 1.0 / k
    return np.asarray(counts / counts.sum())


def _continuation(length: float, opened: float, extended: float) -> float:
    """Return the probability of one more match that makes the mean length of the model about ``length``.

    The mean number of matches is rounded to a power of two, which moves log kernels by a fraction of one: so the folds
    of a search have the same model, and share their pairs.
    """
    inserted = opened / (1.0 - extended)
    matches = (length - inserted) / (1.0 + inserted)
    if matches <= 0:
        return LEAST_CONTINUATION
    matches = 2.0 ** round(np.log2(matches))
    return max(matches / (1.0 + matches), LEAST_CONTINUATION)
