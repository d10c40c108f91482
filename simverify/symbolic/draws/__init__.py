"""Symbolic values: draws, what is monotone in one, races, arrays of them."""

from simverify.symbolic.draws.in_arrays import functions as functions
