"""Generators of synthetic data, and loaders of the real sets that the papers use.

A generator ``make_*`` returns ``(X, y)`` in the form that the kernels take; a loader ``fetch_*`` returns a
`sklearn.utils.Bunch`.
"""

from mercer.datasets._fetch import data_path
from mercer.datasets._make import make_dna, make_documents, make_point_sets
from mercer.datasets._text import fetch_r8, fetch_webkb

__all__ = ["data_path", "fetch_r8", "fetch_webkb", "make_dna", "make_documents", "make_point_sets"]
