"""Loader of SCOP 1.53, the benchmark of remote homology between proteins."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

from mercer.data.fasta import read_fasta
from mercer.datasets._bunch import bunch
from mercer.datasets._fetch import data_path, open_binary


def fetch_scop() -> Bunch:
    """Load SCOP 1.53 as Liao and Noble split it: 4,352 protein domains, and 54 families that are to be recognized.

    For each of the 54 families, the test positives are its members, the training positives are the other families of
    its superfamily, and the negatives are proteins of other folds: relatives are so remote that their family was not
    seen in training. Domains have E-values above 1e-25; 818 have the sequence of another one.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of amino acids, 20 to 994 letters, with the SCOP ids.
        ``target`` : array of shape (4352,), the superfamily, index into ``target_names``.
        ``target_names`` : list of the 853 superfamilies, such as "1.1.1": class, fold and superfamily.
        ``family`` : array of shape (4352,), the family of each protein, such as "1.1.1.2".
        ``families`` : list of the 54 families of the benchmark.
        ``role`` : array of shape (4352, 54), of each protein for each of these families: 1 positive training,
        2 negative training, 3 positive test, 4 negative test, 0 not used.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The files are read from ``$MERCER_DATA/scop153``, or downloaded once: see `data_path`.

    References
    ----------
    L. Liao and W. S. Noble, Combining pairwise sequence similarity and support vector machines for detecting remote
    protein evolutionary and structural relationships, J. Comput. Biol. 10, 2003.

    Examples
    --------
    >>> from mercer.datasets import fetch_scop
    >>> fetch_scop().families[:3]  # doctest: +SKIP
    ['7.3.5.2', '2.56.1.2', '3.1.8.1']
    """
    path = data_path("scop153", "scop.1.53.1e-25.fasta")
    proteins = read_fasta(path, alphabet="protein")  # a header is "d3sdha_ 1.1.1.1.1 Hemoglobin I {...}"
    family = np.array([line.split()[1].rsplit(".", 1)[0] for line in proteins.descriptions])
    with open_binary(data_path("scop153", "families.txt")) as stream:
        first, *rows = (line.split() for line in stream.read().decode("ascii").splitlines())
    place = {row[0]: i for i, row in enumerate(rows)}
    role = np.array([row[1:] for row in rows], dtype=np.int8)[[place[name] for name in proteins.X.ids or ()]]
    superfamily = [name.rsplit(".", 1)[0] for name in family]
    found = bunch(proteins.X, superfamily, fetch_scop, "scop153", family=family, role=role)
    found["families"] = first[1:]
    return found
