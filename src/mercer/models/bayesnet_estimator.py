"""The estimator of Bayesian networks of known structure: EM with hidden nodes and missing values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, to_numpy
from mercer._batch import Batch
from mercer._parameters import Rule, Rules, nonnegative
from mercer._probability import normalized
from mercer._random import seed_of
from mercer.data.segments import segments
from mercer.families.estimator import Context
from mercer.models._fitting.em import EMResult, EMResults, em_single, joined
from mercer.models._nets.cliques import AnyGraph
from mercer.models._nets.estimator import NetworkEstimator
from mercer.models._nets.evidence import Group, Parameters, groups, inferred
from mercer.models._nets.graph import Graph, checked_graph
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
    nodes : dict
        Names of the nodes, and of each the names of its states, their number, or "gaussian". Observed nodes are the
        columns of the data, in this order; the columns of data frames are found by name.
    parents : dict, default=None
        Names of the parents of each node; a node that is not a key has none.
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
        What ``fit`` learned.
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
        "parents": Rule("a dict of names and lists of names, or None", lambda v: v is None or isinstance(v, dict)),
        "floor": nonnegative("It is a fraction of the variance of a column."),
        "prior": Rule("'uniform', 'pooled', None or BayesNets of shape (1,)", _is_prior),
    }

    nodes: Any
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
        return checked_graph(self.nodes, self.parents, self.hidden)

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
        if isinstance(self.prior, str):
            pooled = self._stacked(graph, [self._even_tables(graph, found)])
            if self.prior == "pooled":
                alone = clone(self).set_params(prior="uniform", prior_strength=1.0)
                pooled = alone._fit_all(values, replace(found, pooled=pooled)).models
            found = replace(found, pooled=pooled)
        return found, None

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


class Prior(NamedTuple):
    """Pseudo-observations: ``strength`` of them for each row of each table, distributed as in ``parameters``."""

    strength: float
    parameters: Parameters
    floor: Floats
    """Least variance of each Gaussian row, ``(G,)``."""


class Evidence:
    """The distinct rows of a sample with their numbers, in groups."""

    def __init__(self, graph: AnyGraph, table: Floats) -> None:
        # Sorted, so that sums do not depend on the order of the rows; NaN would not be equal to itself.
        rows: Floats = table
        counts: Floats = np.zeros(0)
        if len(table):
            rows, counts = np.unique(np.where(np.isnan(table), -np.inf, table), axis=0, return_counts=True)
            rows[np.isneginf(rows)] = np.nan
        self.groups = list(groups(graph, rows)) if len(rows) else []
        self.counts = counts.astype(np.float64)
        self.complete = not graph.hidden and not np.isnan(table).any()


def fitted(graph: Graph, data: Evidence, start: Parameters, prior: Prior, n_iter: int, tol: float) -> EMResult:
    """Maximize the log probability plus the log prior from a start; complete data take one iteration."""

    def expect(parameters: Parameters) -> tuple[float, _Sums]:
        objective, sums = _expect(graph, data, parameters)
        return objective + _log_prior(parameters, prior), sums

    def maximize(parameters: Parameters, sums: _Sums) -> Parameters:
        return _maximize(graph, sums, parameters, prior)

    enough = np.inf if data.complete else tol * max(float(data.counts.sum()), 1.0)
    about = f"BayesNet of {data.counts.sum():.0f} samples"
    return em_single(expect, maximize, start, n_iter, enough, about)


class _Sums(NamedTuple):
    """Expected counts of table entries ``(P,)``; weights, sums and sums of squares of Gaussian rows ``(G,)``."""

    counts: Floats
    weight: Floats
    first: Floats
    second: Floats


def _expect(graph: Graph, data: Evidence, parameters: Parameters) -> tuple[float, _Sums]:
    sums = _Sums(np.zeros(graph.n_probabilities), *np.zeros((3, graph.n_means)))
    total, (probability, mean, variance) = 0.0, parameters
    for _, group, logs, tables in inferred(data.groups, (probability[None], mean[None], variance[None])):
        weights = data.counts[group.rows]
        total += float(weights @ logs[0])
        for v, posterior in tables.items():
            _add(sums, graph, group, v, posterior[..., 0, :] * weights, mean)
    return total, sums


def _add(sums: _Sums, graph: Graph, group: Group, v: int, weighted: Floats, mean: Floats) -> None:
    place, at = graph.places[v], group.places[v]
    size = place.stop - place.start

    def summed(values: Floats) -> Floats:
        return np.bincount(at.ravel(), values.ravel(), minlength=size)

    if graph.sizes[v]:
        sums.counts[place] += summed(weighted)
        return
    x = group.values[:, v]
    weighted = weighted * ~np.isnan(x)
    away = np.where(np.isnan(x), 0.0, x) - mean[place][at]  # from the current mean, so that squares do not cancel
    sums.weight[place] += summed(weighted)
    sums.first[place] += summed(weighted * away)
    sums.second[place] += summed(weighted * away**2)


def _maximize(graph: Graph, sums: _Sums, parameters: Parameters, prior: Prior) -> Parameters:
    old, mean, variance = parameters
    wanted, mean0, variance0 = prior.parameters
    s = prior.strength
    probability = np.empty_like(old)
    for v in graph.discrete:
        place, size = graph.places[v], graph.sizes[v]
        counts = (sums.counts[place] + s * wanted[place]).reshape(-1, size)
        probability[place] = normalized(counts, old[place].reshape(-1, size)).ravel()
    total = sums.weight + s
    known = total > 0
    safe = np.where(known, total, 1.0)
    shift = (sums.first + s * (mean0 - mean)) / safe
    squares = sums.second - 2 * shift * sums.first + shift**2 * sums.weight
    spread = (squares + s * (variance0 + (mean0 - mean - shift) ** 2)) / safe
    return (
        probability,
        np.where(known, mean + shift, mean),
        np.where(known, np.maximum(spread, prior.floor), variance),
    )


def _log_prior(parameters: Parameters, prior: Prior) -> float:
    """Return the log prior up to a constant: that of ``strength`` observations in each row."""
    if prior.strength == 0:
        return 0.0
    probability, mean, variance = parameters
    wanted, mean0, variance0 = prior.parameters
    weighted = wanted > 0
    with np.errstate(divide="ignore"):
        logs = float(wanted[weighted] @ np.log(probability[weighted]))
    squares = (variance0 + (mean0 - mean) ** 2) / variance
    return prior.strength * (logs - float((np.log(variance) + squares).sum()) / 2)


def random_tables(graph: Graph, rng: np.random.Generator) -> Floats:
    """Return random tables for a start: even ones, with noise that tells the states of hidden nodes apart."""
    tables = np.empty(graph.n_probabilities)
    for v in graph.discrete:
        place, size = graph.places[v], graph.sizes[v]
        rows = rng.dirichlet(np.full(size, 2.0), size=(place.stop - place.start) // size)
        tables[place] = rows.ravel()
    return tables
