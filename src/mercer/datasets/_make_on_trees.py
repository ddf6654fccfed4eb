"""Generators of phylogenetic profiles and of families of strings, which share histories."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from mercer._array import Floats, as_float
from mercer._parameters import between, check, extent
from mercer._random import random_generator
from mercer.data import Alphabet
from mercer.datasets._make import _check_range, _labels
from mercer.models._tree.newick import Tree, parse_newick

_DESCRIPTION = """Phylogenetic profiles simulated along a tree: the presence (1) or absence (0) of genes in the genomes
at its leaves, with NaN for missing entries. Genes of one class share an ancestral history."""


def make_profiles(
    n_samples: int = 60,
    n_leaves: int = 48,
    *,
    tree: str | None = None,
    n_classes: int = 6,
    rate: Any = 2.0,
    fidelity: float = 0.95,
    missing: float = 0.5,
    random_state: Any = None,
) -> Bunch:
    """Generate profiles of genes that are gained and lost along a tree, with one ancestral history per class.

    The history of a class is drawn first: presence or absence at every internal node, changing along the branches. A
    gene follows the history of its class from the root down; at every internal node it may leave the history and then
    changes independently. Leaves always change independently. So classes gain and lose genes in different clades, and
    two genes of a class agree at the ancestors rather than at the leaves.

    Parameters
    ----------
    n_samples : int, default=60
        Number of genes.
    n_leaves : int, default=48
        Number of genomes in a random Yule tree of height 1, in which random lineages split repeatedly.
    tree : str or None, default=None
        A tree in Newick notation with branch lengths, instead of a random one; ``n_leaves`` is then ignored.
    n_classes : int, default=6
        Number of classes.
    rate : float or sequence of n_classes floats, default=2.0
        Expected number of changes per unit of branch length, for all classes or for each.
    fidelity : float, default=0.95
        Probability that a gene continues to follow its class at an internal node.
    missing : float, default=0.5
        Fraction of missing entries.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Source of randomness.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : array of shape (n_samples, n_leaves) of 0, 1 and NaN.
        ``target`` : array of shape (n_samples,), the classes in cyclic order: 0, 1, ..., 0, 1, ...
        ``tree`` : str, the tree in Newick notation; its leaves, in this order, are the columns.
        ``leaves`` : list of str, the names of the leaves.
        ``DESCR`` : description of the data.

    Examples
    --------
    >>> from mercer.datasets import make_profiles
    >>> profiles = make_profiles(
    ...     4,
    ...     tree="((human:1,chimp:1):1,mouse:2);",
    ...     n_classes=2,
    ...     missing=0.0,
    ...     random_state=0,
    ... )
    >>> profiles.data.shape, profiles.leaves, profiles.target.tolist()
    ((4, 3), ['human', 'chimp', 'mouse'], [0, 1, 0, 1])
    """
    check(extent(), n_samples=n_samples, n_classes=n_classes)
    check(extent(2), n_leaves=n_leaves)
    check(between(0, 1), fidelity=fidelity, missing=missing)
    rates = as_float([rate] * n_classes if np.ndim(rate) == 0 else rate, "rate")
    if rates.shape != (n_classes,) or not np.all((rates > 0) & np.isfinite(rates)):
        raise ValueError(f"rate must be a finite number above 0, or one for each of {n_classes} classes; got {rate!r}.")
    rng = random_generator(random_state)
    shape = _yule(n_leaves, rng) if tree is None else parse_newick(tree)
    if np.isnan(shape.lengths[1:]).any():
        raise ValueError("All branches of tree must have a length, as in '(A:0.1,B:0.2);'; some have none.")
    y = _labels(n_samples, n_classes)
    data = _leaf_states(shape, rates, y, fidelity, rng)
    data[rng.random(data.shape) < missing] = np.nan
    return Bunch(data=data, target=y, tree=shape.newick(), leaves=list(shape.leaves), DESCR=_DESCRIPTION)


def _leaf_states(tree: Tree, rates: Floats, y: Floats, fidelity: float, rng: np.random.Generator) -> Floats:
    """Draw histories of classes and genes, and return the genes' states at the leaves, ``(N, L)``."""
    n_classes, n, leaf = len(rates), len(y), tree.is_leaf
    length = np.where(np.isnan(tree.lengths), 0.0, tree.lengths)
    change = 0.5 * (1 - np.exp(-2 * rates[:, None] * length))  # (classes, nodes)
    history = np.empty((n_classes, len(leaf)), dtype=bool)
    states, follows = np.empty((n, len(leaf)), dtype=bool), np.ones((n, len(leaf)), dtype=bool)
    history[:, 0] = rng.random(n_classes) < 0.5
    states[:, 0] = history[y, 0]
    for v in range(1, len(leaf)):
        above = tree.parent[v]
        history[:, v] = history[:, above] ^ (rng.random(n_classes) < change[:, v])
        independent = states[:, above] ^ (rng.random(n) < change[y, v])
        follows[:, v] = follows[:, above] & (rng.random(n) < fidelity)
        states[:, v] = independent if leaf[v] else np.where(follows[:, v], history[y, v], independent)
    return states[:, leaf].astype(float)


