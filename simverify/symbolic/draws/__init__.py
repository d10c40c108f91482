"""Symbolic values: draws, what is monotone in one, races, arrays of them."""

__simverify_role__ = "stand-in"

from simverify.symbolic.draws.in_arrays import functions as functions
