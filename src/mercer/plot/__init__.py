"""Plots of Gram matrices, series, tests and related results. Requires matplotlib, which the extra ``cli`` installs."""

from mercer.plot.hypotheses import null_distribution, witness
from mercer.plot.matrices import diagnosis, error_over_length, gram, kernel_pca, matches, spectrum
from mercer.plot.series import forecast, regimes, states, transitions

__all__ = [
    "diagnosis",
    "error_over_length",
    "forecast",
    "gram",
    "kernel_pca",
    "matches",
    "null_distribution",
    "regimes",
    "spectrum",
    "states",
    "transitions",
    "witness",
]
