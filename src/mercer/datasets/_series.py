"""Loaders of time series: UCR and UEA archives, spoken digits, a smartwatch, pen trajectories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from mercer._parameters import check, one_of
from mercer.data.ragged import offsets_of
from mercer.data.sequences import Sequences
from mercer.data.timeseries import read_ts, read_ucr
from mercer.datasets._bunch import bunch, two_parts
from mercer.datasets._fetch import data_path, open_binary


def fetch_ucr(name: str, *, subset: str = "all") -> Bunch:
    """Load a data set of the UCR archive: univariate series of two classes.

    ======== ===================================================== =========== ======
    name     series                                                train, test length
    ======== ===================================================== =========== ======
    Coffee   spectrographs, Arabica and Robusta                    28, 28      286
    ECG200   heartbeats, normal and ischemia                       100, 100    96
    GunPoint position of a hand that draws a gun or points         50, 150     150
    Wafer    sensors of a wafer's production, normal and abnormal  1000, 6163  152
    Yoga     outlines of two actors                                300, none   426
    ======== ===================================================== =========== ======

    The series are z-normalized. Wafer lacks the first series of the archive's test part, and its test values are
    rounded to float32. Yoga lacks the test part, so results are not comparable with the archive's.

    Parameters
    ----------
    name : {"Coffee", "ECG200", "GunPoint", "Wafer", "Yoga"}
        Name of the data set.
    subset : {"all", "train", "test"}, default="all"
        Which series to return; "all" returns the training series first.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of 1-dimensional vectors with ids such as "train-17".
        ``target`` : array of shape (n_series,), index into ``target_names``.
        ``target_names`` : list of the archive's labels, as text.
        ``split`` : array of shape (n_series,), "train" or "test".
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The files are read from ``$MERCER_DATA/ucr_<name>``, or downloaded once: see `data_path`. The test part of Wafer
    cannot be downloaded, because it was converted from another format.

    References
    ----------
    H. A. Dau et al., The UCR time series classification archive, 2018.

    Examples
    --------
    >>> from mercer.datasets import fetch_ucr
    >>> gun = fetch_ucr("GunPoint")  # doctest: +SKIP
    >>> gun.data  # doctest: +SKIP
    Sequences(200 sequences of 1-dimensional vectors (float64), lengths 150)
    """
    check(one_of("Coffee", "ECG200", "GunPoint", "Wafer", "Yoga"), name=name)
    files = {"train": f"{name}_TRAIN.tsv", "test": f"{name}_TEST.tsv"}
    if name == "Wafer":
        files["test"] = "Wafer_TEST_6163.tsv"
    if name == "Yoga":
        del files["test"]
    return two_parts(f"ucr_{name}", files, read_ucr, subset, fetch_ucr)


def fetch_japanese_vowels(*, subset: str = "all") -> Bunch:
    """Load JapaneseVowels: utterances of /ae/ by nine speakers, 12 cepstral coefficients, 7 to 29 frames.

    The task is to identify the speaker, of whom 30 training series each are given. The coefficients are those of linear
    prediction.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        Which of the 270 training and 370 test series to return.

    Returns
    -------
    sklearn.utils.Bunch
        The same fields as `fetch_ucr`; the classes are the speakers.

    Notes
    -----
    The files are read from ``$MERCER_DATA/JapaneseVowels``, or downloaded once: see `data_path`.

    References
    ----------
    M. Kudo, J. Toyama and M. Shimbo, Multidimensional curve classification using passing-through regions, Pattern
    Recognition Letters 20, 1999.

    Examples
    --------
    >>> from mercer.datasets import fetch_japanese_vowels
    >>> vowels = fetch_japanese_vowels(subset="train")  # doctest: +SKIP
    >>> vowels.data  # doctest: +SKIP
    Sequences(270 sequences of 12-dimensional vectors (float64), lengths 7 to 26)
    """
    return _uea("JapaneseVowels", subset, fetch_japanese_vowels)


def fetch_basic_motions(*, subset: str = "all") -> Bunch:
    """Load BasicMotions: smartwatch recordings of four activities, 6 channels, 100 steps.

    Four students; acceleration and angular velocity, ten seconds at 10 Hz.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        Which of the 40 training and 40 test series to return.

    Returns
    -------
    sklearn.utils.Bunch
        The same fields as `fetch_ucr`; the classes are Badminton, Running, Standing and Walking.

    Notes
    -----
    The files are read from ``$MERCER_DATA/BasicMotions``, or downloaded once: see `data_path`.

    Examples
    --------
    >>> from mercer.datasets import fetch_basic_motions
    >>> fetch_basic_motions().target_names  # doctest: +SKIP
    ['Badminton', 'Running', 'Standing', 'Walking']
    """
    return _uea("BasicMotions", subset, fetch_basic_motions)


def fetch_fsdd() -> Bunch:
    """Load the Free Spoken Digit Dataset: 13 mel-frequency cepstral coefficients per frame, 6 to 92 frames.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of 3,000 sequences of 13-dimensional vectors (float32).
        ``target`` : array of shape (3000,), the digits, 300 samples each.
        ``target_names`` : list of the digits, as text.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The file is read from ``$MERCER_DATA/fsdd_mfcc``, or downloaded once: see `data_path`. This version does not name
    the speakers, so folds cannot be grouped by speaker.

    Examples
    --------
    >>> from mercer.datasets import fetch_fsdd
    >>> fetch_fsdd().data  # doctest: +SKIP
    Sequences(3000 sequences of 13-dimensional vectors (float32), lengths 6 to 92)
    """
    with np.load(data_path("fsdd_mfcc", "digits.npz"), allow_pickle=False) as archive:
        values, lengths, digits = archive["X"], archive["lengths"], archive["y"]
    data = _split(values, lengths, [f"digit-{digit}-{i + 1}" for i, digit in enumerate(digits)])
    return bunch(data, digits, fetch_fsdd, "fsdd_mfcc")


def fetch_watch_imu() -> Bunch:
    """Load smartwatch recordings of seven shoulder exercises: 6 channels at 50 Hz, 947 to 2,618 steps.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of 140 sequences of 6-dimensional vectors: acceleration, then angular velocity.
        ``target`` : array of shape (140,), index into ``target_names``.
        ``target_names`` : list of the exercises.
        ``groups`` : array of shape (140,), the subject, 1 to 10; group folds by it.
        ``side`` : array of shape (140,), the arm, 0 or 1.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The files ``watch_imu.csv`` and ``watch_imu_meta.csv`` are read from ``$MERCER_DATA/watch_imu``. They cannot be
    downloaded, because they were exported from seglearn's data.

    Examples
    --------
    >>> from mercer.datasets import fetch_watch_imu
    >>> fetch_watch_imu().data  # doctest: +SKIP
    Sequences(140 sequences of 6-dimensional vectors (float64), lengths 947 to 2618)
    """
    with open_binary(data_path("watch_imu", "watch_imu.csv")) as stream:
        rows = np.loadtxt(stream, delimiter=",", skiprows=1)
    with open_binary(data_path("watch_imu", "watch_imu_meta.csv")) as stream:
        metadata = np.loadtxt(stream, delimiter=",", skiprows=1, dtype=np.str_)
    _, exercise, subject, side = metadata[:, [0, 2, 3, 4]].T
    lengths = np.bincount(rows[:, 0].astype(np.int64), minlength=len(metadata))
    data = _split(rows[:, 1:], lengths, [f"recording-{i}" for i in range(len(metadata))])
    more = {"groups": subject.astype(np.int64), "side": side.astype(np.int64)}
    return bunch(data, exercise, fetch_watch_imu, "watch_imu", **more)


def fetch_char_trajectories() -> Bunch:
    """Load 100 pen trajectories of 20 characters: pen tip force and two velocities, 109 to 205 steps.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` : `mercer.Sequences` of 100 sequences of 3-dimensional vectors.
        ``target`` : array of shape (100,), index into ``target_names``, 5 samples each.
        ``target_names`` : list of the characters.
        ``DESCR`` : description and source of the data set.

    Notes
    -----
    The file ``char_traj_mv.csv`` is read from ``$MERCER_DATA/char_trajectories100``. It cannot be downloaded, because
    it was exported from the R package dtwclust. It is a subset of UCI's 2,858 trajectories.

    Examples
    --------
    >>> from mercer.datasets import fetch_char_trajectories
    >>> fetch_char_trajectories().data  # doctest: +SKIP
    Sequences(100 sequences of 3-dimensional vectors (float64), lengths 109 to 205)
    """
    with open_binary(data_path("char_trajectories100", "char_traj_mv.csv")) as stream:
        rows = np.loadtxt(stream, delimiter=",", skiprows=1, dtype=np.str_)
    names, first, lengths = np.unique(rows[:, 0], return_index=True, return_counts=True)
    order = np.argsort(first)  # file order, in which every series is contiguous
    data = _split(rows[:, 3:].astype(np.float64), lengths[order], names[order].tolist())
    return bunch(data, rows[first[order], 1], fetch_char_trajectories, "char_trajectories100")


def _uea(name: str, subset: str, loader: Callable[..., Bunch]) -> Bunch:
    files = {"train": f"{name}_TRAIN.ts", "test": f"{name}_TEST.ts"}
    return two_parts(name, files, read_ts, subset, loader)


def _split(values: Any, lengths: Any, ids: list[str]) -> Sequences:
    return Sequences._make(np.ascontiguousarray(values), offsets_of(lengths), None, tuple(ids))
