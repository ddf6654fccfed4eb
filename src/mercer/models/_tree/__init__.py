"""Hidden trees: Newick format, array layout, message passing, rate matrices and EM."""
