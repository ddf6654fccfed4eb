"""One file per source: what it takes to reproduce its tables and figures, ours beside theirs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

PAPERS = ("jebara2004", "mehta2010", "agarwal2011")
"""The sources that can be reproduced, each a module of this package."""

__all__ = ["PAPERS", "load"]


def load(name: str) -> Any:
    """Return the module of a source, which has ``TITLE``, ``PARTS`` (tables and figures) and ``reproduce``.

    Parameters
    ----------
    name : str
        One of ``PAPERS``.

    Examples
    --------
    >>> from mercer.papers import load
    >>> sorted(load("agarwal2011").PARTS)
    ['figure4', 'figure5', 'table1', 'table2']
    """
    if name not in PAPERS:
        raise ValueError(f"{name!r} cannot be reproduced here; known sources are {', '.join(PAPERS)}")
    return import_module(f"mercer.papers.{name}")
