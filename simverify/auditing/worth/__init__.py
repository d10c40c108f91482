"""What code under audit is worth on a model of a comparison, after the empty prefix."""
