"""A report on kernels and baselines: one HTML file with tables and pictures."""

from mercer._report.report import Report, report

__all__ = ["Report", "report"]
