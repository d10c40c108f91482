"""Budgets, looks and plans: what a claim costs before it is made."""
