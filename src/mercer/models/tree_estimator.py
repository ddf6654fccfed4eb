"""The estimator of hidden trees: a tree in Newick format, with changes along the edges fitted by EM."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer._checks import is_choice, is_listing
from mercer._parameters import Rules, between, nonnegative, one_of, states, whole
from mercer.data import Alphabet
from mercer.data.alphabet import ALPHABET
from mercer.families.estimator import Context
from mercer.models._fitting.em import EMResult
from mercer.models._fitting.iterative import SharedEstimator, learned
from mercer.models._tree.messages import sets_of
from mercer.models._tree.newick import Layout, Tree, layout_of, parse_newick
from mercer.models._tree.parameters import Parameters, distinct, emission_of, fit_tree, start_of, starts_of
from mercer.models._tree.reading import read_profiles
from mercer.models.tree import HiddenTrees

LEARNABLE = ("root", "edges", "emission")

_parsed = lru_cache(maxsize=32)(parse_newick)
"""Cached, because a fit parses its tree several times; trees are immutable."""


@dataclass(eq=False, repr=False)
class HiddenTree(SharedEstimator):
    r"""Fit a tree with hidden states at the internal nodes to symbols observed at the leaves.

    Parameters
    ----------
    tree : str or Path
        The tree in Newick format, such as ``"((human:1,chimp:1):1,mouse:2);"``, or the `pathlib.Path` of a file with a
        tree.
    n_states : int, default=2
        Number of hidden states S.
    transition : array of shape (S, S) or None, default=None
        Probabilities of change from state a of the parent to state b of the child, ``[a, b]``, along all edges.
    rate : array of shape (S, S), "equal" or None, default=None
        Rates of change per unit of branch length; rows sum to zero. "equal" means one expected change per unit of
        length, to all other states with equal rates. None means "equal" if branches have lengths and no transition is
        given; without lengths, the state does not change along an edge with probability 0.9. A fit that learns the
        edges starts from the multiple of the rates with the highest likelihood, so the unit of lengths does not matter.
    root : array of shape (S,) or None, default=None
        Probabilities of the state of the root. None: the stationary distribution of the rates, or uniform.
    emission : None, float or array of shape (S, A), default=None
        The symbol at a leaf given its state: the state itself (None), another state with this probability (uniform
        noise), or one of A symbols with these probabilities.
    alphabet : Alphabet, "dna", iterable of symbols or None, default=None
        Alphabet of the symbols, if the samples are strings; symbol k is state k unless emission is a matrix.
    pruning : float, default=0.0
        Probability, at each internal node, that two samples share no hidden states below it. Only used by the kernel.
    learn : tuple of "root", "edges", "emission", default=("root", "edges")
        The parameters that ``fit`` learns; the others stay as given.
    leaves : sequence of str or None, default=None
        Order of the columns of input without column names; None means the order in the tree.
    unknown : {"raise", "missing"}, default="raise"
        Whether a symbol outside the alphabet raises an error or is a missing value.
    prior_strength : float, default=1.0
        Weight of the start, in observations per row of learned probabilities. For rates, in observations of each state
        until it changes (or for the median length from the root to a leaf, if that is shorter), with one change along
        this length if no rate is given. Changes that are possible at the start therefore remain possible.
    n_iter : int, default=100
        Maximum number of iterations; with 0 the model is used as given.
    tol : float, default=1e-6
        Stop if the objective per sample grows by at most this value; with 0 there are always ``n_iter`` iterations. It
        is smaller than for models of sequences, because an iteration is cheaper.

    Attributes
    ----------
    model_ : HiddenTrees of shape (1,)
        The model learned by ``fit``.
    leaves_ : tuple of str
        Names of the leaves, in the order of the columns.
    nodes_ : tuple of str
        Names of the internal nodes, in preorder, as in ``model_.posterior``; "" for nodes without a name.
    rate_ : ndarray of shape (S, S)
        The rates, if the edges have rates.
    objective_ : ndarray of shape (iterations,)
        Log probability of the data plus the log prior (up to a constant) before each iteration; it never decreases.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged before ``n_iter``; True with ``n_iter=0``.

    Notes
    -----
    This is the model of MK-6; the distribution of a leaf is the change along its edge followed by the emission. With
    rates, the fit is the exact EM of a continuous-time Markov chain: expected jumps divided by expected times. Samples
    are rows with one column per leaf (numbers 0 .. A-1, with NaN for missing values), rows of a table with the leaves
    as column names, in any order, or strings with one symbol per leaf, together with an alphabet.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> tree = mc.HiddenTree("((human:1,chimp:1):1,mouse:2);", n_iter=0)
    >>> X = np.array([[1, 1, 0], [1, 1, 1], [0, 0, np.nan]])
    >>> tree.fit(X).model_
    HiddenTrees(shape=(1,), n_states=2, n_leaves=3)
    >>> tree.score_samples(X).round(3)
    array([-2.062, -2.061, -1.368])
    """

    _only_shared = (
        "HiddenTree cannot be fitted to single samples, which have each leaf only once. Use fit, and compare "
        "samples by mc.Marginalization or mc.Fisher."
    )
    _parameters: ClassVar[Rules] = {
        "alphabet": ALPHABET,
        "prior": None,
        "n_states": states(),
        "n_iter": whole(0, cure="With 0 the model is used as given."),
        "tol": nonnegative("With 0, EM always makes n_iter iterations."),
        "pruning": between(0, 1, cure="It is a probability."),
        "unknown": one_of("raise", "missing"),
    }

    tree: Any
    n_states: int = 2
    transition: Any = None
    rate: Any = None
    root: Any = None
    emission: Any = None
    alphabet: Any = None
    pruning: float = 0.0
    learn: Any = ("root", "edges")
    leaves: Any = None
    unknown: str = "raise"
    prior_strength: float = 1.0
    n_iter: int = 100
    tol: float = 1e-6

    # -- parameters ----------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        unknown = [what for what in self._learned() if not is_choice(what, LEARNABLE)]
        if unknown:
            raise ValueError(f"learn must be some of {', '.join(map(repr, LEARNABLE))}; got {unknown[0]!r}.")
        if "emission" in self._learned() and self.emission is None and self.n_iter:
            raise ValueError(
                "learn must not contain 'emission' with emission=None, which means that leaves show their state. Use "
                "emission=0.05, for example."
            )
        n_symbols = self._n_symbols()
        if self.alphabet is not None and len(Alphabet.of(self.alphabet)) != n_symbols:
            known = Alphabet.of(self.alphabet)
            raise ValueError(
                f"The alphabet {known.describe()} has {len(known)} symbols, but leaves show {n_symbols}. Use "
                f"n_states={len(known)}, or emission of shape {(int(self.n_states), len(known))}."
            )
        start_of(self, self._layout())

    def _learned(self) -> tuple[str, ...]:
        if not isinstance(self.learn, str | tuple | list | set | frozenset):
            raise TypeError(
                f"learn must be a tuple of {', '.join(map(repr, LEARNABLE))}, or () for nothing; got {self.learn!r}."
            )
        return (self.learn,) if isinstance(self.learn, str) else tuple(self.learn)

    def _n_symbols(self) -> int:
        return int(emission_of(self.emission, int(self.n_states)).shape[1])

    def _alphabet(self) -> Alphabet | None:
        return None if self.alphabet is None else Alphabet.of(self.alphabet)

    def _tree(self) -> Tree:
        tree = self.tree
        if isinstance(tree, Path):
            tree = tree.read_text(encoding="utf-8")
        elif not isinstance(tree, str):
            raise TypeError(f"tree must be a Newick string, such as '((A,B),C);', or a Path; got {tree!r}.")
        elif not re.search(r"[(;]", tree) and re.search(r"[./\\]", tree):
            raise ValueError(
                f"tree must be a Newick string or a Path; got {tree!r}, which looks like a file name. Pass "
                f"Path({tree!r})."
            )
        return _parsed(tree)

    def _cacheable(self) -> bool:
        return not isinstance(self.tree, Path)  # a file may change

    def _leaves(self) -> tuple[str, ...]:
        known = self._tree().leaves
        if self.leaves is None:
            return known
        if isinstance(self.leaves, str) or not is_listing(self.leaves):
            raise TypeError(
                f"leaves must be the names of the leaves, in the order of the columns; got {self.leaves!r}."
            )
        if sorted(map(str, self.leaves)) != sorted(known):
            raise ValueError(f"leaves must be those of the tree, {list(known)!r}; got {list(self.leaves)!r}.")
        return tuple(self.leaves)

    def _layout(self) -> Layout:
        return layout_of(self._tree(), self._leaves())

    # -- data ----------------------------------------------------------------------------------------------

    def _missing_allowed(self) -> bool:
        return True

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Floats:
        """Convert ``X`` to a matrix of codes with one column per leaf, and NaN for missing values."""
        owner = self if owner is None else owner
        return read_profiles(X, self._leaves(), self._n_symbols(), self._alphabet(), self.unknown, owner, reset)

    def context(self, X: Any) -> Context:
        """Return the number of leaves and the alphabet."""
        return Context(dimension=X.shape[1], alphabet=self._alphabet())

    def shared_context(self, X: Any) -> Context:
        """Return ``context(X)``."""
        return self.context(X)

    # -- the fit -------------------------------------------------------------------------------------------

    def _fit_all(self, X: Floats, context: Context, y: Any = None) -> tuple[Any, dict[str, Any]]:
        tree, found = self._tree(), self._run_em(X)
        nodes = tuple(tree.names[v] for v in np.flatnonzero(~tree.is_leaf))
        others = learned(found.history, found.converged, leaves_=self._leaves(), nodes_=nodes)
        self.__dict__.pop("rate_", None)
        return self._batch(found.model), others | ({"rate_": found.model.edges} if found.model.continuous else {})

    def _run_em(self, X: Floats) -> EMResult:
        layout, learn = self._layout(), self._learned()
        if self.n_iter == 0:
            return EMResult(start_of(self, layout), np.empty(0), True)
        if np.isnan(X).all():
            raise ValueError("There is nothing to learn from: all values are missing. Pass observed leaves.")
        sets = self._sets()
        codes, count, first = distinct(X, len(sets) - 1)
        prior, starts = starts_of(self, layout, learn)
        logs = [start.member(sets).log_prob(codes) for start in starts]
        best = int(np.argmax([count @ one for one in logs]))
        impossible = first[np.isneginf(logs[best])]
        if len(impossible):
            raise ValueError(
                f"row {impossible.min()} has probability zero under the tree that the fit starts from. Use noisy "
                "leaves, as in emission=0.01, or a start without zeros."
            )
        until = int(self.n_iter), float(self.tol)
        return fit_tree(starts[best], prior, codes, count, sets, learn, *until, float(self.prior_strength))

    def _sets(self) -> Floats:
        return sets_of(self._alphabet(), self._n_symbols())

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of ``model_`` on ``X``; smaller is better.

        Minus twice the log probability, plus the number of free learned parameters (of one matrix, or one rate per
        possible change) times the logarithm of the number of rows.
        """
        check_is_fitted(self, "model_")
        logs = self.score_samples(X)
        n_free = start_of(self, self._layout()).n_free(self._learned()) if self.n_iter else 0
        return float(n_free * np.log(max(len(logs), 1)) - 2 * logs.sum())

    def _batch(self, found: Parameters) -> HiddenTrees:
        member = found.member(self._sets())
        return HiddenTrees(
            parent=member.parent[None],
            root=member.root[None],
            transition=member.transition[None],
            leaf_parent=member.leaf_parent[None],
            leaf=member.leaf[None],
            pruning=[float(self.pruning)],
            leaves=self._leaves(),
            alphabet=self._alphabet(),
        )
