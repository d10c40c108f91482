"""An examiner that is told what comes of each instance, and a battery run by it."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from simverify.auditing.exact_tier import ExactTier, run_battery
from simverify.auditing.examiner import Examiner
from simverify.auditing.instances import SmallModel
from simverify.symbolic.engine import Budget
from simverify.symbolic.paths import TooManyPaths

MANY = TooManyPaths(3)


def instance(name, vocab=2, gamma=1):
    return SmallModel(name, gamma, ((1,) * vocab,), ((1,) * vocab,))


A, B, C, D = (instance(name) for name in "ABCD")
LARGE, LARGER = instance("large", 4, 1), instance("larger", 4, 2)
FAIR = 1_000 + 30 * 4 * 2
"""Paths that a rule without endless loops stays below on two tokens and one draft."""


CORE = replace(B, name="core", core=True)


def seen(model, *, paths=10, failed=False, undecided=False, complete=True):
    law = SimpleNamespace(paths=paths, complete=complete)
    return SimpleNamespace(model=model, comparison=law, failed=failed, undecided=undecided)


def counting(widest=(0, ""), longest="", **counts):
    """An enumeration that has run so often, on integers of so many values."""
    counts = {"epoch": 0, "torch_calls": 0} | counts
    return SimpleNamespace(source=SimpleNamespace(widest=widest, longest=longest, **counts))


NOTHING = Budget(0)


@dataclass(frozen=True)
class Told:
    """An examiner that is told what comes of each instance, and notes what it was given."""

    come: dict
    given: list
    budget: Budget = NOTHING
    contract: str = "verify"
    subject: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(coin_bits=None))
    enumeration: SimpleNamespace | None = None

    within = Examiner.within

    def judge(self, model):
        budget = self.budget
        self.given.append((model.name, budget.paths, budget.seconds, budget.enough))
        found = self.come.get(model, seen(model))
        found = found[budget.enough is not None] if isinstance(found, tuple) else found
        if isinstance(found, Exception):
            raise found
        return found


def run(models, come=None, *, paths=100_000, seconds=60.0, **more):
    """What the battery comes to, and what each instance was judged within."""
    tier, given = ExactTier(), []
    run_battery(tier, Told(come or {}, given, **more), models, Budget(paths, seconds))
    return tier, given


def names(models):
    return [getattr(x, "model", x).name for x in models]
