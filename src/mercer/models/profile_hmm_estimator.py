"""The estimator of profile hidden Markov models: one profile from an alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices
from mercer._parameters import NONE, Rules, between, nonnegative, one_of, positive, whole
from mercer._probability import normalized
from mercer.data import Alphabet, Sequences
from mercer.data.alignment import gapped, without_gaps
from mercer.data.alphabet import ALPHABET
from mercer.data.segments import digest_order
from mercer.families.estimator import Context
from mercer.models._fitting.iterative import SharedEstimator
from mercer.models._profile.aligned import Counts, counts_of, inside_of, match_columns, matrix_of, position_weights
from mercer.models._profile.nodes import GROUPS, checked_background
from mercer.models._profile.search import MODES
from mercer.models.profile_hmm import INSERTIONS, ProfileHMMs
from mercer.models.verbs import FittedModel, Learned


class _Nodes(Learned):
    """The rows of the nodes of the one profile."""

    def _of(self, model: Any) -> Any:
        return getattr(model, self.field).set(0)


@dataclass(eq=False, repr=False)
class ProfileHMM(FittedModel, SharedEstimator):
    r"""Fit a profile hidden Markov model to aligned sequences.

    Parameters
    ----------
    alphabet : Alphabet, str or iterable of letters, default="protein"
        The letters, without the gap.
    match_fraction : float, default=0.5
        Columns with letters in at least this share of the sequences are nodes of the profile (``--symfrac`` of
        hmmbuild).
    fragment_fraction : float, default=0.5
        A sequence with letters in less than this share of the columns is a fragment: its gaps at the ends are not
        deletions.
    weighting : {"position", None}, default="position"
        Weights of the sequences: Henikoff's position-based weights, or equal ones.
    bits : float, "auto" or None, default="auto"
        Mean information of a node. Counts are scaled down to reach it, which prevents profiles of many
        sequences from being too narrow; "auto" is 0.59 for proteins and 0.62 for nucleotides, and more for short
        profiles, as in hmmbuild. None uses the counts as they are.
    transition_strength : float, default=1.0
        Number of pseudo-counts of the transitions from a state.
    background : array of shape (k,), default=None
        Distribution of letters outside of the profile; None takes the frequencies of Swiss-Prot for proteins, and
        equal ones for others.
    mode : {"local", "glocal", "unilocal", "uniglocal"}, default="local"
        Mode of the fitted profile; see `ProfileHMMs`.
    length : int, default=None
        Mean number of symbols outside of the profile; None takes the length of each sequence.
    insertion : {"background", "model"}, default="background"
        Distribution of inserted symbols.
    unknown : {"raise", "missing"}, default="raise"
        Whether a symbol outside the alphabet raises an error or is a missing symbol.
    prior : {"background", "substitution", "laplace", None}, default="background"
        Pseudo-counts: in proportion to the background; to the letters that those of the column are exchanged with
        (BLOSUM62, for proteins); one of each; or none.
    prior_strength : float, default=5.0
        Number of pseudo-counts of a match state.

    Attributes
    ----------
    model_ : ProfileHMMs of shape (1,)
        The profile.
    match_, insert_, transitions_, background_
        Its parameters, without the batch axis.
    columns_ : ndarray of shape (M,)
        The column of the alignment of every node.
    weights_ : ndarray of shape (N,)
        Weights of the sequences; their sum is N.
    effective_number_ : float
        Number of sequences that the counts stand for.
    context_ : Context
        The alphabet.

    Notes
    -----
    Rows of probabilities are posterior means under Dirichlet distributions, (n + a) / (sum n + sum a). The prior
    of transitions has the means .94, .04, .02 of m->m, m->i, m->d, .55, .45 of i->m, i->i, and .6, .4 of d->m, d->d;
    "laplace" counts one more of each. Insert states have 100 pseudo-counts in proportion to the background. Ambiguity
    codes count as their letters, in proportion to the background.

    Examples
    --------
    >>> import mercer as mc
    >>> estimator = mc.ProfileHMM(alphabet="dna").fit(["ACG-T", "ACGGT", "AC--T"])
    >>> estimator.columns_
    array([0, 1, 2, 4])
    >>> estimator.model_.consensus
    ('ACgT',)
    """

    takes: ClassVar[str] = "symbols"
    of_sequences: ClassVar[bool] = True
    _only_shared = (
        "A profile is fitted to the alignment of a family, so it cannot be fitted to each sample. Fit one profile "
        "per alignment, and pass the batch mc.models.ProfileHMMs.concat([...])."
    )
    _parameters: ClassVar[Rules] = {
        "alphabet": ALPHABET,
        "match_fraction": between(0, 1, cure="It is a share of the sequences."),
        "fragment_fraction": between(0, 1, cure="It is a share of the columns."),
        "weighting": one_of("position") | NONE,
        "bits": positive("It is the mean information of a node.") | one_of("auto") | NONE,
        "prior": one_of("background", "substitution", "laplace") | NONE,
        "prior_strength": nonnegative("It is a number of letters."),
        "transition_strength": nonnegative("It is a number of transitions."),
        "mode": one_of(*MODES),
        "length": whole(0, cure="It is a number of symbols.") | NONE,
        "insertion": one_of(*INSERTIONS),
        "unknown": one_of("raise", "missing"),
    }

    alphabet: Any = "protein"
    match_fraction: float = 0.5
    fragment_fraction: float = 0.5
    weighting: str | None = "position"
    bits: Any = "auto"
    transition_strength: float = 1.0
    background: Any = None
    mode: str = "local"
    length: int | None = None
    insertion: str = "background"
    unknown: str = "raise"
    prior: str | None = "background"
    prior_strength: float = 5.0

    background_, match_, insert_, transitions_ = Learned(), _Nodes(), _Nodes(), _Nodes()

    # -- data ----------------------------------------------------------------------------------------------

    def _plain(self) -> Alphabet:
        """Return the alphabet without the gap."""
        return Alphabet.of("protein" if self.alphabet is None else self.alphabet)

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Turn ``X`` into `Sequences`: aligned rows, with gaps, as training data; else sequences without gaps.

        Parameters
        ----------
        X : Sequences, list of strings
            Aligned sequences, or sequences.
        owner : estimator, default=None
            Not used.
        reset : bool, default=False
            Whether ``X`` is training data.
        context : Context, default=None
            Not used.
        """
        plain = self._plain()
        if not reset:
            return without_gaps(X, plain, self.unknown).require_some()
        if isinstance(X, Sequences) and X.alphabet == plain:
            return X
        return Sequences(X, alphabet=gapped(plain), unknown=self.unknown).require_some()

    def context(self, X: Sequences) -> Context:
        """Learn the alphabet."""
        plain = self._plain()
        return Context(dimension=len(plain), alphabet=plain)

    # -- fits ----------------------------------------------------------------------------------------------

    def _fit_all(self, X: Sequences, context: Context, y: Any = None) -> tuple[ProfileHMMs, dict[str, Any]]:
        plain = self._plain()
        order = digest_order(X)  # so that sums do not depend on the order of the rows
        codes = matrix_of(X, plain)[order]
        background = checked_background(self.background, plain, ())
        weights = position_weights(codes, len(plain)) if self.weighting else np.ones(len(codes))
        inside = inside_of(codes, self.fragment_fraction)
        columns = match_columns(codes, weights, inside, float(self.match_fraction))
        shares = plain.membership * background
        shares /= shares.sum(axis=1, keepdims=True)
        shares[plain.missing] = 0.0  # any letter: it tells nothing
        counts = counts_of(codes, weights, inside, columns, shares)
        prior = prior_of(self.prior, float(self.prior_strength), float(self.transition_strength), background, plain)
        number = self._number(counts, prior, background, len(codes))
        match, insert, transitions = prior.profile(counts.scaled(number / len(codes)))
        lines = [["MAP", "yes"], ["NSEQ", str(len(codes))], ["EFFN", f"{number:.6f}"]]
        notes = {"lines": lines, "nodes": [[str(c), *"----"] for c in (columns + 1).tolist()]}
        model = ProfileHMMs(
            match=[match],
            insert=[insert],
            transitions=[transitions],
            alphabet=plain,
            background=background,
            mode=self.mode,
            length=self.length,
            insertion=self.insertion,
            annotations=[notes],
        )
        return model, {"columns_": columns, "weights_": weights[np.argsort(order)], "effective_number_": number}

    def _number(self, counts: Counts, prior: Any, background: Floats, n: int) -> float:
        if self.bits is None:
            return float(n)
        target = self.bits
        if isinstance(target, str):
            kinds = {Alphabet.of(name): bits for name, bits in TARGET_BITS.items()}
            target = kinds.get(self._plain(), TARGET_BITS["protein"])
        return effective_number(counts, prior, background, float(target), float(n))

    def predict(self, X: Any) -> list[Indices]:
        """Best path of each sequence: k in the match state of node k, -k in its insert state, 0 outside of it."""
        return list(self._of_model("viterbi", X)[0])

    def predict_proba(self, X: Any) -> list[Floats]:
        """Posterior probabilities of the states at each symbol: ``p[t, s]`` for state s of `predict`."""
        return list(self._of_model("state_probabilities", X))

    def sample(self, size: int = 1, random_state: Any = None) -> Sequences:
        """Sample ``size`` sequences of ``model_``."""
        check_is_fitted(self, "model_")
        found: Sequences = self.model_.sample(size, random_state)[0]
        return found


