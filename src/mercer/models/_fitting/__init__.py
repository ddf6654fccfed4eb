"""Expectation maximisation: steps, starts, topologies and checks."""
