"""What an enumeration has run is a count: of runs, and of torch's calls in them."""

import numpy as np
import pytest

from simverify.symbolic import Enumeration
from simverify.symbolic.engine import Budget
from simverify.symbolic.source import SYMBOLIC_CALL_COST, TORCH_CALLS_PER_RUN, total_effort


def spent(code, calls):
    """Effort of ``code`` run over all its paths, and its paths."""
    with Enumeration(code) as enumeration:
        begun = total_effort(enumeration.source)
        law = enumeration.run(lambda: (code(enumeration.rng, calls),), Budget(10**9))
        return total_effort(enumeration.source) - begun, law.paths, enumeration.source.epoch - 1


def test_runs_count_one_each_replays_too():
    effort, paths, runs = spent(lambda rng, _: int(rng.random() < 0.5), 0)
    assert effort == runs > paths == 2


def test_calls_of_torch_are_added():
    """As many more for each run; ten times as many where a draw passes through them."""
    torch = pytest.importorskip("torch")

    def plain(rng, calls):
        for _ in range(calls):
            torch.zeros(3).sum()
        return int(rng.random() < 0.5)

    def followed(rng, calls):
        u = torch.tensor(np.array(0.0)).uniform_()
        for _ in range(calls):
            u = u + 0.0
        return int(u < 0.5)

    for code, each in ((plain, 2), (followed, SYMBOLIC_CALL_COST)):
        less, more = spent(code, 10), spent(code, 20)
        assert more[1:] == less[1:]
        symbolic = (more[0] - less[0]) * TORCH_CALLS_PER_RUN / (10 * each)
        # The paths, and those of the runs before and after them in which torch is followed.
        assert less[1] <= symbolic <= less[2]
