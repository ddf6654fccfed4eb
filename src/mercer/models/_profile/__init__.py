"""Profile hidden Markov models: nodes, annotations, configurations, counts and files."""
