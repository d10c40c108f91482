"""What judges tokens that other engines emitted, as functions."""
