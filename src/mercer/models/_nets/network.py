"""What networks, directed or not, have in common: named nodes, posteriors, criteria and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, PowerProduct
from mercer.data import Sequences
from mercer.data.segments import segments
from mercer.families.base import Family
from mercer.models._nets.bound import NetBound
from mercer.models._nets.cliques import AnyGraph
from mercer.models._nets.evidence import Parameters
from mercer.models._nets.graph import framed, values_of
from mercer.models._nets.operand import NetOperand, check_observed, layout_of
from mercer.models._nets.scores import net_cliques
from mercer.models.hidden import Clique
from mercer.models.verbs import HasCriteria


class ContractionCost(NamedTuple):
    """The cost of the kernel of one pair of networks.

    Examples
    --------
    >>> import mercer as mc
    >>> nets = mc.BayesNets({"rain": [[0.2, 0.8]]}, {"rain": ["yes", "no"]})
    >>> nets.contraction_cost()
    ContractionCost(products=2, largest=1)
    """

    products: int
    """Number of multiplications."""
    largest: int
    """Number of entries of the largest table."""


class Network(HasCriteria, Family):
    """Base class of batches of networks. A subclass has a graph, tables as NumPy, scores and couplings."""

    hidden: tuple[str, ...]

    @property
    def _graph(self) -> AnyGraph:
        raise NotImplementedError

    def _numpy(self) -> Parameters:
        """Return the entries of all tables, and means and variances, of a batch of one axis."""
        raise NotImplementedError

    def log_prob(self, x: Any) -> Array:
        """Log probability of each point, ``(*B, n) x (T, D) -> (*B, n, T)``; NaN is marginalized."""
        raise NotImplementedError

    def _posteriors(self, table: Floats, v: int) -> tuple[Floats, Floats]:
        """Return log probabilities of rows up to a constant ``(n, T)``, and posteriors of node v ``(n, T, states)``."""
        raise NotImplementedError

    def _scores(self, x: Any, parametrization: str) -> tuple[Floats, Floats]:
        """Return log probabilities of points up to a constant ``(n, T)``, and their scores ``(n, T, P)``."""
        raise NotImplementedError

    def couple(self, coupling: Coupling, lengths: Any = None) -> NetOperand:
        """Prepare for a coupling."""
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        """Number of observed nodes."""
        return len(self._graph.observed)

    @property
    def observed(self) -> tuple[str, ...]:
        """Names of the observed nodes: the columns of data."""
        graph = self._graph
        return tuple(graph.names[v] for v in graph.observed)

    def _number(self, node: Any) -> int:
        number = self._graph.number
        if not isinstance(node, str) or node not in number:
            raise ValueError(f"node must be one of {', '.join(list(number)[:20])}; got {node!r}.")
        return number[node]

    def _check_alike(self, other: Batch) -> None:
        """Raise if the observed variables or their states differ; the structures may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        assert isinstance(other, Network)
        check_observed(self._graph, other._graph)

    @classmethod
    def _of_one_size(cls, batches: Sequence[Self]) -> Sequence[Self]:
        for other in batches[1:]:
            if other._graph is not batches[0]._graph:
                raise ValueError(
                    f"A batch of {cls.__name__} has one structure; got networks of two structures. Use kernel(a, b)."
                )
        return batches

    def posterior(self, x: Any, node: str, as_frame: bool = False) -> Any:
        """Posterior probabilities of the states of one discrete node, ``(*B, n, T, states)``.

        Parameters
        ----------
        x : array of shape (T, D), data frame, or dict
            Points, as in `log_prob`. A point of probability zero under a member raises an error.
        node : str
            Name of the node; a data frame or dict needs no column for it.
        as_frame : bool, default=False
            Whether to return a data frame of pandas: a row per point, a column per state. If there are several
            networks, the rows are those of one network after the other.

        Examples
        --------
        >>> import mercer as mc
        >>> tables = {"rain": [[0.2, 0.8]], "wet": [[[0.9, 0.1], [0.2, 0.8]]]}
        >>> nodes = {"rain": ["yes", "no"], "wet": ["yes", "no"]}
        >>> net = mc.BayesNets(tables, nodes, {"wet": ["rain"]})
        >>> net.posterior({"wet": ["yes", "no"]}, "rain", as_frame=True).round(3)
        rain    yes     no
        0     0.529  0.471
        1     0.030  0.970
        """
        graph, v = self._graph, self._number(node)
        if not graph.sizes[v]:
            raise ValueError(f"node must be discrete; got the Gaussian node {node!r}.")
        logs, found = self._posteriors(values_of(graph, x), v)
        check_possible(logs, "posterior")
        return framed(graph, x, v, found) if as_frame else found.reshape(*self.shape, *found.shape[1:])

    def _total_log_prob(self, X: Any) -> tuple[Floats, int]:
        """Return the log probability of all rows under each network, and their number."""
        logs = to_numpy(self.log_prob(segments(X)[0] if isinstance(X, Sequences) else X))
        return logs.sum(axis=-1), logs.shape[-1]

    def point_scores(self, x: Any, parametrization: str = "logit") -> Floats:
        """Scores as in `fisher_scores`, of a batch of shape ``(n,)``, as NumPy; 0 for points of probability zero."""
        self._require_axis()
        return self._scores(x, parametrization)[1]

    def couple_mean_field(self, rho: float, length: int, n_init: int, seed: int) -> NetBound:
        """Prepare for the mean field bound of the probability product (PPK-6); ``length`` is ignored."""
        return NetBound.of(self.couple(PowerProduct(rho)), n_init, seed)

    infers_missing: ClassVar[bool] = True
    """Whether latent kernels replace missing values by their posteriors."""

    def latent_cliques(self, X: Any) -> list[Clique]:
        """Return the mean posteriors of all nodes with their parents, for `LatentMeanMap` and `PosteriorCounts`.

        Parameters
        ----------
        X : array of shape (N, D), or Sequences
            Samples of one row each, or tables of rows, for a batch of shape ``(1,)``.
        """
        self._require_one()
        x, offsets = segments(X)
        logs, found = net_cliques(self._graph, values_of(self._graph, x), np.asarray(offsets), self._numpy())
        check_possible(logs, "posterior")
        return found

    def require_discrete(self, kernel: str) -> None:
        """Raise if there is a Gaussian node."""
        for v in self._graph.gaussian:
            raise TypeError(
                f"{kernel} needs networks of discrete nodes; got the Gaussian node {self._graph.names[v]!r}. Use "
                "mc.LatentMeanMap."
            )

    def no_samples(self) -> Any:
        """Return an empty matrix of data."""
        return np.empty((0, self.dimension))

    def contraction_cost(self, other: Self | None = None, *, mean_map: bool = False) -> ContractionCost:
        """Return the cost of the kernel of one pair, in multiplications and entries of the largest table.

        Parameters
        ----------
        other : batch of networks, default=None
            Networks of another structure; None compares the networks with each other.
        mean_map : bool, default=False
            Whether the kernel is `MeanMap`, whose two samples have their own observed variables.
        """
        other = self if other is None else other
        self._check_alike(other)
        plan = layout_of(self._graph, other._graph, mean_map, False).plan
        plan.check("The kernel of these networks")
        return ContractionCost(plan.products, plan.largest)


def check_possible(logs: Floats, what: str) -> None:
    """Raise if a row has probability zero under a network."""
    impossible = np.argwhere(np.isneginf(logs))
    if len(impossible):
        i, row = impossible[0]
        raise ValueError(
            f"Row {row} has probability zero under network {i}, so it has no {what}. Use tables without zeros, or "
            "leave the row out."
        )
