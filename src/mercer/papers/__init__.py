"""Reproduce the tables and figures of papers next to the published results; one module per paper."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mercer._checks import is_choice

PAPERS = ("jebara2004", "mehta2010", "agarwal2011", "song2010")
"""The papers that can be reproduced, each a module of this package."""

__all__ = ["PAPERS", "load"]


def load(name: str) -> Any:
    """Return the module of a paper, which has ``TITLE``, ``PARTS`` (tables and figures) and ``reproduce``.

    Parameters
    ----------
    name : str
        One of ``PAPERS``.

    Examples
    --------
    >>> from mercer.papers import load
    >>> sorted(load("agarwal2011").PARTS)
    ['figure4', 'figure5', 'figure6', 'figure7', 'table1', 'table2']
    """
    if not is_choice(name, PAPERS):
        raise ValueError(f"name must be one of {', '.join(PAPERS)}; got {name!r}.")
    return import_module(f"mercer.papers.{name}")
