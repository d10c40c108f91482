"""Verifiers that take their coins as arguments: their law by bisection."""