# From counts to probabilities: priors, and the number of sequences that counts stand for.

TRANSITION_MEANS = np.array([0.94, 0.04, 0.02, 0.55, 0.45, 0.6, 0.4])
"""Prior means of the transitions, in HMMER's order: round numbers that are usual for protein families."""
INSERT_STRENGTH = 100.0
"""Weight of the background in the emissions of insert states, which have few letters."""
TARGET_BITS = {"protein": 0.59, "dna": 0.62, "rna": 0.62}
"""Mean information per node that counts are scaled to, as in hmmbuild (in its order of magnitude for others)."""
LEAST_BITS = 45.0
"""Information of a whole profile, beyond that of its place, that short profiles keep."""


class Prior(NamedTuple):
    """Pseudo-counts of a profile."""

    match: Any
    """Function of counts ``(M, k)`` that returns pseudo-counts of the same shape."""
    insert: Floats
    transitions: Floats

    def profile(self, counts: Counts) -> tuple[Floats, Floats, Floats]:
        """Return the posterior means: match, insert, transitions."""
        match = normalized(counts.match + self.match(counts.match), 1 / counts.match.shape[1])
        insert = normalized(counts.insert + self.insert, 1 / counts.insert.shape[1])
        transitions = counts.transitions + self.transitions
        for group in GROUPS:
            width = group.stop - group.start
            transitions[:, group] = normalized(transitions[:, group], np.eye(width)[0])
        last = transitions[-1]
        last[2] = 0.0  # there is no delete state after the last node
        last[:3] = last[:3] / last[:3].sum() if last[:3].sum() > 0 else [1.0, 0.0, 0.0]
        transitions[[0, -1], 5:] = 1.0, 0.0  # node 0 has no delete state; after the last node comes the end
        return match, insert, transitions


