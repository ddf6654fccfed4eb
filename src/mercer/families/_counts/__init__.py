"""Helpers of the families of counts: rows of counts, sums over all counts, convolutions, random lengths."""