def _yule(n_leaves: int, rng: np.random.Generator) -> Tree:
    """Draw a Yule tree of height 1: random lineages split until there are ``n_leaves``."""
    parent, birth, end, living, now = [-1], [0.0], [0.0], [0], 0.0
    while len(living) < n_leaves:
        now += rng.exponential(1 / len(living))
        split = living.pop(int(rng.integers(len(living))))
        end[split] = now
        for _ in range(2):
            living.append(len(parent))
            parent.append(split)
            birth.append(now)
            end.append(0.0)
    now += rng.exponential(1 / len(living))
    for v in living:
        end[v] = now
    return _in_preorder(np.array(parent), (np.array(end) - np.array(birth)) / (now - end[0]))


def _in_preorder(parent: Floats, lengths: Floats) -> Tree:
    """Return the tree with nodes in preorder and leaves named from left to right."""
    children: list[list[int]] = [[] for _ in parent]
    for v, above in enumerate(parent[1:].tolist(), start=1):
        children[above].append(v)
    order, waiting = [], [0]
    while waiting:
        v = waiting.pop()
        order.append(v)
        waiting += reversed(children[v])
    place = np.argsort(order)
    above = np.where(parent[order] < 0, -1, place[parent[order]])
    ends = [not children[v] for v in order]
    number = np.cumsum(ends)
    names = tuple(f"genome{k}" if end else "" for k, end in zip(number.tolist(), ends, strict=True))
    lengths = lengths[order]
    lengths[0] = np.nan
    return Tree(above, names, lengths)


def make_families(
    n_samples: int = 60,
    *,
    length: int | tuple[int, int] = 80,
    n_classes: int = 3,
    mutation: float = 0.5,
    deletion: float = 0.04,
    insertion: int = 7,
    alphabet: Any = "protein",
    random_state: Any = None,
) -> tuple[list[str], Floats]:
    """Generate strings that descend from one random ancestor per class, with mutations, deletions and an insertion.

    Two members of a class share a fraction of about ``(1 - mutation)**2`` of their letters, at shifted positions.
    Nothing else distinguishes the classes: all letters are equally frequent.

    Parameters
    ----------
    n_samples : int, default=60
        Number of strings.
    length : int or (int, int), default=80
        Number of letters per ancestor, or the smallest and largest number, between which it is drawn uniformly.
    n_classes : int, default=3
        Number of classes, with one ancestor each.
    mutation : float, default=0.5
        Fraction of the letters that are redrawn.
    deletion : float, default=0.04
        Fraction of the letters that are deleted.
    insertion : int, default=7
        Largest number of letters inserted at one random position; the number is drawn uniformly from 0 on.
    alphabet : Alphabet, "dna", "rna", "protein" or iterable of symbols, default="protein"
        The letters.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Source of randomness.

    Returns
    -------
    X : list of str
        The strings.
    y : array of shape (n_samples,)
        Classes in cyclic order: 0, 1, ..., 0, 1, ...

    Examples
    --------
    >>> from mercer.datasets import make_families
    >>> X, y = make_families(
    ...     4, length=12, n_classes=2, mutation=0.2, alphabet="dna", random_state=1
    ... )
    >>> X
    ['CGTCCTTTTATAACTC', 'CTCCAGAATTTG', 'CGTCATTTACTCTATT', 'CTCCGAACGTAATTTG']
    """
    check(extent(), n_samples=n_samples, n_classes=n_classes)
    check(extent(0), insertion=insertion)
    check(between(0, 1, "left"), mutation=mutation, deletion=deletion)
    rng = random_generator(random_state)
    symbols = Alphabet.of(alphabet).symbols
    if not all(isinstance(symbol, str) for symbol in symbols):
        raise TypeError(f"alphabet must consist of letters, since the samples are strings; got {symbols[0]!r}.")
    letters = np.array(symbols)
    lengths = rng.integers(*_check_range("length", length), size=n_classes, endpoint=True)
    ancestors = [rng.choice(letters, size) for size in lengths]
    y = _labels(n_samples, n_classes)
    strings = []
    for c in y:
        kept = ancestors[c][rng.random(len(ancestors[c])) >= deletion]
        changed = np.where(rng.random(len(kept)) < mutation, rng.choice(letters, len(kept)), kept)
        position, size = rng.integers(len(kept), endpoint=True), rng.integers(insertion, endpoint=True)
        strings.append("".join(np.insert(changed, position, rng.choice(letters, size))))
    return strings, y
