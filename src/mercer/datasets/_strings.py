"""Loaders of DNA and proteins: splice sites, promoters, exons and introns, protein families."""

from __future__ import annotations

import csv
import re

import numpy as np
from sklearn.utils import Bunch

from mercer._parameters import check, whole
from mercer.data.fasta import numbered, read_fasta
from mercer.data.sequences import Sequences
from mercer.datasets._bunch import bunch
from mercer.datasets._fetch import data_path, open_binary

_FAMILIES = ("Caudal_act", "LuxC", "Patched", "Pkinase", "RRM_1", "SMC_N", "fn3")


def fetch_hs3d() -> Bunch:
    """Load HS3D as halves of splice windows: 5,676 exon and 5,676 intron segments of human genes, 70 letters each.

    A window of 140 letters around a true splice site is split at the site: a donor follows an exon and precedes an
    intron, and an acceptor the other way around. 2,796 donors and 2,880 acceptors of GenBank 123. Group folds by gene.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of DNA with ids such as "EI-1-exon": file, window and half.
        ``target`` : array of shape (11352,), index into ``target_names``.
        ``target_names`` : ["exon", "intron"].
        ``groups`` : array of shape (11352,), the GenBank entry of the gene; group folds by it.
        ``site`` : array of shape (11352,), "donor" or "acceptor".
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The files ``EI_true.seq`` and ``IE_true.seq`` are read from ``$MERCER_DATA/hs3d``, or downloaded once: see
    `data_path`. Windows of one gene overlap, so without groups the test data of a fold are partly training data.

    References
    ----------
    P. Pollastro and S. Rampone, HS3D, a dataset of Homo sapiens splice regions, Int. J. Mod. Phys. C 13, 2002.

    Examples
    --------
    >>> from mercer.datasets import fetch_hs3d
    >>> fetch_hs3d().data  # doctest: +SKIP
    Sequences(11352 sequences of symbols from ACGT (dna), lengths 70)
    """
    strings, ids, labels, groups, sites = [], [], [], [], []
    for file, site, halves in (("EI", "donor", ("exon", "intron")), ("IE", "acceptor", ("intron", "exon"))):
        # A line is "AB000381  ( 1,2,2): CTCC...": entry, number of the window, the window.
        for entry, number, window in re.findall(
            r"(\S+?)\s*\(\s*(\d+),.*\): *([A-Z]+)", _text("hs3d", f"{file}_true.seq")
        ):
            for label, half in zip(halves, (window[:70], window[70:]), strict=True):
                strings.append(half)
                ids.append(f"{file}-{number}-{label}")
                labels.append(label)
                groups.append(entry)
                sites.append(site)
    return bunch(Sequences(strings, alphabet="dna", ids=ids), labels, fetch_hs3d, "hs3d", groups=groups, site=sites)


def fetch_promoters() -> Bunch:
    """Load the promoters of Escherichia coli from UCI: 53 promoters and 53 other DNA strings of 57 letters.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of DNA.
        ``target`` : array of shape (106,), index into ``target_names``.
        ``target_names`` : ["+", "-"], where "+" is a promoter.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The file ``promotergene.csv`` is read from ``$MERCER_DATA/uci_promoters``. It cannot be downloaded, because it was
    exported from the R package kernlab.

    Examples
    --------
    >>> from mercer.datasets import fetch_promoters
    >>> fetch_promoters().data  # doctest: +SKIP
    Sequences(106 sequences of symbols from ACGT (dna), lengths 57)
    """
    rows = list(csv.DictReader(_text("uci_promoters", "promotergene.csv").splitlines()))
    ids = [f"promoter-{i + 1}" for i in range(len(rows))]
    return bunch(
        _dna([row["sequence"] for row in rows], ids), [row["class"] for row in rows], fetch_promoters, "uci_promoters"
    )


def fetch_splice() -> Bunch:
    """Load UCI's primate splice junctions: 3,190 DNA windows of 60 letters in three classes.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of DNA, with a few ambiguity codes; the ids are the original ones, numbered if
        several windows have the same name.
        ``target`` : array of shape (3190,), index into ``target_names``.
        ``target_names`` : ["EI", "IE", "N"]: exon to intron 767, intron to exon 768, neither 1,655.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The file ``splice.csv`` is read from ``$MERCER_DATA/uci_splice``, or downloaded once: see `data_path`.

    Examples
    --------
    >>> from mercer.datasets import fetch_splice
    >>> fetch_splice().data  # doctest: +SKIP
    Sequences(3190 sequences of symbols from ACGT (dna), lengths 60)
    """
    rows = list(csv.DictReader(_text("uci_splice", "splice.csv").splitlines()))
    ids = numbered([row["instance_name"].strip() for row in rows])
    return bunch(
        _dna([row["sequence"].strip() for row in rows], list(ids)),
        [row["label"] for row in rows],
        fetch_splice,
        "uci_splice",
    )


