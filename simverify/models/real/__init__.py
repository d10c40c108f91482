"""Real models: pairs of transformers, how they are sampled, and traces of their rows."""
