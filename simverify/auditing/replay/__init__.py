"""A failing path or trial again, alone, draw by draw."""
