"""The Bayesian interchange format (BIF): networks of bnlearn, pgmpy and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mercer.models._nets.bif import parsed
from mercer.models.bayesnet import BayesNets

__all__ = ["read_bif"]


def read_bif(path: Any, hidden: Sequence[str] = ()) -> BayesNets:
    """Read one network in the Bayesian interchange format (BIF), as a batch of shape ``(1,)``.

    Parameters
    ----------
    path : path or str
        A file, plain or compressed by gzip, or the text itself.
    hidden : sequence of str, default=()
        Nodes that are not observed.

    See Also
    --------
    BayesNets.to_bif : Write a network.

    Examples
    --------
    >>> import mercer as mc
    >>> text = '''
    ... variable rain { type discrete [ 2 ] { yes, no }; }
    ... variable wet { type discrete [ 2 ] { yes, no }; }
    ... probability ( rain ) { table 0.2, 0.8; }
    ... probability ( wet | rain ) { (yes) 0.9, 0.1; default 0.2, 0.8; }
    ... '''
    >>> mc.read_bif(text).table("wet")
    array([[[0.9, 0.1],
            [0.2, 0.8]]])
    """
    graph, tables = parsed(path, hidden)
    lifted = {name: table[None] for name, table in tables.items()}
    return BayesNets(lifted, graph.nodes, graph.parents, graph.hidden)
