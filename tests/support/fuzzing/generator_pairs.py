"""Pairs of uniforms that code makes, and the exact law of whether they fall in one half.

Independent ones do with probability 1/2; where the second is the first one again, always.
"""

import numpy as np

from simverify.auditing.enumeration import enumerate_verify


def same_half(two, *given):
    """Return that law's probability and the violations; ``given``: "rng" where ``two`` takes it."""

    def rule(p, q, x, rng):
        u, v = two(rng) if given else two()
        return [int((u < 0.5) == (v < 0.5))]

    law = enumerate_verify(rule, np.full((2, 2), 0.5), np.full((1, 2), 0.5), [0])
    assert law.lost == 0, law.findings
    return law.probabilities.get((1,), 0.0), [
        finding.kind for finding in law.findings if finding.severity == "violation"
    ]


def law_of(draw):
    """Return the exact law of an outcome 0..n-1 that a function without arguments gives."""
    law = enumerate_verify(
        lambda p, q, x, rng: [int(draw())], np.full((2, 30), 1 / 30), np.full((1, 30), 1 / 30), [0]
    )
    assert (law.lost, law.findings) == (0.0, ()), law.findings
    found = np.zeros(max(token for (token,) in law.probabilities) + 1)
    for (token,), probability in law.probabilities.items():
        found[token] = probability
    return found
