"""The estimator of Bayesian networks of known structure: EM with hidden nodes and missing values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, to_numpy
from mercer._batch import Batch
from mercer._notices import warns_once
from mercer._parameters import Rule, Rules, nonnegative
from mercer._random import seed_of
from mercer.data.segments import segments
from mercer.families.estimator import Context
from mercer.models._fitting.em import EMResults, joined
from mercer.models._nets.estimator import NetworkEstimator, is_table
from mercer.models._nets.evidence import Parameters
from mercer.models._nets.found import Declared, as_text, complete, is_complete, is_edges, structure
from mercer.models._nets.graph import Graph, checked_graph
from mercer.models._nets.learning import Evidence, Prior, fitted, random_tables
from mercer.models.bayesnet import BayesNets

__all__ = ["BayesNet"]


def _is_prior(value: Any) -> bool:
    if isinstance(value, Batch):
        return isinstance(value, BayesNets) and value.shape == (1,)
    return value is None or (isinstance(value, str) and value in ("uniform", "pooled"))


@dataclass(eq=False, repr=False)
class BayesNet(NetworkEstimator):
    """Fit Bayesian networks of a known structure: one to every sample (a table of rows), or one to all.

    Parameters
    ----------
    nodes : dict, list or None, default=None
        Names of the nodes, and of each its states (strings, whole numbers or booleans), their number, "gaussian", or
        None: ``fit`` finds its states in the data, in ascending order or that of pandas categories. A list has names
        only; None stands for the columns of a data frame; a list of edges ``[("smoke", "cough")]`` has parents, too.
        Observed nodes are the columns of the data, in this order; the columns of data frames are found by name.
    parents : dict or list of pairs, default=None
        Names of the parents of each node, where a node that is not a key has none; or edges (parent, child).
    hidden : sequence of str, default=()
        Discrete nodes that are not observed.
    floor : float, default=1e-3
        Least variance of a Gaussian node, as a fraction of that of the column.
    prior : {"uniform", "pooled"}, None, or BayesNets of shape (1,), default="uniform"
        The Dirichlet prior of the rows of each table: even, the network of all samples, or a given one.
    prior_strength : float, default=1.0
        Number of pseudo-observations that the prior adds to each row of each table.
    n_iter, tol : int and float, default=200 and 1e-6
        The maximum number of iterations of EM, and the growth of the objective per row at which it stops. There are
        more of them than for models of sequences, because they are cheaper.
    n_init : int, default=1
        Number of random starts, if there are hidden nodes; the best fit is kept. 1, because a fit with
        many hidden nodes is slow.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the starts. All samples have the same starts, so that the hidden states of their networks correspond.

    Attributes
    ----------
    model_ : BayesNets of shape (1,)
        What ``fit`` learned. Its states have names, such as "0" or "True".
    nodes_ : dict
        The nodes with all states, which are in the data as they are here.
    context_ : Context
        Properties of the training data that all models share.
    n_iter_ : int
        Number of iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.

    Notes
    -----
    Data without missing values and networks without hidden nodes need one iteration. Rows of a table that no
    observation reaches have the prior. Missing values are ignorable: they are marginalized.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> site = [[0, 0], [0, 0], [1, 1], [0, np.nan]]
    >>> net = mc.BayesNet(
    ...     {"smoke": ["no", "yes"], "cough": ["no", "yes"]}, {"cough": ["smoke"]}
    ... )
    >>> net.fit_each([site, site[:2]]).table("cough")[:, 0].round(2)
    array([[0.83, 0.17],
           [0.83, 0.17]])
    """

    _parameters: ClassVar[Rules] = {
        "nodes": Rule(
            "a dict of names and states, a list of names, a list of edges (parent, child), or None",
            lambda value: value is None or (isinstance(value, dict | list | tuple) and bool(value)),
        ),
        "parents": Rule(
            "a dict of names and lists of names, a list of edges (parent, child), or None",
            lambda value: value is None or isinstance(value, dict) or is_edges(value),
        ),
        "floor": nonnegative("It is a fraction of the variance of a column."),
        "prior": Rule("'uniform', 'pooled', None or BayesNets of shape (1,)", _is_prior),
    }

    nodes: Any = None
    parents: Any = None
    hidden: Any = ()
    floor: float = 1e-3
    prior: Any = "uniform"
    prior_strength: float = 1.0
    n_iter: int = 200
    tol: float = 1e-6
    n_init: int = 1
    random_state: Any = 0

    def _graph(self) -> Graph:
        nodes = {name: as_text(states) for name, states in self._nodes().items()}
        return checked_graph(nodes, structure(self.nodes, self.parents)[1], self.hidden)

    def _nodes(self) -> Declared:
        """Return the nodes with all states."""
        nodes = structure(self.nodes, self.parents)[0]
        nodes = nodes if is_complete(nodes) else getattr(self, "nodes_", nodes)
        if nodes is None or not is_complete(nodes):
            raise ValueError(
                "BayesNet finds states in the data of fit and fit_each only. Declare them in a kernel: "
                "nodes=net.nodes_ of a fitted net, such as {'smoke': [0, 1], 'cough': [0, 1]}."
            )
        return nodes

    def _found(self, X: Any) -> Declared:
        """Return the nodes with all states, those that are not declared from data."""
        nodes = structure(self.nodes, self.parents)[0]
        if nodes is not None and is_complete(nodes):
            return nodes
        several = isinstance(X, list | tuple) and any(map(is_table, X))
        return complete(nodes, self.hidden, list(X) if several else [X])

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one network to all rows; it becomes ``model_``, a batch of shape ``(1,)``.

        Parameters
        ----------
        X : data frame, array of shape (T, D), or list of them
            Rows of states; NaN and None are missing.
        y : None
            Not used.
        """
        self._check_parameters()
        self.nodes_ = self._found(X)
        return super().fit(X, y)

    def fit_each(self, X: Any, context: Context | None = None, *, return_info: bool = False) -> Any:
        """Fit one network to each sample, a table of rows; see `HMM.fit_each`.

        Parameters
        ----------
        X : list of data frames or arrays of shape (T, D)
            The tables; states that are not declared are found in all of them.
        context : Context, default=None
            Properties that all samples share; by default those learned by ``fit``, or else those of ``X``.
        return_info : bool, default=False
            Whether to return information about the fits; the cache is then not used.
        """
        if is_complete(structure(self.nodes, self.parents)[0]):
            return super().fit_each(X, context, return_info=return_info)
        self._check_parameters()
        nodes = self.nodes_ if hasattr(self, "nodes_") else self._found(X)
        declared = clone(self).set_params(nodes=nodes, parents=structure(self.nodes, self.parents)[1])
        context = getattr(self, "context_", None) if context is None else context
        return declared.fit_each(X, context, return_info=return_info)

    def _learn(self, X: Any, each: bool = False) -> tuple[Context, EMResults | None]:
        graph = self._graph()
        values, _ = segments(X)
        values = values[np.lexsort(values.T)] if len(values) else values
        center, scale = np.zeros(values.shape[1]), np.ones(values.shape[1])
        for k, v in enumerate(graph.observed):
            column = values[:, k][~np.isnan(values[:, k])]
            if not graph.sizes[v] and len(column):
                center[k], scale[k] = column.mean(), column.var() or 1.0
        found = Context(dimension=values.shape[1], center=center, scale=scale, floor=float(self.floor))
        return self._with_pooled(values, found, self._stacked(graph, [self._even_tables(graph, found)])), None

    def _even_tables(self, graph: Graph, context: Context) -> Parameters:
        """Return even tables, and the moments of the columns for Gaussian nodes."""
        assert context.center is not None
        assert context.scale is not None
        probability, moments = np.empty(graph.n_probabilities), np.empty((2, graph.n_means))
        for v in graph.discrete:
            probability[graph.places[v]] = 1 / graph.sizes[v]
        for v in graph.gaussian:
            k = graph.observed.index(v)
            moments[:, graph.places[v]] = np.array([[context.center[k]], [context.scale[k]]])
        return probability, moments[0], moments[1]

    def _run_em(self, tables: list[Floats], context: Context, name: Callable[[int], str]) -> EMResults:
        graph = self._graph()
        prior, starts = self._prior(graph, context), self._starts(graph, context)
        fits = []
        for table in tables:
            data = Evidence(graph, table)
            tried = [fitted(graph, data, start, prior, int(self.n_iter), float(self.tol)) for start in starts]
            fits.append(max(tried, key=lambda fit: fit.objective))
        found = joined(self._stacked(graph, [fit.model for fit in fits]), fits)
        self._warn_unconverged([(found, name)])
        return found

    def _prior(self, graph: Graph, context: Context) -> Prior:
        even = self._even_tables(graph, context)
        floor = float(self.floor) * even[2]
        if self.prior is None:
            return Prior(0.0, even, floor)
        return Prior(float(self.prior_strength), self._prior_parameters(graph, context), floor)

    def _prior_parameters(self, graph: Graph, context: Context) -> Parameters:
        net = self._prior_batch(context)
        if net._graph is not graph:
            raise ValueError("The prior must be a network of the same nodes, parents and hidden nodes.")
        probability, mean, variance = (to_numpy(x)[0] for x in (net.probability, net.mean, net.variance))
        return probability, mean, variance

    def _starts(self, graph: Graph, context: Context) -> list[Parameters]:
        """Return where EM starts: at the prior if it tells hidden states apart, else at random tables."""
        even = self._even_tables(graph, context)
        if not graph.hidden:
            return [even]
        if self.prior is not None and not (isinstance(self.prior, str) and self.prior == "uniform"):
            return [self._prior_parameters(graph, context)]
        seed, found = seed_of(self.random_state), []
        for k in range(int(self.n_init)):
            rng = np.random.default_rng([seed, k])
            spread = np.sqrt(even[2])
            found.append((random_tables(graph, rng), even[1] + spread * rng.standard_normal(len(spread)), even[2]))
        return found

    def _stacked(self, graph: Graph, models: list[Parameters]) -> BayesNets:
        probability, mean, variance = (np.stack(parts) for parts in zip(*models, strict=True))
        return BayesNets._make(
            probability=probability,
            mean=mean,
            variance=variance,
            nodes=graph.nodes,
            parents=graph.parents,
            hidden=graph.hidden,
        )
