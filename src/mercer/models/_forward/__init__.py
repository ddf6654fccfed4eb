"""Forward-backward and Viterbi recursions for many sequences under many models."""
