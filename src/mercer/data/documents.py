"""Documents as word counts, or as sequences of words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from mercer.data._forms import Flat, Problem
from mercer.data._samples import Samples
from mercer.data.ragged import offsets_of

_WORD = re.compile(r"\w+")


def words_of(samples: Samples, texts: list[str | None]) -> list[list[str]]:
    """Return the words of every document in lower case; a document without words is a problem."""
    out = [_WORD.findall((text or "").lower()) for text in texts]
    for i, words in enumerate(out):
        if not words:
            text = f"({samples.table.place(i)}) has no words; remove it, or pass invalid='mask'."
            samples.problems.setdefault(i, Problem(ValueError, text))
    return out


def word_sequences(documents: list[list[str]]) -> Flat:
    """Return documents as sequences of words."""
    tokens = np.empty(sum(map(len, documents)), dtype=object)
    tokens[:] = [word for words in documents for word in words]
    return Flat("tokens", tokens, offsets_of(np.array([len(words) for words in documents])))


def word_counts(samples: Samples, documents: list[list[str]], vocabulary: Any = None) -> tuple[Any, tuple[str, ...]]:
    """Return counts of words, a CSR matrix of shape (documents, words), and the words.

    Words that are not in a given vocabulary are not counted; a document without any other word is a problem.
    """
    if vocabulary is None:
        good = [words for i, words in enumerate(documents) if i not in samples.problems]
        known = tuple(sorted({word for words in good for word in words}))
    else:
        if isinstance(vocabulary, str) or not isinstance(vocabulary, Iterable):
            raise TypeError(f"alphabet must be a list of words for kind='counts'; got {vocabulary!r}.")
        known = tuple(vocabulary)
    index = {word: j for j, word in enumerate(known)}
    rows, columns, unknown = [], [], 0
    for i, words in enumerate(documents):
        found = [index[word] for word in words if word in index]
        unknown += len(words) - len(found)
        if not found:
            place = samples.table.place(i)
            text = f"({place}) has none of the {len(known)} known words; remove it, or pass invalid='mask'."
            samples.problems.setdefault(i, Problem(ValueError, text))
        rows += [i] * len(found)
        columns += found
    counts = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(documents), len(known)))
    counts.sum_duplicates()
    if vocabulary is not None:
        samples.said.append(f"{unknown} words outside the vocabulary not counted")
    return counts, known
