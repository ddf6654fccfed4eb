"""Kernel density estimates: ragged points, compiled sums over pairs of points, bandwidths."""
