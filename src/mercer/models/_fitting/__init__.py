"""Expectation maximization: steps, starts, topologies and checks."""
