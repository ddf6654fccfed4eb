"""Recursions of pair hidden Markov models: affine gaps (MK-5b), general models (MK-5), matches and fits."""
