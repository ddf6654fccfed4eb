"""Generators of sequences from hidden Markov models, with classes or with a continuous trait."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from mercer._array import Floats
from mercer._parameters import between, check, extent, nonnegative
from mercer._random import random_generator
from mercer.data.sequences import Sequences
from mercer.datasets._make import _check_range, _inverse_cdf, _Labels, _labels


def make_hmm_sequences(
    n_samples: int = 60,
    *,
    length: int | tuple[int, int] = (30, 90),
    n_classes: int = 2,
    n_states: int = 3,
    n_features: int | None = None,
    certainty: float = 0.6,
    noise: float = 0.2,
    random_state: Any = None,
) -> tuple[list[str] | list[Floats], _Labels]:
    """Generate sequences from one hidden Markov model per class; the classes differ only in their transitions.

    The states are arranged in a circle. The chain of class c moves c states ahead with probability ``certainty`` and
    to any other state with equal probabilities. All states are equally frequent in every class, and the classes share
    their emissions, so that neither counts nor means separate them, but only the order in time.

    Parameters
    ----------
    n_samples : int, default=60
        Number of sequences.
    length : int or (int, int), default=(30, 90)
        Number of steps per sequence, or the smallest and largest number, between which it is drawn uniformly.
    n_classes : int, default=2
        Number of classes, at most ``n_states``.
    n_states : int, default=3
        Number of hidden states, at least 2.
    n_features : int or None, default=None
        Dimension of the vectors; None generates strings of the first ``n_states`` letters.
    certainty : float, default=0.6
        Probability of the step of the class, from 0 to 1; at ``1 / n_states`` the classes are identical.
    noise : float, default=0.2
        For strings, the probability that a letter is drawn uniformly instead of being that of its state; for vectors,
        the standard deviation around the mean of the state, where means of different states are at least 1 apart.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Source of randomness.

    Returns
    -------
    X : list of str, or list of arrays of shape (n_steps, n_features)
        The sequences.
    y : array of shape (n_samples,)
        Classes in cyclic order: 0, 1, ..., 0, 1, ...

    See Also
    --------
    make_dna : Generate strings from Markov chains.
    make_traits : Generate sequences of people, with families and a confound.

    Examples
    --------
    >>> from mercer.datasets import make_hmm_sequences
    >>> X, y = make_hmm_sequences(4, length=(5, 9), random_state=0)
    >>> all(5 <= len(string) <= 9 and set(string) <= set("abc") for string in X)
    True
    >>> X, y = make_hmm_sequences(4, n_features=2, random_state=0)
    >>> X[0].shape[1], y.tolist()
    (2, [0, 1, 0, 1])
    """
    check(extent(), n_samples=n_samples, n_classes=n_classes)
    check(extent(2), n_states=n_states)
    if n_classes > n_states:
        raise ValueError(f"n_classes must be at most n_states={n_states}; got {n_classes}.")
    check(between(0, 1), certainty=certainty)
    low, high = _check_range("length", length)
    if n_features is not None:
        check(extent(), n_features=n_features)
    if n_features is None and n_states > 26:
        raise ValueError(f"n_states must be at most 26 for strings; got {n_states}. For vectors, pass n_features.")
    check(nonnegative() if n_features else between(0, 1, cure="For strings, it is a probability."), noise=noise)
    rng = random_generator(random_state)
    y = _labels(n_samples, n_classes)
    lengths = rng.integers(low, high, size=n_samples, endpoint=True)
    ahead = np.full((n_classes, n_states), (1 - certainty) / (n_states - 1))
    ahead[np.arange(n_classes), np.arange(n_classes)] = certainty
    steps = _inverse_cdf(np.cumsum(ahead, axis=1), y, rng.random((n_samples, high)))
    steps[:, 0] = rng.integers(n_states, size=n_samples)  # the first step, from state 0, is uniform
    states = np.cumsum(steps, axis=1) % n_states
    if n_features is not None:
        deviations = noise * rng.standard_normal((n_samples, high, n_features))
        values = _means(n_states, n_features)[states] + deviations
        return [row[:n] for row, n in zip(values, lengths, strict=True)], y
    redrawn = rng.random(states.shape) < noise
    letters = np.where(redrawn, rng.integers(n_states, size=states.shape), states) + ord("a")
    return [bytes(row[:n].tolist()).decode() for row, n in zip(letters, lengths, strict=True)], y


def make_traits(
    n_families: int = 40,
    family_size: int = 3,
    *,
    length: int | tuple[int, int] = (80, 160),
    confounding: float = 1.0,
    heritability: float = 0.7,
    noise: float = 0.5,
    random_state: Any = None,
) -> Bunch:
    """Generate a recording and a trait per person, with families and with age as a confound.

    This is the task of the tutorial "Predict a trait". A recording alternates between two hidden states. The duration
    of the states depends on a latent signal of the person, which families share in part; the level of the second
    channel depends on age. The trait is 50 plus signal, age and noise. So the level predicts the trait through age, a
    confound to be regressed out; relatives predict one another, so families must stay in one fold; and a regression
    without an intercept fails unless the trait is centered.

    Parameters
    ----------
    n_families : int, default=40
        Number of families.
    family_size : int, default=3
        Number of people per family.
    length : int or (int, int), default=(80, 160)
        Number of steps per recording, or the smallest and largest number, between which it is drawn uniformly.
    confounding : float, default=1.0
        Effect of one standard deviation of age on the trait and on the level of the second channel; at least 0.
    heritability : float, default=0.7
        Fraction of the variance of the signal that families share, from 0 to 1.
    noise : float, default=0.5
        Standard deviation of the trait around signal and age.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Source of randomness.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of 2-dimensional vectors with ids such as "family-7-2".
        ``target`` : array of shape (n_people,), the trait.
        ``confounds`` : array of shape (n_people, 1), the age in standard deviations.
        ``groups`` : array of shape (n_people,), the family.
        ``signal`` : array of shape (n_people,), the part of the trait that the dynamics can predict.
        ``DESCR`` : description of the data.

    Examples
    --------
    >>> from mercer.datasets import make_traits
    >>> people = make_traits(n_families=10, random_state=0)
    >>> people.data.ids[3], people.target.shape, people.confounds.shape
    ('family-1-0', (30,), (30, 1))
    >>> people.groups[:6].tolist()
    [0, 0, 0, 1, 1, 1]
    """
    check(extent(), n_families=n_families, family_size=family_size)
    low, high = _check_range("length", length)
    check(nonnegative(), confounding=confounding, noise=noise)
    check(between(0, 1), heritability=heritability)
    rng = random_generator(random_state)
    n = n_families * family_size
    groups = np.repeat(np.arange(n_families), family_size)
    shared, own = rng.standard_normal(n_families)[groups], rng.standard_normal(n)
    signal = np.sqrt(heritability) * shared + np.sqrt(1 - heritability) * own
    age = rng.standard_normal(n)
    # Far from 0, as real traits are, so that a regression without an intercept fails.
    trait = 50.0 + signal + confounding * age + noise * rng.standard_normal(n)
    lengths = rng.integers(low, high, size=n, endpoint=True)
    # The probability of a state change lies between 0 and 1/2 and decreases with the signal.
    change = 0.5 / (1 + np.exp(1.0 + signal))
    changes = rng.random((n, high)) < change[:, None]
    changes[:, 0] = rng.random(n) < 0.5
    states = np.cumsum(changes, axis=1) % 2
    values = rng.standard_normal((n, high, 2))
    values[:, :, 0] = 2.0 * states - 1.0 + 0.5 * values[:, :, 0]
    values[:, :, 1] += confounding * age[:, None]
    ids = [f"family-{family}-{i % family_size}" for i, family in enumerate(groups)]
    data = Sequences([row[:length_] for row, length_ in zip(values, lengths, strict=True)], ids=ids)
    return Bunch(data=data, target=trait, confounds=age[:, None], groups=groups, signal=signal, DESCR=_TRAITS)


def _means(n_states: int, n_features: int) -> Floats:
    """Return means of the states on a line, or on a circle in the first two coordinates; adjacent ones are 1 apart."""
    out = np.zeros((n_states, n_features))
    if n_features == 1:
        out[:, 0] = np.arange(n_states)
        return out
    angle = 2 * np.pi * np.arange(n_states) / n_states
    radius = 0.5 / np.sin(np.pi / n_states)
    out[:, 0], out[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    return out


_TRAITS = """\
Simulated recordings and traits of people

The first channel alternates between two states, whose duration increases with the signal of the person; the level of
the second channel depends on age. The trait is 50 plus signal, age and noise; families share a part of the signal.
"""
