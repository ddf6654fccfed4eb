"""Kernels against plain baselines by nested cross-validation: what ``mercer compare`` and `mercer.report` run."""
