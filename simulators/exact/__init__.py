"""Exact laws: path enumeration, tree laws, recursions, certified bounds, linear programs."""
