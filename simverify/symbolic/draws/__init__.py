"""Symbolic values: draws, what is monotone in one, races, arrays of them."""
