"""Exact laws and acceptance curves (``laws``), and proven bounds on acceptance (``bounds``)."""
