"""simverify's greedy block with its state behind __getattr__ of another object."""

from simverify.verifiers.greedy import GreedyBlock

CONTRACT = "step"


class Rule:
    def __init__(self):
        object.__setattr__(self, "_rule", GreedyBlock())

    def __getattr__(self, name):
        return getattr(self._rule, name)

    def reset(self):
        self._rule.reset()