def fetch_intron_exon(*, trim: int = 0) -> Bunch:
    """Load exons and introns of 586 fly genes: 2,709 and 2,123 DNA strings of very different lengths.

    Chromosome 2R of Drosophila melanogaster. The length and the ends of introns reveal the class. Group folds by gene.

    Parameters
    ----------
    trim : int, default=0
        Number of letters to remove at both ends; strings that become empty are dropped. Introns begin with GT and end
        with AG, which reveals the class, and so does the length (see `mercer.Lengths`).

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of DNA, 3 to 110,416 letters, medians 192 (exons) and 67 (introns).
        ``target`` : array of shape (n_strings,), index into ``target_names``.
        ``target_names`` : ["exon", "intron"].
        ``groups`` : array of shape (n_strings,), the position of the gene; group folds by it.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The files ``exons.fa`` and ``introns.fa`` are read from ``$MERCER_DATA/intron_exon_dmel``. They cannot be
    downloaded, because they were extracted from the genes of AUGUSTUS's tutorial.

    Examples
    --------
    >>> from mercer.datasets import fetch_intron_exon
    >>> fetch_intron_exon().data  # doctest: +SKIP
    Sequences(4832 sequences of symbols from ACGT (dna), lengths 3 to 110416)
    """
    check(whole(0), trim=trim)
    parts = [
        read_fasta(data_path("intron_exon_dmel", file), alphabet="dna", labels=r"\|(exon|intron)")
        for file in ("exons.fa", "introns.fa")
    ]
    data = Sequences.concat([part.X for part in parts])
    labels = np.concatenate([part.y for part in parts if part.y is not None])
    groups = np.array([name.split("|")[0] for name in data.ids or ()])
    if trim:
        kept = data.lengths > 2 * trim
        strings = [string[trim:-trim] for string in data[kept]]
        data = Sequences(strings, alphabet="dna", ids=data[kept].ids)
        labels, groups = labels[kept], groups[kept]
    return bunch(data, labels, fetch_intron_exon, "intron_exon_dmel", groups=groups)


def fetch_pfam_seeds() -> Bunch:
    """Load small seed alignments of Pfam without gaps: 325 proteins of eight families.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of amino acids.
        ``target`` : array of shape (325,), index into ``target_names``.
        ``target_names`` : list of the families: Caudal_act 9, LuxC 13, Patched 10, Pkinase 38, RRM_1 79, SMC_N 29,
        fn3 98, globins 49.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The files are read from ``$MERCER_DATA/pfam_seed_hmmer``. They cannot be downloaded individually, because they are
    part of the examples of HMMER.

    Examples
    --------
    >>> from mercer.datasets import fetch_pfam_seeds
    >>> fetch_pfam_seeds().target_names[:3]  # doctest: +SKIP
    ['Caudal_act', 'LuxC', 'Patched']
    """
    rows: dict[tuple[str, str], str] = {}
    for family, file in [*((family, family) for family in _FAMILIES), ("globins", "globins4")]:
        for line in _text("pfam_seed_hmmer", f"{file}.sto").splitlines():
            if line.strip() and not line.startswith(("#", "//")):  # a block of an alignment: name and residues
                name, residues = line.split()
                rows[family, name] = rows.get((family, name), "") + re.sub("[-.]", "", residues)
    globins = read_fasta(data_path("pfam_seed_hmmer", "globins45.fa"), alphabet="protein").X
    rows |= {("globins", name): string for name, string in zip(globins.ids or (), globins, strict=True)}
    ids = [f"{family}/{name}" for family, name in rows]
    data = Sequences(list(rows.values()), alphabet="protein", ids=ids)
    return bunch(data, [family for family, _ in rows], fetch_pfam_seeds, "pfam_seed_hmmer")


def _text(folder: str, file: str) -> str:
    with open_binary(data_path(folder, file)) as stream:
        return stream.read().decode("utf-8")


def _dna(strings: list[str], ids: list[str]) -> Sequences:
    return Sequences(strings, alphabet="dna", ids=ids)


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
