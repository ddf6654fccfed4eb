"""Plots of Gram matrices, series, tests, explanations, ... Requires matplotlib, which the extra ``cli`` installs."""

from mercer.plot.explanations import alignments, importance, logo, track
from mercer.plot.hypotheses import null_distribution, witness
from mercer.plot.matrices import diagnosis, error_over_length, gram, kernel_pca, matches, spectrum
from mercer.plot.series import forecast, occupancy, regimes, states, transitions
from mercer.plot.series_explanations import explained_series, heatmap

__all__ = [
    "alignments",
    "diagnosis",
    "error_over_length",
    "explained_series",
    "forecast",
    "gram",
    "heatmap",
    "importance",
    "kernel_pca",
    "logo",
    "matches",
    "null_distribution",
    "occupancy",
    "regimes",
    "spectrum",
    "states",
    "track",
    "transitions",
    "witness",
]
