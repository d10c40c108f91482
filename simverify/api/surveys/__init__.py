"""Surveys from Python: a table of engines, a bisection over releases; and their options."""
