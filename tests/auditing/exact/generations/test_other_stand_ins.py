"""A later call may need other stand-ins than the first: then all calls are run with those."""

import numpy as np
import pytest

from simverify.auditing.exact.instances.made import instances_for
from simverify.auditing.exact.tier import examine
from simverify.auditing.subject import Subject

MODELS = [m for m in instances_for("step", 1, 3, 0) if m.name == "plain, V=3, gamma=1"]


class Second:
    """Right but for ``cut``; from its second call on it turns its draw into a plain float."""

    cut = 0.0

    def reset(self):
        self.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        self.calls += 1
        u = rng.random()
        u = float(u) if self.calls > 1 else u
        cdf = np.cumsum(target(prefix))[:-1]
        return [sum(u >= c - self.cut for c in cdf.tolist())]


class Wrong(Second):
    cut = 0.01


@pytest.mark.parametrize(("rule", "fails"), [(Second, False), (Wrong, True)])
def test_a_later_call_needs_other_stand_ins(rule, fails):
    tier = examine(Subject("rule", rule, "step"), "step", MODELS, tolerance=None, searching=False)
    assert tier.not_enumerable is None
    assert (tier.failure is not None) == fails
    assert len(tier.judged) == 1
