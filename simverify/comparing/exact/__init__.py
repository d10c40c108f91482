"""The exact side of a comparison: laws, curves and enclosures of the built-in rules."""
