"""What is a warning on one path or block is a violation where it is often elsewhere."""

import numpy as np
import pytest
from support.whole_laws import compare_verify

from simverify.auditing.exact.instances.made import battery

MODEL = next(m for m in battery(2, 3) if m.name == "plain, V=2, gamma=1")
EDGE, OFTEN = 5e-7, 5e-4


def token(p, q, x, rng):
    y = int(x[0])
    if rng.random() * q[0, y] < p[0, y]:
        return [y, int(rng.choice(2, p=p[1]))]
    rest = np.maximum(p[0] - q[0], 0)
    return [int(rng.choice(2, p=rest / rest.sum()))]


def on_the_next_path(often):
    def rule(p, q, x, rng):
        tokens, u = token(p, q, x, rng), rng.random()
        if u < EDGE:
            raise ValueError("at an edge")
        if 0.5 < u < 0.5 + often:
            raise ValueError("elsewhere")
        return tokens

    return rule


def on_the_next_block(often):
    def rule(p, q, x, rng):
        tokens, u = token(p, q, x, rng), rng.random()
        if u < (often if x[0] else EDGE):
            raise ValueError("elsewhere" if x[0] else "at an edge")
        return tokens

    return rule


def of_two_edges(_):
    def rule(p, q, x, rng):
        tokens, u = token(p, q, x, rng), rng.random()
        if u < EDGE or 0.5 < u < 0.5 + 1.5 * EDGE:
            raise ValueError("elsewhere" if u > EDGE else "at an edge")
        return tokens

    return rule


@pytest.mark.parametrize("made", [on_the_next_path, on_the_next_block, of_two_edges])
def test_what_is_rare_at_first_is_a_violation_where_it_is_not(made):
    found = compare_verify(made(OFTEN), MODEL, MODEL.gamma)
    assert [(f.kind, f.severity) for f in found.findings] == [("raises", "violation")]
    assert "elsewhere" in found.findings[0].message


@pytest.mark.parametrize("made", [on_the_next_path, on_the_next_block])
def test_what_is_rare_everywhere_is_a_warning(made):
    found = compare_verify(made(EDGE / 2), MODEL, MODEL.gamma)
    assert [(f.kind, f.severity) for f in found.findings] == [("raises", "warning")]
    assert "at an edge" in found.findings[0].message
