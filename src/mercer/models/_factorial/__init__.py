"""Factorial hidden Markov models: structured mean field bounds and EM."""
