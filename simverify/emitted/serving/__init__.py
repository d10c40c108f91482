"""A server that is asked for completions: an ``endpoint`` asks a ``server`` over a ``transport``.

Its answers are ``kept`` in a file as they come, and ``pace`` says now and then how far it is.
"""
