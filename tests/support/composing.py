"""Step rules on small instances, their calls composed, and one that counts its calls."""

import numpy as np

from simverify.auditing.comparison import compare_tokens
from simverify.auditing.enumeration import Generation, StepEnumeration, compose_generation
from simverify.auditing.examiner import Examiner
from simverify.auditing.instances import instance_battery
from simverify.auditing.subject import Subject
from simverify.symbolic.engine import Budget

MODELS = {model.name: model for model in instance_battery(4, 12)}
SMALL = MODELS["plain, V=2, gamma=2"]


def right(prefix, target, draft, gamma, rng, wrong=False):
    """Return a call of the token rule; ``wrong``: its last token is the draft's."""
    out = tuple(prefix)
    for _ in range(gamma):
        p, q = target(out), draft(out)
        y = int(rng.choice(len(q), p=q))
        if rng.random() * q[y] >= p[y]:
            rest = q if wrong else np.maximum(p - q, 0)
            return [*out[len(prefix) :], int(rng.choice(len(p), p=rest / rest.sum()))]
        out += (y,)
    row = draft(out) if wrong else target(out)
    return [*out[len(prefix) :], int(rng.choice(len(row), p=row))]


def generation(model, length=None):
    return Generation(model.target, model.draft, model.gamma, length or model.gamma + 1)


def composed(rule, model, length=None, merges=True):
    with StepEnumeration(rule) as enumeration:
        law = compose_generation(
            enumeration, rule, generation(model, length), Budget(20_000, 60), merges=merges
        )
    return law, compare_tokens(law, model.target)


def judged(rule, model=SMALL):
    return Examiner(Subject("mine", rule, None), "step", 1e-9).judge(model)


class Count:
    """Wrong from the third call on. Subclasses keep the number of calls somewhere."""

    def step(self, prefix, target, draft, gamma, rng):
        return right(prefix, target, draft, gamma, rng, wrong=self.count() > 2)
