"""Batches of Markov networks: undirected graphs of discrete nodes, some of them hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, beside, namespace, to_numpy
from mercer._coupling import Coupling
from mercer._probability import ratio
from mercer._random import random_generator, whole_size
from mercer.models._nets.cliques import CliqueGraph, Cliques, checked_cliques, clique_graph_of, flat_factors
from mercer.models._nets.contraction import BATCH, find_plan, log_sums, relabeled
from mercer.models._nets.draws import factor_samples
from mercer.models._nets.evidence import Parameters, groups, inferred, log_probabilities
from mercer.models._nets.graph import Nodes, values_of
from mercer.models._nets.network import Network, check_possible
from mercer.models._nets.operand import NetOperand, in_order, operand_of
from mercer.models._scores.weighted import check_parametrization
from mercer.models.bayesnet import BayesNets

if TYPE_CHECKING:
    from mercer.models.markovnet_estimator import MarkovNetwork

__all__ = ["MarkovNetworks"]


class MarkovNetworks(Network):
    r"""A batch of Markov networks (random fields) of one structure: products of factors of discrete nodes.

    A sample is a row with one column per observed node, in the order of ``nodes``: codes 0, 1, ... of states, and NaN
    for missing values.

    Parameters
    ----------
    factors : dict
        The table of each clique: ``factors["a", "b"]`` has shape ``(..., states of a, states of b)``. Entries are not
        negative and need not sum to one.
    nodes : dict
        Names of the nodes, and of each the names of its states, or their number.
    hidden : sequence of str, default=()
        Nodes that are not observed.
    cliques : sequence of tuples of str, default=None
        The nodes of each factor; None takes the keys of ``factors``.

    Notes
    -----
    .. math:: p(z) = \frac1Z \prod_c \psi_c(z_c), \qquad Z = \sum_z \prod_c \psi_c(z_c)

    Z is computed by eliminating one variable after the other. The kernel of two networks of any structures over the
    same observed variables is

    .. math::
        \tilde k(p, q) = \frac1{(Z Z')^\rho}
        \sum_{x, h, h'} \prod_c \psi_c(z_c)^\rho \prod_{c'} \psi'_{c'}(z'_{c'})^\rho

    by the elimination of `BayesNets` (PPK-4.3). The cost is exponential in the width of the joined graph; see
    `contraction_cost`. Variables and states are matched by their names.

    Examples
    --------
    >>> import mercer as mc
    >>> nets = mc.models.MarkovNetworks(
    ...     factors={
    ...         ("left", "right"): [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 3.0], [3.0, 1.0]]],
    ...         "left": [[1.0, 1.0], [3.0, 1.0]],
    ...     },
    ...     nodes={"left": ["up", "down"], "right": ["up", "down"]},
    ... )
    >>> nets.posterior({"right": "up"}, "left").round(3)
    array([[[0.667, 0.333]],
    <BLANKLINE>
           [[0.5  , 0.5  ]]])
    >>> mc.ProbabilityProduct(rho=0.5)(nets).round(4)
    array([[1.    , 0.8773],
           [0.8773, 1.    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"factors": 1}
    _shared: ClassVar[tuple[str, ...]] = ("nodes", "hidden", "cliques")

    factors: Array
    nodes: Nodes
    hidden: tuple[str, ...]
    cliques: Cliques

    def __init__(self, factors: Any, nodes: Any, hidden: Sequence[str] = (), cliques: Any = None) -> None:
        if cliques is None:
            if not isinstance(factors, Mapping) or not factors:
                raise TypeError(f"factors must map cliques to tables, as in {{('a', 'b'): table}}; got {factors!r}.")
            cliques = tuple(factors)
        graph = checked_cliques(nodes, cliques, hidden)
        flat = flat_factors(factors, graph)
        self._freeze(factors=flat, nodes=graph.nodes, hidden=graph.hidden, cliques=graph.cliques)
        impossible = np.argwhere(np.isneginf(to_numpy(self.log_partition())))
        if len(impossible):
            index = ", ".join(map(str, impossible[0].tolist()))
            named = f"Network {index}" if index else "The network"
            raise ValueError(
                f"{named} has no configuration whose factors are all positive. Give "
                "some configuration a positive weight in every factor."
            )

    @classmethod
    def from_bayes_nets(cls, nets: BayesNets) -> Self:
        """Return the same distributions without directions: a factor of each node with its parents.

        Parameters
        ----------
        nets : BayesNets
            Networks of discrete nodes.

        Examples
        --------
        >>> import mercer as mc
        >>> tables = {"rain": [[0.2, 0.8]], "wet": [[[0.9, 0.1], [0.2, 0.8]]]}
        >>> nets = mc.BayesNets(tables, {"rain": 2, "wet": 2}, {"wet": ["rain"]})
        >>> mc.models.MarkovNetworks.from_bayes_nets(nets).cliques
        (('rain',), ('rain', 'wet'))
        """
        graph = nets._graph
        if graph.gaussian:
            raise ValueError(
                f"The nodes of a Markov network must be discrete; {graph.names[graph.gaussian[0]]!r} is Gaussian."
            )
        cliques = tuple(tuple(graph.names[u] for u in family) for family in graph.families)
        return cls._make(factors=nets.probability, nodes=graph.nodes, hidden=graph.hidden, cliques=cliques)

    # -- sizes and parts -----------------------------------------------------------------------------------

    @property
    def _graph(self) -> CliqueGraph:
        return clique_graph_of(self.nodes, self.cliques, self.hidden)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one network: interactions of all sets of nodes that a clique contains."""
        return self._graph.n_free

    def __repr__(self) -> str:
        return (
            f"MarkovNetworks(shape={self.shape}, n_nodes={len(self.nodes)}, n_factors={len(self.cliques)}, "
            f"n_hidden={len(self.hidden)})"
        )

    def table(self, *clique: str) -> Array:
        """Return the factor of a clique, ``(*B, *states)``; its nodes are named in the order of its axes."""
        graph = self._graph
        if clique not in graph.cliques:
            raise ValueError(f"The network has no factor of {clique!r}; it has those of {list(graph.cliques[:20])}.")
        t = graph.cliques.index(clique)
        flat = self.factors[..., graph.places[t]]
        return namespace(flat).reshape(flat, (*self.shape, *graph.shapes[t]))

    def _tables(self) -> list[Array]:
        """Return all factors of a batch of one axis."""
        graph, flat = self._graph, self.reshape(-1).factors
        xp = namespace(flat)
        return [
            xp.reshape(flat[..., place], (flat.shape[0], *shape))
            for place, shape in zip(graph.places, graph.shapes, strict=True)
        ]

    def summary(self) -> str:
        """Return a table of the factors as text.

        Examples
        --------
        >>> import mercer as mc
        >>> nets = mc.models.MarkovNetworks({("a", "b"): [[[2, 1], [1, 2]]]}, {"a": 2, "b": 2})
        >>> print(nets.summary())
        MarkovNetwork of 2 nodes (0 hidden), 3 free parameters
        factor  entries
        a, b          4
        """
        graph = self._graph
        rows = [(", ".join(clique), place) for clique, place in zip(graph.cliques, graph.places, strict=True)]
        width = max(6, *(len(name) for name, _ in rows))
        lines = [f"{name:<{width}}  {place.stop - place.start:>7}" for name, place in rows]
        title = (
            f"MarkovNetwork of {len(graph.names)} nodes ({len(graph.hidden)} hidden), {graph.n_free} free parameters"
        )
        return "\n".join([title, f"{'factor':<{width}}  entries", *lines])

    def estimator(self) -> MarkovNetwork:
        """Return an estimator of networks of the same structure."""
        from mercer.models.markovnet_estimator import MarkovNetwork

        return MarkovNetwork({name: list(states) for name, states in self.nodes}, list(self.cliques), list(self.hidden))

    # -- capabilities --------------------------------------------------------------------------------------

    def log_partition(self) -> Array:
        """Logarithm of Z, the sum over all configurations of the products of factors, ``(*B)``."""
        graph = self._graph
        labels = tuple((*sorted(family), BATCH) for family in graph.families)
        plan = find_plan(labels, graph.sizes, (BATCH,))
        plan.check("The sum over all configurations of these networks")
        pairs = zip(self._tables(), graph.families, labels, strict=True)
        found = log_sums(plan, [relabeled(x, (BATCH, *family), own) for x, family, own in pairs])
        return namespace(found).reshape(found, self.shape)

    def log_prob(self, x: Any) -> Array:
        """Log probability of each point, ``(*B, n) x (T, D) -> (*B, n, T)``; NaN is marginalized.

        Parameters
        ----------
        x : array of shape (T, D), data frame, or dict
            Codes or names of states. The columns of a data frame and the keys of a dict (one point) are names of
            nodes; other nodes are missing.
        """
        table = values_of(self._graph, x)
        logs = log_probabilities(self._graph, table, self._numpy()).reshape(*self.shape, len(table))
        return beside(self.factors, logs - to_numpy(self.log_partition())[..., None], self.factors.dtype)

    def _posteriors(self, table: Floats, v: int) -> tuple[Floats, Floats]:
        graph = self._graph
        t = next(t for t in graph.tables if v in graph.families[t])
        others = tuple(2 + axis for axis, u in enumerate(graph.families[t]) if u != v)
        logs, counts = self._counts(table)
        return logs, counts[..., graph.places[t]].reshape(*logs.shape, *graph.shapes[t]).sum(axis=others)

    def _counts(self, table: Floats) -> tuple[Floats, Floats]:
        """Return log probabilities up to log Z ``(n, T)``, and posteriors of all cliques ``(n, T, P)``."""
        graph, parameters = self._graph, self._numpy()
        logs = np.empty((len(parameters[0]), len(table)))
        found = np.zeros((*logs.shape, graph.n_entries))
        for models, group, values, tables in inferred(groups(graph, table), parameters):
            logs[models, group.rows] = values
            for t, posterior in tables.items():
                found[models, group.rows, graph.places[t]] = group.counts(t, posterior)
        return logs, found

    def _numpy(self) -> Parameters:
        factors = to_numpy(self.reshape(-1).factors).astype(np.float64)
        nothing = np.empty((len(factors), 0))
        return factors, nothing, nothing

    def expected_counts(self) -> Floats:
        """Probabilities of the states of all cliques, ``(*B, P)``, in the order of ``factors``."""
        nothing = np.full((1, self.dimension), np.nan)
        return self._counts(nothing)[1].reshape(*self.shape, -1)

    def fisher_scores(self, x: Any, parametrization: str = "logit") -> Array:
        r"""Scores of each point, ``(*B, n, T, P)``, with respect to the logarithms of all factors (FK-3).

        .. math:: \frac{\partial \log p(x)}{\partial \log\psi_c(z_c)} = P(z_c \mid x) - P(z_c)

        Parameters
        ----------
        x : array of shape (T, D), data frame, or dict
            Points, as in `log_prob`. A point of probability zero under a member raises an error.
        parametrization : {"logit", "weight"}, default="logit"
            Logarithms of the factors, or the factors themselves.
        """
        logs, scores = self._scores(x, parametrization)
        check_possible(logs, "score")
        return beside(self.factors, scores.reshape(*self.shape, *scores.shape[1:]), self.factors.dtype)

    def _scores(self, x: Any, parametrization: str) -> tuple[Floats, Floats]:
        check_parametrization(parametrization)
        logs, counts = self._counts(values_of(self._graph, x))
        scores = counts - self.expected_counts().reshape(len(counts), 1, -1)
        scores = np.where(np.isneginf(logs)[..., None], 0.0, scores)
        return logs, scores if parametrization == "logit" else ratio(scores, self._numpy()[0][:, None])

    def score_names(self) -> list[str]:
        """Return the names of the columns of the Fisher scores."""
        return self._graph.entries()

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` points of the observed nodes from each member, ``(*B, size, D)``, exactly, by elimination."""
        graph, size = self._graph, whole_size(size)
        tables = [to_numpy(table).astype(np.float64) for table in self._tables()]
        values = factor_samples(graph, tables, size, random_generator(random_state))
        return values[:, :, list(graph.observed)].reshape(*self.shape, size, self.dimension)

    def couple(self, coupling: Coupling, lengths: Any = None) -> NetOperand:
        """Prepare for a coupling: factors and Z raised to its power; ``lengths`` is ignored."""
        self._require_axis()
        graph = self._graph
        tables = {t: in_order(graph, t, table) for t, table in enumerate(self._tables())}
        return operand_of(graph, tables, coupling, -coupling.power * self.log_partition())
