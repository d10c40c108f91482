"""What one instance of a battery may take, in paths and in effort."""

import math

from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.trees import most_trees
from simverify.auditing.exact.judging.examiner import STEP_PATHS, Examiner, generates

EFFORT = 5.0
"""What a battery may take for each path of its budget: runs of the code, or 40 calls of torch
each. A path through a whole model is dear."""

MOST_EFFORT = 50_000
"""What it may take in all, some twenty seconds, however many paths it has; in proportion where more
paths are asked for than such code has by default."""

PART = 4
"""An instance beyond the core may take this part of the effort that is left, and no more."""

_AT_ONCE = 300
"""Outcomes of one tree at most where a token is drawn at every node of it."""


def affordable(max_paths: int, usual: int, runs: int, effort: float) -> int:
    """Return the paths of one more instance, after so many runs that took so much effort.

    ``max_paths``: of the whole battery; ``usual``: what these are by default.
    """
    left = min(EFFORT * max_paths, MOST_EFFORT * max(1.0, max_paths / usual)) - effort
    return math.ceil(left / PART * max(runs, 1) / max(effort, 1))


def fair_paths(examiner: Examiner, model: SmallModel) -> int:
    """Return more paths than a rule without endless loops takes on ``model``."""
    if examiner.subject.coin_bits is not None:
        return examiner.max_paths + 1
    if examiner.contract == "step":
        return STEP_PATHS
    if model.drafting is not None:
        drawn = int(model.vocab_size ** (len(model.drafting.shape) + 1))
        fair = 1_000 + most_trees(model) * min(max(40, drawn), _AT_ONCE)
        # Of an object there are a few calls more, which look for what it keeps.
        return 2 * fair if generates(examiner.subject, examiner.contract) else fair
    return 1_000 + 30 * int((2 * model.vocab_size) ** model.gamma) * model.vocab_size
