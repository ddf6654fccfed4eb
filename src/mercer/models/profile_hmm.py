"""Batches of profile hidden Markov models: families of sequences, column by column (Plan 7 of HMMER)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats
from mercer._batch import Batch
from mercer._checks import check_rho, is_choice, is_whole
from mercer._coupling import Coupling, Operand, PowerProduct
from mercer._random import random_generator, whole_size
from mercer._wording import read_before
from mercer.data import Alphabet, Sequences
from mercer.models._profile import inference
from mercer.models._profile.nodes import Annotations, NodeRows, check_nodes, checked_background, rows_of
from mercer.models._profile.search import MODES
from mercer.models.summaries import headed
from mercer.models.verbs import HasCriteria

if TYPE_CHECKING:
    from mercer.models.hidden import Clique
    from mercer.models.profile_hmm_estimator import ProfileHMM

INSERTIONS = ("background", "model")


class ProfileHMMs(HasCriteria, Batch):
    r"""A batch of profile hidden Markov models, of any numbers of nodes, over one alphabet.

    Parameters
    ----------
    match : list of N arrays of shape (M, k)
        Emission probabilities of the match state of each of the M nodes.
    insert : list of N arrays of shape (M + 1, k)
        Emission probabilities of the insert states: before node 1, and after each node.
    transitions : list of N arrays of shape (M + 1, 7)
        Probabilities of m->m, m->i, m->d, i->m, i->i, d->m, d->d from each node to the next, as in HMMER's files. Node
        0 is the begin of the profile; after node M comes its end.
    alphabet : Alphabet, str or iterable, default="protein"
        The k symbols.
    background : array of shape (k,) or (N, k), default=None
        Distribution of symbols outside of the profiles; None takes the frequencies of Swiss-Prot for proteins, as
        HMMER does, and equal ones for other alphabets.
    mode : {"local", "glocal", "unilocal", "uniglocal"}, default="local"
        Whether a sequence contains parts of the profile or the whole profile ("glocal"), several times or once
        ("uni"); HMMER's search is "local".
    length : int, default=None
        Mean number of symbols outside of the profile. None takes the length of each sequence, as HMMER does; then
        ``log_prob`` is not normalized over sequences of all lengths.
    insertion : {"background", "model"}, default="background"
        Distribution of inserted symbols: the background, as in HMMER's scores, or ``insert``.
    annotations : list of N dict, default=None
        Names and other text about the profiles, as `read_hmmer` finds them.

    Notes
    -----
    Each node has a match, an insert and a silent delete state. A sequence is a flank of background symbols, a path
    through the profile, and another flank; in the modes that are not "uni", more paths may follow, each with
    probability 1/2. A local path enters at any node, in proportion to the probability that its match state is used,
    and leaves at any later node (Eddy 2008). The cost is O(length x nodes).

    Examples
    --------
    >>> import mercer as mc
    >>> profile = mc.ProfileHMM(alphabet="dna").fit(["ACG-T", "ACGGT", "AC--T"]).model_
    >>> profile
    ProfileHMMs(shape=(1,), 4 nodes, alphabet=Alphabet.of('dna'), mode='local')
    >>> profile.log_odds(["TTACGTTT", "TTTTTTTT"]).round(2)
    array([[0.77, 0.07]])
    """

    _arrays: ClassVar[dict[str, int]] = {"background": 1, "match": 1, "insert": 1, "transitions": 1, "annotations": 0}
    _shared: ClassVar[tuple[str, ...]] = ("alphabet", "mode", "length", "insertion")
    _compound: ClassVar[dict[str, Any]] = {
        "match": NodeRows,
        "insert": NodeRows,
        "transitions": NodeRows,
        "annotations": Annotations,
    }
    _from_header: ClassVar[dict[str, Any]] = {"alphabet": Alphabet.from_header}
    draws_whole: ClassVar[bool] = True
    """Whether `sample` draws whole sequences, whose lengths the model decides."""

    background: Array
    match: NodeRows
    insert: NodeRows
    transitions: NodeRows
    annotations: Annotations
    alphabet: Alphabet
    mode: str
    length: int | None
    insertion: str

    def __init__(
        self,
        match: Any,
        insert: Any,
        transitions: Any,
        alphabet: Any = "protein",
        background: Any = None,
        mode: str = "local",
        length: int | None = None,
        insertion: str = "background",
        annotations: Any = None,
    ) -> None:
        symbols = Alphabet.of(alphabet)
        _check_configuration(mode, length, insertion)
        match = rows_of(match, "match", len(symbols), 0)
        insert = rows_of(insert, "insert", len(symbols), 1)
        transitions = rows_of(transitions, "transitions", 7, 1)
        check_nodes(match, insert, transitions)
        batch = () if match.single else (len(match),)
        self._freeze(
            background=checked_background(background, symbols, batch),
            match=match,
            insert=insert,
            transitions=transitions,
            annotations=Annotations.of(annotations, len(match), match.single),
            alphabet=symbols,
            mode=mode,
            length=None if length is None else int(length),
            insertion=insertion,
        )

    # -- storage -------------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Number of symbols."""
        return len(self.alphabet)

    @property
    def n_nodes(self) -> Floats:
        """Number of nodes of each profile, in the batch shape."""
        return np.asarray(self.match.sizes.reshape(self.shape))

    @property
    def n_parameters(self) -> Floats:
        """Number of free parameters of each profile: emissions of match states, and transitions."""
        own = (self.dimension - 1) * (1 if self.insertion == "background" else 2)
        return np.asarray(self.n_nodes * (own + 4))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the profiles; those without one are numbered."""
        notes = self.annotations.dictionaries()
        return tuple(str(note.get("name") or f"profile_{i}") for i, note in enumerate(notes))

    @property
    def consensus(self) -> tuple[str, ...]:
        """The most probable symbols of the match states of each profile, upper case where above 1/2."""
        symbols = [str(s) for s in self.alphabet.symbols]
        found = []
        for i in range(len(self.match)):
            p = self.match.set(i)
            best = p.argmax(axis=1)
            letters = [symbols[b] if p[k, b] >= 0.5 else symbols[b].lower() for k, b in enumerate(best.tolist())]
            found.append("".join(letters))
        return tuple(found)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        rows = self.match, self.insert, self.transitions, self.annotations
        return int(self.background.nbytes + sum(x.nbytes for x in rows))

    def nodes(self, i: int) -> tuple[Floats, Floats, Floats]:
        """Return ``match (M, k)``, ``insert (M + 1, k)`` and ``transitions (M + 1, 7)`` of profile ``i``."""
        if not is_whole(i, 0) or i >= len(self.match):
            raise IndexError(f"i must be a profile, 0 to {len(self.match) - 1}; got {i!r}.")
        return self.match.set(i), self.insert.set(i), self.transitions.set(i)

    def _inserted(self, i: int) -> Floats:
        """Return the distributions of the inserted symbols of profile ``i``, ``(M + 1, k)``, by ``insertion``."""
        insert = self.insert.set(i)
        if self.insertion == "model":
            return insert
        return np.broadcast_to(self.background.reshape(-1, self.dimension)[i], insert.shape)

    def configure(self, **changed: Any) -> Self:
        """Return the same profiles with another ``mode``, ``length`` or ``insertion``.

        Examples
        --------
        >>> import mercer as mc
        >>> profile = mc.ProfileHMM(alphabet="dna").fit(["ACGT", "ACGT"]).model_
        >>> profile.configure(mode="uniglocal", length=20).mode
        'uniglocal'
        """
        current = {"mode": self.mode, "length": self.length, "insertion": self.insertion}
        odd = sorted(set(changed) - set(current))
        if odd:
            raise TypeError(f"configure takes mode, length and insertion; got {odd[0]!r}.")
        current |= changed
        _check_configuration(current["mode"], current["length"], current["insertion"])
        return self._replaced(**current)

    def __repr__(self) -> str:
        nodes = self.match.counted("node")
        length = "" if self.length is None else f", length={self.length}"
        return f"ProfileHMMs(shape={self.shape}, {nodes}, alphabet={self.alphabet!r}, mode={self.mode!r}{length})"

    def reshape(self, *shape: int) -> Self:
        """Return the same profiles with one batch axis, or with none for a single profile."""
        wanted = self.match.new_shape(shape)
        rows = {name: getattr(self, name).shaped(wanted == ()) for name in self._compound}
        return self._replaced(background=self.background.reshape(*wanted, self.dimension), **rows)

    def estimator(self) -> ProfileHMM:
        """Return an estimator that accepts the sequences of these profiles."""
        from mercer.models.profile_hmm_estimator import ProfileHMM

        return ProfileHMM(
            alphabet=self.alphabet, mode=self.mode, length=self.length, insertion=self.insertion, unknown="raise"
        )

    def read(self, X: Any) -> Sequences:
        """Convert ``X`` to sequences of the alphabet, without the gaps of an alignment."""
        from mercer.data.alignment import without_gaps

        with read_before():
            return without_gaps(X, self.alphabet)

    # -- probabilities -------------------------------------------------------------------------------------

    def log_prob(self, X: Any) -> Floats:
        """Log probability of each sequence under each profile, ``(N, M)``.

        Ambiguity codes and missing symbols are marginalized. An empty sequence has probability zero.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M sequences; gaps are removed.
        """
        self._require_axis()
        X = self.read(X)
        return np.asarray(inference.log_odds(self, X) + inference.background_log_prob(self, X))

    def log_null(self, X: Any) -> Floats:
        """Log probability of each sequence under the null model of each profile, ``(N, M)``.

        The null model draws symbols from the background, and a length from a geometric distribution with the mean
        ``length``, or that of the sequence itself if it is None.
        """
        self._require_axis()
        X = self.read(X)
        return np.asarray(inference.background_log_prob(self, X) + inference.null_length(self, X))

    def log_odds(self, X: Any) -> Floats:
        """Log odds of each sequence under each profile against the null model, ``(N, M)``.

        Divided by log 2, this is HMMER's Forward score in bits without its correction of biased composition. The two
        differ for ambiguity codes: here their letters are summed over, HMMER averages their scores.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> profile = mc.ProfileHMM(alphabet="dna").fit(["ACGTACGT", "ACGAACGT"]).model_
        >>> (profile.log_odds(["ACGTACGT", "GGGGGGGG"]) / np.log(2)).round(2)
        array([[2.89, 0.09]])
        """
        self._require_axis()
        X = self.read(X)
        return np.asarray(inference.log_odds(self, X) - inference.null_length(self, X))

    def state_probabilities(self, X: Any) -> list[Floats]:
        """Posterior probabilities of the states at each symbol of each sequence under one profile of M nodes.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            N sequences.

        Returns
        -------
        list of N arrays of shape (T, 2 M + 1)
            ``p[t, k]`` is the probability of the match state of node k, ``p[t, -k]`` of the insert state after it, and
            ``p[t, 0]`` of a flank: the states have the numbers of `viterbi`.

        Examples
        --------
        >>> import mercer as mc
        >>> profile = mc.ProfileHMM(alphabet="dna").fit(["ACGTACGT", "ACGAACGT"]).model_
        >>> profile.state_probabilities(["GGACGTACGTCC"])[0][:4, [0, 1, 2]].round(2)
        array([[0.86, 0.01, 0.02],
               [0.8 , 0.01, 0.01],
               [0.44, 0.36, 0.01],
               [0.29, 0.  , 0.52]])
        """
        self._require_one()
        return inference.state_probabilities(self, self.read(X))

    def summary(self) -> str:
        """Return one profile as text: its sizes, how it aligns, and the most probable letters of its nodes.

        Examples
        --------
        >>> import mercer as mc
        >>> print(mc.ProfileHMM(alphabet="dna").fit(["ACG-T", "ACGGT", "AC--T"]).summary())
        ProfileHMM of 4 nodes, alphabet ACGT (dna), mode local, 28 free parameters
        consensus  ACgT
        """
        self._require_one()
        head = f"ProfileHMM of {int(self.n_nodes[0])} nodes, alphabet {self.alphabet.describe()}, mode {self.mode}"
        return headed(head, self.n_parameters, [["consensus", self.consensus[0]]])

    def viterbi(self, X: Any) -> tuple[list[Floats], Floats]:
        """Most probable states of each sequence under one profile, and their log probability with the sequence.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            N sequences.

        Returns
        -------
        paths : list of N int arrays
            For each symbol, k in the match state of node k, -k in the insert state after node k, 0 in a flank.
        log_prob : ndarray of shape (N,)
            Log probability of the sequence and its path.

        Examples
        --------
        >>> import mercer as mc
        >>> profile = mc.ProfileHMM(alphabet="dna").fit(["ACGTACGT", "ACGAACGT"]).model_
        >>> profile.viterbi(["GGACGTACGTCC"])[0][0]
        array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0])
        """
        self._require_one()
        X = self.read(X)
        paths, odds = inference.best_paths(self, 0, X)
        return paths, np.asarray(odds + inference.background_log_prob(self, X)[0])

    def align(self, X: Any) -> list[str]:
        """Align sequences to one profile, each by its best path through the profile once.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            N sequences of letters.

        Returns
        -------
        list of N str
            Rows of one length: upper case in match states, ``-`` for deletions, lower case for inserted letters, ``.``
            where other rows have these (the format A2M). Letters outside of the profile are left out.

        Examples
        --------
        >>> import mercer as mc
        >>> estimator = mc.ProfileHMM(alphabet="dna", mode="glocal")
        >>> profile = estimator.fit(["ACGTACGT", "ACGAACGT"]).model_
        >>> profile.align(["GGACGTACGTCC", "ACGTCGT"])
        ['ACGTACGT', 'ACGT-CGT']
        """
        self._require_one()
        return inference.aligned_rows(self, self.read(X))

    def sample(self, size: int = 1, random_state: Any = None) -> list[Sequences]:
        """Draw ``size`` sequences from each profile; one `Sequences` per profile.

        If ``length`` is None, the flanks have as many symbols as the profile has nodes, on average.
        """
        self._require_axis()
        size, rng = whole_size(size, "sequences"), random_generator(random_state)
        return [inference.draw(self, i, size, rng) for i in range(len(self))]

    # -- kernels -------------------------------------------------------------------------------------------

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a probability product of whole profiles, over sequences of all lengths (PPK-4.2d).

        A profile ends by itself, so that ``lengths`` and ``mode`` have no effect. At rho = 1 the kernel is the
        probability that two profiles emit the same sequence.
        """
        from mercer.models._profile.product import ProfileOperand

        self._require_axis()
        if not isinstance(coupling, PowerProduct):
            raise TypeError("Profiles have probability products only. Use mc.ProbabilityProduct.")
        check_rho(coupling.rho)
        insert = np.concatenate([self._inserted(i) for i in range(len(self))]) if len(self) else self.insert.data
        self._check_finite(insert, coupling.rho)
        return ProfileOperand.of(self.match.data, insert, self.transitions.data, self.match.sizes, coupling.rho)

    def _check_finite(self, insert: Floats, rho: float) -> None:
        """Raise if a self-kernel is infinite: two insert states go on forever."""
        stay = self.transitions.data[:, 4] ** (2 * rho) * (insert ** (2 * rho)).sum(axis=1)
        endless = np.flatnonzero((stay >= 1) & (self.transitions.data[:, 1] > 0))
        if len(endless):
            i = int(np.searchsorted(self.insert.indptr, endless[0], side="right")) - 1
            node = int(endless[0] - self.insert.indptr[i])
            raise ValueError(
                f"The self-kernel of the profile {self.names[i]!r} is infinite at rho = {rho}, because the sum over "
                f"insertions after node {node} does not converge. Use rho=0.5 or more."
            )

    def sequence_scores(self, X: Any, parametrization: str = "logit") -> Floats:
        """Fisher scores of each sequence under each profile, ``(N, M, P)``; `score_names` names the columns.

        Parameters are the emissions of match states and the transitions, and with ``insertion="model"`` the emissions
        of insert states. Profiles with fewer nodes than others have zeros.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M sequences.
        parametrization : {"logit", "weight"}, default="logit"
            Parametrization of the probabilities (FK-0).
        """
        self._require_axis()
        return inference.scores(self, self.read(X), parametrization)

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores, such as "match[3, A]" and "transition[3, m->d]"."""
        return inference.score_names(self)

    def latent_cliques(self, X: Any) -> list[Clique]:
        """Return the mean counts of each symbol in each match and insert state of one profile, for latent kernels."""
        self._require_one()
        return [inference.state_counts(self, self.read(X))]

    def require_discrete(self, kernel: str) -> None:
        """Do nothing: the states and symbols of profiles can be counted."""

    def no_samples(self) -> Sequences:
        """Return an empty `Sequences`, to look up feature names."""
        return Sequences._make(np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64), self.alphabet, None)


def _check_configuration(mode: Any, length: Any, insertion: Any) -> None:
    if not is_choice(mode, MODES):
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}; got {mode!r}.")
    if length is not None and not is_whole(length, 0):
        raise ValueError(
            f"length must be a whole number of symbols, 0 or more, or None for that of each sequence; got {length!r}."
        )
    if not is_choice(insertion, INSERTIONS):
        raise ValueError(f"insertion must be 'background' or 'model'; got {insertion!r}.")