def prior_of(name: Any, strength: float, transition_strength: float, background: Floats, alphabet: Alphabet) -> Prior:
    """Return the prior of a name: None, "laplace", "background" or "substitution"."""
    k = len(background)
    if name is None:
        return Prior(np.zeros_like, np.zeros(k), np.zeros(7))
    if name == "laplace":
        return Prior(np.ones_like, np.ones(k), np.ones(7))
    insert, transitions = INSERT_STRENGTH * background, transition_strength * TRANSITION_MEANS
    if name == "background":
        return Prior(lambda counts: np.broadcast_to(strength * background, counts.shape), insert, transitions)
    from mercer.models._pairs.substitution import joint_of

    joint = joint_of("BLOSUM62", None, None, alphabet).joint
    given = joint / joint.sum(axis=1, keepdims=True)

    def related(counts: Floats) -> Floats:
        """Spread the letters of a column over those that they are exchanged with."""
        return np.asarray(strength * (normalized(counts, background) @ given))

    return Prior(related, insert, transitions)


def effective_number(counts: Counts, prior: Prior, background: Floats, target: float, n: float) -> float:
    """Return the number of sequences, at most ``n``, at which nodes have ``target`` bits of information on average."""
    m = len(counts.match)
    wanted = max(target, (LEAST_BITS + np.log2(m * (m + 1) / 2)) / m)

    def bits(number: float) -> float:
        scaled = counts.match * (number / n)
        p = normalized(scaled + prior.match(scaled), background)
        logs = np.log2(np.where(p > 0, p, 1.0) / background)
        return float((np.where(p > 0, p, 0.0) * logs).sum() / m)

    if bits(n) <= wanted:
        return n
    low, high = 0.0, n
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if bits(middle) > wanted else (middle, high)
    return (low + high) / 2
