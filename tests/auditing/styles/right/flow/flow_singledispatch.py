"""singledispatch on the kind of slot: an accepted one, a rejected one, the bonus."""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

CONTRACT = "verify"


class Slot(NamedTuple):
    p: np.ndarray
    q: np.ndarray
    token: int


class Bonus(NamedTuple):
    p: np.ndarray


@singledispatch
def run(part, rng):
    raise TypeError(part)


@run.register
def _(part: Slot, rng):
    if rng.random() < part.p[part.token] / part.q[part.token]:
        return part.token, True
    rest = np.maximum(part.p - part.q, 0)
    return int(rng.choice(len(rest), p=rest / rest.sum())), False


@run.register
def _(part: Bonus, rng):
    return int(rng.choice(len(part.p), p=part.p)), False


def verify(target_probs, draft_probs, draft_tokens, rng):
    parts = [*map(Slot, target_probs, draft_probs, draft_tokens.tolist()), Bonus(target_probs[-1])]
    out = []
    for part in parts:
        token, on = run(part, rng)
        out.append(token)
        if not on:
            return out
