"""Hidden trees: Newick, layouts, messages along the edges, rates of change, and their fit."""
