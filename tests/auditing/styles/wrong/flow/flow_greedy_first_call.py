"""Greedy block without its carried state, from the closed form of one call. TV .01 to .1 over
several calls, none in one-token drafts."""

from simverify.verifiers.greedy import GreedyBlock

CONTRACT = "step"


def step(prefix, target, draft, gamma, rng):
    fresh = GreedyBlock()
    fresh.reset()
    return fresh.step(prefix, target, draft, gamma, rng)
