"""What Markov chains are made of: counts, tables of contexts, recursions, scores."""
