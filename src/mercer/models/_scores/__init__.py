"""Fisher scores of models with hidden variables."""
