"""What the families of counts share: rows of counts, sums over all counts, convolutions, random lengths."""
