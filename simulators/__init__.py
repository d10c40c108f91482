"""Simulators: compiled kernels with Philox, exact laws, decoding loops, the latency model.

``run`` and ``trees`` run the compiled loops over ranges of trials, ``decoding`` decodes real
models, ``exact`` computes laws and bounds, ``latency`` predicts speed-ups.
"""

__simverify_role__ = "machinery"
