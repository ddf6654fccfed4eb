"""Discrete Bayesian networks: graphs, files, elimination orders, contractions, evidence, coupled networks."""
