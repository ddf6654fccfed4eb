"""Batches of Bayesian networks: discrete nodes, some hidden, and Gaussian leaves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, beside, namespace, to_numpy
from mercer._coupling import Coupling
from mercer._random import random_generator, whole_size
from mercer.data.segments import segments
from mercer.families.gaussian import Gaussians
from mercer.models._nets.bif import write_bif
from mercer.models._nets.evidence import log_probabilities
from mercer.models._nets.graph import Graph, Nodes, Parents, checked_graph, described, graph_of, values_of
from mercer.models._nets.network import ContractionCost, Network, check_possible
from mercer.models._nets.nodes import checked_rows, flat_rows, hmm_parts, pgmpy_parts
from mercer.models._nets.operand import NetOperand, in_order, operand_of
from mercer.models._nets.scores import (
    SharedNodes,
    net_posteriors,
    net_samples,
    net_scores,
    score_names,
    shared_nodes,
)
from mercer.models._scores.weighted import check_parametrization

if TYPE_CHECKING:
    from mercer.models.bayesnet_estimator import BayesNet

__all__ = ["BayesNets", "ContractionCost"]


class BayesNets(Network):
    r"""A batch of Bayesian networks of one structure, with discrete nodes and Gaussian leaves.

    A sample is a row with one column per observed node, in the order of ``nodes``: codes 0, 1, ... of states, real
    numbers of Gaussian nodes, and NaN for missing values.

    Parameters
    ----------
    probability : dict
        The table of each discrete node, of shape ``(..., *parents, states)``: the last axis is the node itself, and the
        axes before it are its parents, in the order of ``parents``.
    nodes : dict
        Names of the nodes, and of each the names of its states, their number, or "gaussian".
    parents : dict, default=None
        Names of the parents of each node; a node that is not a key has none. Parents are discrete.
    hidden : sequence of str, default=()
        Discrete nodes that are not observed.
    mean, variance : dict, default=None
        Means and variances of each Gaussian node given its parents, of shape ``(..., *parents)``.

    Notes
    -----
    The kernel of two networks of any structures over the same observed variables is a sum over the observed variables
    and the hidden variables of both networks (PPK-4.3),

    .. math:: \tilde k(p, q) = \sum_{x, h, h'} \prod_i p(z_i \mid pa_i)^\rho \prod_j q(z'_j \mid pa'_j)^\rho

    It is computed by eliminating one variable after the other. The order is found once per pair of structures, and
    all pairs of networks are computed together. The cost is exponential in the width of the joined graph; see
    `contraction_cost`. Variables and states are matched by their names.

    Examples
    --------
    >>> import mercer as mc
    >>> nets = mc.BayesNets(
    ...     probability={
    ...         "rain": [[0.2, 0.8], [0.5, 0.5]],
    ...         "wet": [[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.2, 0.8]]],
    ...     },
    ...     nodes={"rain": ["yes", "no"], "wet": ["yes", "no"]},
    ...     parents={"wet": ["rain"]},
    ... )
    >>> nets.posterior({"wet": "yes"}, "rain").round(3)
    array([[[0.529, 0.471]],
    <BLANKLINE>
           [[0.818, 0.182]]])
    >>> mc.ProbabilityProduct(rho=0.5)(nets).round(4)
    array([[1.    , 0.9487],
           [0.9487, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"probability": 1, "mean": 1, "variance": 1}
    _shared: ClassVar[tuple[str, ...]] = ("nodes", "parents", "hidden")
    _conversions: ClassVar[dict[str, str]] = {
        "HMMs": "Unroll the hidden Markov models: mc.BayesNets.from_hmm(hmms, len(nets.observed), nets.observed)."
    }

    probability: Array
    mean: Array
    variance: Array
    nodes: Nodes
    parents: Parents
    hidden: tuple[str, ...]

    def __init__(
        self,
        probability: Any,
        nodes: Any,
        parents: Any = None,
        hidden: Sequence[str] = (),
        mean: Any = None,
        variance: Any = None,
    ) -> None:
        graph = checked_graph(nodes, parents, hidden)
        rows = flat_rows(probability, graph, graph.discrete, "probability")
        means = flat_rows(mean, graph, graph.gaussian, "mean")
        variances = flat_rows(variance, graph, graph.gaussian, "variance")
        found = [part for part in (rows, means, variances) if part is not None]
        lead = tuple(found[0].shape[:-1])
        for name, part in (("mean", means), ("variance", variances)):
            if part is not None and tuple(part.shape[:-1]) != lead:
                raise ValueError(f"{name} must have the batch shape {lead}; got {tuple(part.shape[:-1])}.")
        empty = beside(found[0], np.zeros((*lead, 0)), found[0].dtype)
        rows, means, variances = (empty if part is None else part for part in (rows, means, variances))
        checked_rows(graph, rows, means, variances)
        self._freeze(
            probability=rows,
            mean=means,
            variance=variances,
            nodes=graph.nodes,
            parents=graph.parents,
            hidden=graph.hidden,
        )

    # -- other sources -------------------------------------------------------------------------------------

    @classmethod
    def from_hmm(cls, hmms: Any, length: int, names: Sequence[str] | None = None) -> Self:
        """Unroll hidden Markov models of symbols, or of univariate Gaussians, over a number of observations.

        Parameters
        ----------
        hmms : HMMs
            The models.
        length : int
            Number of observations; nodes are "state0", ..., which are hidden, and "x0", ...
        names : sequence of str, default=None
            Names of the observed nodes, if not "x0", ...

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.5, 0.5], [0.9, 0.1]]], alphabet="HT")
        >>> hmms = mc.HMMs([[0.5, 0.5]], [[[0.8, 0.2], [0.2, 0.8]]], emission)
        >>> nets = mc.BayesNets.from_hmm(hmms, 3)
        >>> nets.log_prob([list("HHT")]).round(6) == hmms.log_prob(["HHT"]).round(6)
        array([[ True]])
        """
        return cls(**hmm_parts(hmms, length, names)._asdict())

    @classmethod
    def from_pgmpy(cls, network: Any, hidden: Sequence[str] = ()) -> Self:
        """Convert a discrete network of pgmpy, to a batch of shape ``(1,)``.

        Parameters
        ----------
        network : pgmpy.models.DiscreteBayesianNetwork
            A network with all of its tables.
        hidden : sequence of str, default=()
            Nodes that are not observed.
        """
        return cls(**pgmpy_parts(network, hidden)._asdict())

    # -- sizes and parts -----------------------------------------------------------------------------------

    @property
    def _graph(self) -> Graph:
        return graph_of(self.nodes, self.parents, self.hidden)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one network."""
        return sum(self._graph.free)

    def __repr__(self) -> str:
        return f"BayesNets(shape={self.shape}, n_nodes={len(self.nodes)}, n_hidden={len(self.hidden)})"

    def table(self, node: str) -> Array:
        """Return the probabilities of a discrete node, ``(*B, *parents, states)``, or the means of a Gaussian one."""
        v = self._number(node)
        graph = self._graph
        flat = self.probability if graph.sizes[v] else self.mean
        return namespace(flat).reshape(flat[..., graph.places[v]], (*self.shape, *graph.shapes[v]))

    def tables(self) -> dict[str, Array]:
        """Return the table of every node, by its name."""
        return {name: self.table(name) for name, _ in self.nodes}

    def to_bif(self, path: str | os.PathLike[str]) -> None:
        """Write one network of discrete nodes in the Bayesian interchange format, which `read_bif` reads.

        The format has no place for which nodes are hidden.

        Parameters
        ----------
        path : str or path
            The file to write; gzipped if it ends in ``.gz``. An existing file is replaced when the new one is complete.
        """
        self._require_one()
        write_bif(path, self._graph, {name: to_numpy(table)[0] for name, table in self.tables().items()})

    def summary(self) -> str:
        """Return a table of the nodes as text: their states, parents, and numbers of free parameters.

        Examples
        --------
        >>> import mercer as mc
        >>> tables = {"rain": [[0.2, 0.8]], "wet": [[[0.9, 0.1], [0.2, 0.8]]]}
        >>> nodes = {"rain": ["yes", "no"], "wet": ["yes", "no"]}
        >>> print(mc.BayesNets(tables, nodes, {"wet": ["rain"]}, hidden=["rain"]).summary())
        BayesNet of 2 nodes (1 hidden), 3 free parameters
        node           parents  parameters  states
        rain (hidden)  -                 1  yes, no
        wet            rain              2  yes, no
        """
        return described(self._graph)

    def estimator(self) -> BayesNet:
        """Return an estimator of networks of the same structure."""
        from mercer.models.bayesnet_estimator import BayesNet

        nodes = {name: list(states) or "gaussian" for name, states in self.nodes}
        return BayesNet(nodes, {name: list(above) for name, above in self.parents}, list(self.hidden))

    # -- capabilities --------------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Array:
        """Log probability of each point, ``(*B, n) x (T, D) -> (*B, n, T)``; NaN is marginalized.

        Parameters
        ----------
        x : array of shape (T, D), data frame, or dict
            Codes or names of states. The columns of a data frame and the keys of a dict (one point) are names of
            nodes; other nodes are missing.
        """
        table = values_of(self._graph, x)
        logs = log_probabilities(self._graph, table, self._numpy())
        return beside(self.probability, logs.reshape(*self.shape, len(table)), self.probability.dtype)

    def _posteriors(self, table: Floats, v: int) -> tuple[Floats, Floats]:
        return net_posteriors(self._graph, table, self._numpy(), v)

    def _numpy(self) -> tuple[Floats, Floats, Floats]:
        flat = self.reshape(-1)
        probability, mean, variance = (
            to_numpy(part).astype(np.float64) for part in (flat.probability, flat.mean, flat.variance)
        )
        return probability, mean, variance

    def fisher_scores(self, x: Any, parametrization: str = "logit") -> Array:
        """Scores of each point, ``(*B, n, T, P)``: tables in the order of the nodes (FK-7), means, log sd (FK-4).

        Parameters
        ----------
        x : array of shape (T, D), data frame, or dict
            Points, as in `log_prob`. A point of probability zero under a member raises an error.
        parametrization : {"logit", "weight"}, default="logit"
            Parametrization of the probabilities (FK-0).
        """
        logs, scores = self._scores(x, parametrization)
        check_possible(logs, "score")
        return beside(self.probability, scores.reshape(*self.shape, *scores.shape[1:]), self.probability.dtype)

    def _scores(self, x: Any, parametrization: str) -> tuple[Floats, Floats]:
        check_parametrization(parametrization)
        return net_scores(self._graph, values_of(self._graph, x), self._numpy(), parametrization)

    def score_names(self) -> list[str]:
        """Return the names of the columns of the Fisher scores."""
        return score_names(self._graph)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` points of the observed nodes from each member, ``(*B, size, D)``, as floats."""
        size = whole_size(size)
        return net_samples(self._graph, self._numpy(), size, random_generator(random_state)).reshape(
            *self.shape, size, self.dimension
        )

    def couple(self, coupling: Coupling, lengths: Any = None) -> NetOperand:
        """Prepare for a coupling: tables raised to its power; ``lengths`` is ignored."""
        self._require_axis()
        graph, xp = self._graph, namespace(self.mean)
        tables: dict[int, Any] = {}
        for v in range(len(graph.names)):
            if graph.sizes[v]:
                tables[v] = in_order(graph, v, self.table(graph.names[v]))
                continue
            parts = (
                xp.reshape(x[..., graph.places[v]], (len(self), *graph.shapes[v])) for x in (self.mean, self.variance)
            )
            mean, variance = (in_order(graph, v, part) for part in parts)
            tables[v] = Gaussians(xp.reshape(mean, (*mean.shape, 1)), variance)
        return operand_of(graph, tables, coupling)

    def shared_history(self, X: Any) -> SharedNodes:
        r"""Prepare samples for `Marginalization`: the probability that shared hidden nodes generate both of two (MK-2).

        Parameters
        ----------
        X : array of shape (N, D)
            Samples of one row each, for a batch of shape ``(1,)``. Hidden nodes must not have observed parents.

        Returns
        -------
        operand
            Its ``pair(other)`` returns :math:`\log \sum_h P(h) P(x \mid h) P(z \mid h)` for all pairs.
        """
        self._require_one()
        x, offsets = segments(X)
        if not np.all(np.diff(offsets) == 1):
            raise ValueError("Marginalization compares samples of one row each; got tables. Pass a matrix of rows.")
        return shared_nodes(self._graph, values_of(self._graph, x), self._numpy())
