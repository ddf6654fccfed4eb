"""Forward, backward and the best path: many sequences under many models."""
