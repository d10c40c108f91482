"""Draft trees on models whose rows are asked for: the decoding loop, what a run keeps, worth."""
