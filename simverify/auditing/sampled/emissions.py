"""What code under audit emitted in a sampled run, and how it can end one."""

import numpy as np

from simverify.arrays import Ints


class Misuse(Exception):
    """The code broke its contract; the message says how, for a finding.

    ``number``, ``pilot``, ``trial``: the address of the trial, once a run has said it.
    """

    number = trial = 0
    pilot = False


class TimeUp(Exception):
    """The wall-clock limit passed."""


class KeptDraw(Exception):
    """The code goes on using draws of the exact tier, which are no numbers."""


class Emissions:
    """What the code emitted on an instance so far.

    ``tokens`` int64 (n, length), completed with target samples beyond ``lengths`` (n,);
    ``accepted`` (n,): tokens of the first call less one.
    """

    def __init__(self, length: int) -> None:
        self.tokens: Ints = np.zeros((0, length), dtype=np.int64)
        self.lengths: Ints = np.zeros(0, dtype=np.int64)
        self.accepted: Ints = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def extend(self, tokens: Ints, lengths: Ints, accepted: Ints) -> None:
        """Append trials."""
        self.tokens = np.concatenate([self.tokens, tokens])
        self.lengths = np.concatenate([self.lengths, lengths])
        self.accepted = np.concatenate([self.accepted, accepted])
