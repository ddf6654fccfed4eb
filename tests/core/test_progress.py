"""Progress bars of long work: they appear while the first item is worked on, and name the work."""

import sys
import threading

import numpy as np
import pytest

import mercer as mc
from mercer import _parallel


class Terminal:
    """A terminal that lets others wait for what it shows."""

    encoding = "utf-8"

    def __init__(self):
        self.text, self._changed = "", threading.Condition()

    def isatty(self):
        return True

    def write(self, text):
        with self._changed:
            self.text += text
            self._changed.notify_all()

    def flush(self):
        pass

    def wait_for(self, text):
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.text, timeout=20), self.text


def on_terminal(monkeypatch):
    """Replace the standard error; in a fixture, pytest would put its own in place again."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_parallel, "BAR_AFTER_SECONDS", 0.01)
    return terminal


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bar_appears_before_the_first_item_is_finished(monkeypatch, threads):
    """And says what is worked on."""
    terminal = on_terminal(monkeypatch)
    _parallel.thread_map(
        lambda item: terminal.wait_for(f"part {item}"),
        [0, 1, 2],
        threads=threads,
        label="work",
        name=lambda item: f"part {item}",
    )
    assert "work:   0%" in terminal.text
    assert terminal.text.endswith("\r")  # the bar is gone


def test_a_bar_of_an_error_is_gone(monkeypatch):
    terminal = on_terminal(monkeypatch)

    def work(item):
        terminal.wait_for("0/2")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        _parallel.thread_map(work, [0, 1], threads=1, label="work")
    assert not [thread for thread in threading.enumerate() if thread.name == "mercer progress bar"]
    assert terminal.text.endswith("\r")


def test_no_bar_if_none_is_wanted(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with mc.config(progress=False):
        _parallel.thread_map(lambda item: None, [0, 1], threads=1, label="work", name=str)
    assert terminal.text == ""


SERIES = [np.sin(np.arange(20) * (1 + i % 2)) + 0.01 * i for i in range(8)]


@pytest.mark.parametrize("estimator", [mc.SeriesClassifier, mc.SeriesRegressor])
def test_what_estimators_of_series_do_is_logged(monkeypatch, caplog, estimator):
    """With a line for each part that took long."""
    monkeypatch.setattr(_parallel, "BAR_AFTER_SECONDS", 0.0)
    with caplog.at_level("INFO", "mercer"):
        estimator("fast", n_jobs=1).fit(SERIES, np.arange(8) % 2)
    expected = [
        ("FisherEnsemble", "windows (shape)"),
        ("FisherEnsemble", "windows (level)"),
        (estimator.__name__, "regression of 8 series"),
    ]
    texts = [record.getMessage() for record in caplog.records]
    assert [text.rpartition(",")[0] for text in texts] == [f"{label}: {name}" for label, name in expected]


@pytest.mark.parametrize("estimator", [mc.SeriesClassifier, mc.SeriesRegressor])
def test_estimators_of_series_show_a_bar_while_they_fit(monkeypatch, estimator):
    """Each step waits for its own bar."""
    terminal = on_terminal(monkeypatch)
    from mercer.kernels import series, windowscores

    fit, ridge = windowscores.WindowScores._learn, series._ridge

    def learn(self, X, y=None):
        terminal.wait_for(f"windows ({self.view})")
        fit(self, X, y)

    def regressed(*args):
        terminal.wait_for("regression of 8 series")
        return ridge(*args)

    monkeypatch.setattr(windowscores.WindowScores, "_learn", learn)
    monkeypatch.setattr(series, "_ridge", regressed)
    estimator("fast", n_jobs=1).fit(SERIES, np.arange(8) % 2)
    assert f"{estimator.__name__}:   0%" in terminal.text
