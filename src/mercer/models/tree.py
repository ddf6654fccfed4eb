"""Batches of hidden trees: probabilities of the leaves, scores, sampling, and shared histories (MK-6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, Indices, as_float, beside, logsumexp, namespace, safe_log, to_numpy
from mercer._batch import Batch
from mercer._coupling import Operand
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer._wording import read_before
from mercer.data import Alphabet
from mercer.families.base import Family
from mercer.models._scores.weighted import check_parametrization
from mercer.models._tree.messages import (
    Member,
    chunks,
    evidence_at,
    inside_of,
    score_names,
    sets_of,
    tree_scores,
    with_codes,
)
from mercer.models._tree.newick import Tree
from mercer.models._tree.rates import check_leaves, check_nodes, check_pruning, check_shapes
from mercer.models._tree.reading import check_codes, table_of

if TYPE_CHECKING:
    from mercer.models.tree_estimator import HiddenTree


class HiddenTrees(Family):
    r"""A batch of trees with hidden states at the internal nodes and observed symbols at the leaves.

    A sample consists of the symbols at the L leaves: the presence of a gene in L genomes, one column of an alignment, L
    answers. It is a row of L codes 0 .. A-1, with NaN for missing values.

    Parameters
    ----------
    parent : array of int of shape (..., V)
        The parent of each internal node, in preorder: -1 for the root, which comes first, else the number of an earlier
        node.
    root : array of shape (..., S)
        Probabilities of the state of the root.
    transition : array of shape (..., V, S, S)
        ``transition[..., v, a, b]`` is the probability that node v is in state b if its parent is in state a. The
        matrix of the root is not used.
    leaf_parent : array of int of shape (..., L)
        The parent of each leaf, an internal node.
    leaf : array of shape (..., L, S, A)
        ``leaf[..., l, a, k]`` is the probability of symbol k at leaf l if its parent is in state a.
    pruning : array of shape (...), default=None
        Probability, at each internal node, that two samples share no hidden states below it; None means 0. Only used
        by the kernel.
    leaves : sequence of L str, default=None
        Names of the leaves; None means "0", "1", ...
    alphabet : Alphabet, "dna", ... or None, default=None
        Alphabet of the symbols. Its ambiguity codes are accepted, too, and are marginalized.

    Notes
    -----
    The kernel of two samples that share all hidden states is (MK-6)

    .. math:: m_v(a) = \prod_{j} \sum_b P_j(b \mid a)\, m_j(b) \prod_{l} P_l(s_l \mid a) P_l(t_l \mid a), \qquad
              \kappa(s, t) = \sum_a P(a)\, m_{root}(a)

    with products over the internal children j and the leaves l of v.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> flip = [[0.9, 0.1], [0.1, 0.9]]
    >>> trees = mc.models.HiddenTrees(
    ...     parent=[[-1, 0]],
    ...     root=[[0.5, 0.5]],
    ...     transition=[[np.eye(2), flip]],
    ...     leaf_parent=[[1, 1, 0]],
    ...     leaf=[[flip, flip, flip]],
    ...     leaves=["human", "chimp", "mouse"],
    ... )
    >>> leaves = [[1, 1, 1], [1, 1, 0], [1, 0, 1], [1, np.nan, np.nan]]
    >>> np.exp(trees.log_prob(leaves)).round(4)
    array([[0.333, 0.077, 0.045, 0.5  ]])
    """

    _arrays: ClassVar[dict[str, int]] = {
        "parent": 1,
        "root": 1,
        "transition": 3,
        "leaf_parent": 1,
        "leaf": 3,
        "pruning": 0,
    }
    _shared: ClassVar[tuple[str, ...]] = ("leaves", "alphabet")
    _from_header: ClassVar[dict[str, Any]] = {"alphabet": Alphabet.from_header}

    parent: Indices
    root: Array
    transition: Array
    leaf_parent: Indices
    leaf: Array
    pruning: Array
    leaves: tuple[str, ...]
    alphabet: Alphabet | None

    def __init__(
        self,
        parent: Any,
        root: Any,
        transition: Any,
        leaf_parent: Any,
        leaf: Any,
        pruning: Any = None,
        leaves: Sequence[str] | None = None,
        alphabet: Any = None,
    ) -> None:
        root = checked_probability(root, "root")
        transition = checked_probability(transition, "transition")
        leaf = checked_probability(leaf, "leaf")
        above, leaf_above = to_numpy(parent), to_numpy(leaf_parent)
        check_shapes(root, transition, leaf, above, leaf_above)
        check_nodes(above, leaf_above)
        if pruning is None:
            pruning = beside(root, np.zeros(tuple(root.shape[:-1])), root.dtype)
        pruning = as_float(pruning)
        check_pruning(pruning, tuple(root.shape[:-1]))
        names = check_leaves(leaves, int(leaf.shape[-3]))
        symbols = None if alphabet is None else Alphabet.of(alphabet)
        if symbols is not None and len(symbols) != leaf.shape[-1]:
            raise ValueError(
                f"leaf must have the {len(symbols)} symbols of the alphabet {symbols.describe()}; got {leaf.shape[-1]}."
            )
        self._freeze(
            parent=above.astype(np.int64),
            root=root,
            transition=transition,
            leaf_parent=leaf_above.astype(np.int64),
            leaf=leaf,
            pruning=pruning,
            leaves=names,
            alphabet=symbols,
        )

    def __repr__(self) -> str:
        return f"HiddenTrees(shape={self.shape}, n_states={self.n_states}, n_leaves={self.dimension})"

    # -- sizes and storage ---------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Number of leaves."""
        return int(self.leaf.shape[-3])

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return int(self.root.shape[-1])

    @property
    def n_symbols(self) -> int:
        """Number of symbols at the leaves."""
        return int(self.leaf.shape[-1])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one tree, with separate parameters for each edge."""
        s, edges = self.n_states, int(self.parent.shape[-1]) - 1
        return s - 1 + edges * s * (s - 1) + self.dimension * s * (self.n_symbols - 1)

    def estimator(self) -> HiddenTree:
        """Return an estimator that accepts the samples of these trees."""
        from mercer.models.tree_estimator import HiddenTree

        above = np.concatenate([x.reshape(-1, x.shape[-1])[0] for x in (self.parent, self.leaf_parent)])
        names = ("",) * int(self.parent.shape[-1]) + self.leaves
        emission = None
        if self.n_symbols != self.n_states:
            emission = np.full((self.n_states, self.n_symbols), 1 / self.n_symbols)
        tree = Tree(above, names, np.full(len(names), np.nan)).newick()
        return HiddenTree(tree, self.n_states, emission=emission, alphabet=self.alphabet, leaves=self.leaves)

    def _check_alike(self, other: Batch) -> None:
        """Raise if the trees differ in leaves, states or symbols; their topologies may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        assert isinstance(other, HiddenTrees)
        for name in ("leaves", "alphabet", "n_states", "n_symbols"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(f"Two batches of HiddenTrees differ in {name}: {mine} and {theirs}.")

    # -- data ------------------------------------------------------------------------------------------------

    def _sets(self) -> Floats:
        """Return the symbols that each code stands for, ``(C, A)``; none for the last code, a missing value."""
        return sets_of(self.alphabet, self.n_symbols)

    def _codes(self, x: Any) -> Indices:
        """Return codes of points ``(T, L)`` as integers, with the last code for NaN."""
        with read_before():
            x = table_of(x, self.leaves, self.alphabet, "raise")
        x = to_numpy(as_float(x))
        n_codes = len(self._sets())
        check_codes(x, self.leaves, n_codes - 1, self.n_symbols)
        return np.where(np.isnan(x), n_codes - 1, x).astype(np.int64)

    def _evidence(self, member: int, codes: Floats) -> list[Array]:
        """Return log evidence at the internal nodes of one member of a flat batch, arrays ``(S, T)``."""
        log_leaf = safe_log(with_codes(self.leaf[member, ...], self._sets()))
        return evidence_at(self.parent[member], self.leaf_parent[member], log_leaf, codes)

    # -- capabilities ----------------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log probability of each point, ``(*B, n) x (T, L) -> (*B, n, T)``; NaN is marginalized."""
        codes, flat, xp = self._codes(x), self.reshape(-1), namespace(self.root)
        rows = []
        for i in range(len(flat)):
            inside, _ = inside_of(flat.parent[i], flat.transition[i, ...], flat._evidence(i, codes))
            rows.append(logsumexp(safe_log(flat.root[i, ...])[:, None] + inside[0], axis=0))
        return xp.reshape(xp.stack(rows), (*self.shape, codes.shape[0]))

    def posterior(self, x: Any) -> Array:
        """Posterior probabilities of the hidden states of all internal nodes, ``(*B, n, T, V, S)``.

        Nodes are those of ``parent``, in preorder (the estimator has their names in ``nodes_``).

        Parameters
        ----------
        x : array of shape (T, L)
            Points. A point of probability zero under a member raises an error.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> tree = mc.HiddenTree(
        ...     "((human:1,chimp:1)apes:1,mouse:2)root;",
        ...     rate=[[-0.1, 0.1], [0.2, -0.2]],
        ...     n_iter=0,
        ... )
        >>> tree.fit([[1, 1, 0]]).nodes_
        ('root', 'apes')
        >>> tree.model_.posterior([[1, 1, 0]])[0].round(2)
        array([[[0.4 , 0.6 ],
                [0.04, 0.96]]])
        """
        codes, flat = self._codes(x), self.reshape(-1)
        _check_possible(self.log_prob(x), "posterior")
        shape = len(codes), int(self.parent.shape[-1]), self.n_states
        found = np.empty((len(flat), *shape))
        for i in range(len(flat)):
            member = flat._member(i)
            for part in chunks(len(codes), shape[1] + self.dimension, self.n_states):
                found[i, part] = member.posterior(codes[part])
        return beside(self.root, found.reshape(*self.shape, *shape), self.root.dtype)

    def fisher_scores(self, x: Any, parametrization: str = "logit") -> Array:
        """Scores of each point, ``(*B, n, T, P)``: root, edges, leaves (FK-7); 0 for leaves with missing values.

        Parameters
        ----------
        x : array of shape (T, L)
            Points. A point of probability zero under all members raises an error; otherwise its score is 0 under the
            members that exclude it.
        parametrization : {"logit", "weight"}, default="logit"
            Parametrization of the probabilities (FK-0).
        """
        flat = self.reshape(-1)
        logs, scores = flat._scores(x, parametrization)
        _check_possible(logs.max(axis=0), "score")
        return beside(self.root, scores.reshape(*self.shape, *scores.shape[1:]), self.root.dtype)

    def point_scores(self, x: Any, parametrization: str = "logit") -> Floats:
        """Scores as in `fisher_scores`, of a batch of shape ``(n,)``, as NumPy; 0 for points of probability zero."""
        self._require_axis()
        return self._scores(x, parametrization)[1]

    def _scores(self, x: Any, parametrization: str) -> tuple[Floats, Floats]:
        """Compute log probabilities ``(n, T)`` and scores ``(n, T, P)`` of a flat batch."""
        check_parametrization(parametrization)
        codes = self._codes(x)
        found = [tree_scores(self._member(i), codes, parametrization) for i in range(len(self))]
        return np.stack([logs for logs, _ in found]), np.stack([rows for _, rows in found])

    def _member(self, i: int) -> Member:
        root, transition, leaf = (
            to_numpy(getattr(self, name)[i, ...]).astype(np.float64) for name in ("root", "transition", "leaf")
        )
        return Member(self.parent[i], self.leaf_parent[i], root, transition, leaf, self._sets())

    def score_names(self) -> list[str]:
        """Return the names of the columns of the Fisher scores."""
        symbols = range(self.n_symbols) if self.alphabet is None else self.alphabet.symbols
        return score_names(self.n_states, int(self.parent.shape[-1]), self.leaves, [str(s) for s in symbols])

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` points from each member, ``(*B, size, L)``: codes of symbols, as floats."""
        size = whole_size(size)
        rng, flat = random_generator(random_state), self.reshape(-1)
        out = np.empty((len(flat), size, self.dimension))
        for i in range(len(flat)):
            steps, shown = (np.cumsum(to_numpy(part[i, ...]), axis=-1) for part in (flat.transition, flat.leaf))
            states = [drawn(np.cumsum(to_numpy(flat.root[i, ...]))[None], rng.random(size))]
            for v in range(1, flat.parent.shape[1]):
                states.append(drawn(steps[v][states[flat.parent[i, v]]], rng.random(size)))
            for leaf, v in enumerate(flat.leaf_parent[i]):
                out[i, :, leaf] = drawn(shown[leaf][states[v]], rng.random(size))
        return out.reshape(*self.shape, size, self.dimension)

    def shared_history(self, x: Any) -> Operand:
        """Prepare points ``(N, L)`` for `Marginalization`: an operand for the log kernels of pairs (MK-6).

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> flip = [[0.9, 0.1], [0.1, 0.9]]
        >>> star = mc.models.HiddenTrees(
        ...     [[-1]], [[0.5, 0.5]], [[np.eye(2)]], [[0, 0]], [[flip, flip]]
        ... )
        >>> operand = star.shared_history([[0, 0], [1, 1]])
        >>> np.exp(operand.pair(operand)).round(4)
        array([[0.3281, 0.0081],
               [0.0081, 0.3281]])
        """
        from mercer.models._history.operand import history_operand

        self._require_one()
        codes, xp = self._codes(x), namespace(self.root)
        evidence = xp.stack(self._evidence(0, codes))  # (V, S, N)
        return history_operand(
            self.parent[0],
            self.transition[0, ...],
            self.root[0, ...],
            xp.permute_dims(evidence, (2, 0, 1)),
            pruning=float(to_numpy(self.pruning)[0]),
        )


def _check_possible(log_prob: Array, what: str) -> None:
    """Raise if a point has probability zero."""
    impossible = np.argwhere(np.isneginf(to_numpy(log_prob)))
    if len(impossible):
        raise ValueError(
            f"point {impossible[0][-1]} has probability zero under the tree, so it has no {what}. Use noisy leaves, as "
            "in emission=0.01, and no branches of length 0."
        )
