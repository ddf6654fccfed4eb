"""Generators of synthetic data, and loaders of real data sets.

A generator ``make_*`` returns ``(X, y)`` in the form that the kernels accept, or a `sklearn.utils.Bunch` if there are
more outputs. A loader ``fetch_*`` returns a Bunch.
"""

from mercer.datasets._fetch import data_path
from mercer.datasets._make import make_dna, make_documents, make_point_sets
from mercer.datasets._make_on_trees import make_families, make_profiles
from mercer.datasets._make_sequences import make_hmm_sequences, make_traits
from mercer.datasets._series import (
    fetch_basic_motions,
    fetch_char_trajectories,
    fetch_fsdd,
    fetch_japanese_vowels,
    fetch_ucr,
    fetch_watch_imu,
)
from mercer.datasets._strings import (
    fetch_hs3d,
    fetch_intron_exon,
    fetch_pfam_seeds,
    fetch_promoters,
    fetch_scop,
    fetch_splice,
)
from mercer.datasets._text import fetch_r8, fetch_webkb

__all__ = [
    "data_path",
    "fetch_basic_motions",
    "fetch_char_trajectories",
    "fetch_fsdd",
    "fetch_hs3d",
    "fetch_intron_exon",
    "fetch_japanese_vowels",
    "fetch_pfam_seeds",
    "fetch_promoters",
    "fetch_r8",
    "fetch_scop",
    "fetch_splice",
    "fetch_ucr",
    "fetch_watch_imu",
    "fetch_webkb",
    "make_dna",
    "make_documents",
    "make_families",
    "make_hmm_sequences",
    "make_point_sets",
    "make_profiles",
    "make_traits",
]
