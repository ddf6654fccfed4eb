"""Switching linear dynamical systems: filters over many regime paths, learning, and kernels."""
