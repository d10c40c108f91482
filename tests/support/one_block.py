"""A block of two drafts over three tokens, and the law of what a rule emits there."""

import contextlib
import time

import numpy as np

from simverify.auditing.enumeration import enumerate_verify

P = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])
Q = np.array([[0.6, 0.2, 0.2], [0.3, 0.3, 0.4]])
X = [0, 1]


def law_of(rule, **kwargs):
    return enumerate_verify(rule, P, Q, X, **kwargs)


def endless(p, q, x, rng):
    while True:
        with contextlib.suppress(Exception):  # swallows what it can
            time.sleep(0.01)
