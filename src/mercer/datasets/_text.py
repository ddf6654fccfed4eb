"""Loaders of the text data of agarwal2011: WebKB and Reuters-21578 R8 as word counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from mercer._parameters import check, one_of
from mercer.datasets._bunch import describe
from mercer.datasets._fetch import data_path, open_binary

_SPLITS = ("train", "test")


class _Document(NamedTuple):
    id: str
    split: str
    label: str
    words: str


def fetch_webkb(*, subset: str = "all", empty: str = "drop") -> Bunch:
    """Load WebKB: university web pages in four classes, as word counts.

    These are Cardoso-Cachopo's stemmed files with her split into training and test documents: 4,199
    pages (project 504, course 930, faculty 1,124, student 1,641), 2,803 of them for training. 31 pages are
    empty after preprocessing. A multinomial cannot be fitted to a page without words, so these pages are
    dropped unless ``empty="keep"``.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        Which documents to return; "all" returns the training documents first. The vocabulary is always that of all
        documents, so both subsets have the same columns.
    empty : {"drop", "keep"}, default="drop"
        What to do with documents without words.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : CSR array of shape (n_documents, n_words), float64 word counts.
        ``target`` : array of shape (n_documents,), index into ``target_names``.
        ``target_names`` : list of the classes, sorted.
        ``vocabulary`` : array of shape (n_words,), the sorted words that the columns count.
        ``split`` : array of shape (n_documents,), "train" or "test".
        ``ids`` : array of shape (n_documents,), split and line number in the file, such as "train-17".
        ``DESCR`` : description and source of the data set.

    See Also
    --------
    fetch_r8 : Load Reuters news in eight classes.
    make_documents : Generate random documents.

    Notes
    -----
    The files are read from ``$MERCER_DATA/webkb``, or downloaded once: see `data_path`.

    References
    ----------
    A. Cardoso-Cachopo, Improving Methods for Single-label Text Categorization, PhD thesis, 2007.

    Examples
    --------
    >>> from mercer.datasets import fetch_webkb
    >>> pages = fetch_webkb(subset="train")  # doctest: +SKIP
    >>> pages.data.shape, pages.target_names  # doctest: +SKIP
    ((2785, 7770), ['course', 'faculty', 'project', 'student'])
    """
    return _fetch("webkb", "webkb", subset, empty, fetch_webkb)


def fetch_r8(*, subset: str = "all", empty: str = "drop") -> Bunch:
    """Load Reuters-21578 R8: news articles in eight classes, as word counts.

    These are Cardoso-Cachopo's stemmed files with the ModApte split: 7,674 articles (acq 2,292, crude 374,
    earn 3,923, grain 51, interest 271, money-fx 293, ship 144, trade 326), 5,485 of them for training.
    None is empty.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        Which documents to return; "all" returns the training documents first. The vocabulary is always that of all
        documents, so both subsets have the same columns.
    empty : {"drop", "keep"}, default="drop"
        What to do with documents without words; R8 has none.

    Returns
    -------
    sklearn.utils.Bunch
        The same fields as `fetch_webkb`.

    See Also
    --------
    fetch_webkb : Load web pages in four classes.
    make_documents : Generate random documents.

    Notes
    -----
    The files are read from ``$MERCER_DATA/reuters_r8``, or downloaded once: see `data_path`.

    References
    ----------
    A. Cardoso-Cachopo, Improving Methods for Single-label Text Categorization, PhD thesis, 2007.

    Examples
    --------
    >>> from mercer.datasets import fetch_r8
    >>> news = fetch_r8(subset="test")  # doctest: +SKIP
    >>> news.data.shape, news.target_names[:3]  # doctest: +SKIP
    ((2189, 17387), ['acq', 'crude', 'earn'])
    """
    return _fetch("reuters_r8", "r8", subset, empty, fetch_r8)


def _fetch(folder: str, prefix: str, subset: str, empty: str, loader: Callable[..., Bunch]) -> Bunch:
    check(one_of("all", *_SPLITS), subset=subset)
    check(one_of("drop", "keep"), empty=empty)
    documents = [d for split in _SPLITS for d in _read(folder, f"{prefix}-{split}-stemmed.txt", split)]
    counts, vocabulary = _count([d.words for d in documents])
    split = np.array([d.split for d in documents])
    names, target = np.unique([d.label for d in documents], return_inverse=True)
    keep = np.ones(len(documents), dtype=bool) if subset == "all" else split == subset
    if empty == "drop":
        keep &= counts.sum(axis=1) > 0
    return Bunch(
        data=counts[keep],
        target=target[keep],
        target_names=names.tolist(),
        vocabulary=vocabulary,
        split=split[keep],
        ids=np.array([d.id for d in documents])[keep],
        DESCR=describe(loader, folder),
    )


def _read(folder: str, file: str, split: str) -> Iterator[_Document]:
    """Yield the documents of a file whose lines consist of a label, a tab and space-separated words."""
    with open_binary(data_path(folder, file)) as stream:
        for number, line in enumerate(stream.read().decode("utf-8").splitlines(), start=1):
            label, _, words = line.partition("\t")
            yield _Document(f"{split}-{number}", split, label.strip(), words)


def _count(texts: list[str]) -> tuple[Any, np.ndarray[Any, Any]]:
    """Count the space-separated words of every text; return the CSR array and the sorted vocabulary."""
    # Imported here because the text module is slow to import and only these loaders need it.
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(analyzer=str.split, dtype=np.float64)
    counts = csr_array(vectorizer.fit_transform(texts))
    return counts, vectorizer.get_feature_names_out().astype(str)
