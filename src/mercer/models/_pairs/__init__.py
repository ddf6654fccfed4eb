"""The recursions of pair hidden Markov models: affine gaps (MK-5b), general visits (MK-5), matches, fits."""
