"""Components of Markov chains: counts, tables of contexts, recursions, scores."""
