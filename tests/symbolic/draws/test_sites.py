"""Results wait where the code leaves one unread, and nowhere else; exact either way."""

import numpy as np
import pytest
from support.oracles.token_law import INSTANCES, closed_form, distance

from simverify.auditing.enumeration import enumerate_block
from simverify.symbolic import Enumeration

torch = pytest.importorskip("torch")
P, Q, DRAFTED = INSTANCES["compact"]


def token_of(row):
    return torch.multinomial(torch.as_tensor(row), 1)


def residual(p, q):
    rest = np.maximum(p - q, 0)
    return rest if rest.any() else p


def for_every_slot(p, q, x, rng):
    """Draws at each slot, by one function, and reads the token of the slot that ends the block."""
    last = [token_of(residual(p[i], q[i])) for i in range(len(x))] + [token_of(p[-1])]
    for i, y in enumerate(x):
        if torch.rand((), dtype=torch.float64) >= p[i, y] / q[i, y]:
            return [*x[:i], int(last[i])]
    return [*x, int(last[-1])]


def where_it_is_needed(p, q, x, rng):
    """Draws one token, and reads it."""
    for i, y in enumerate(x):
        if torch.rand((), dtype=torch.float64) >= p[i, y] / q[i, y]:
            return [*x[:i], int(token_of(residual(p[i], q[i])))]
    return [*x, int(token_of(p[-1]))]


def enumerated(enumeration, rule):
    enumeration.source.sites.learn()
    enumeration.source.postponed = False
    law = enumerate_block(enumeration, rule, P, Q, np.array(DRAFTED))
    assert distance(law.probabilities, closed_form(P, Q, DRAFTED)) < 1e-12
    return law.paths, enumeration.source.postponed


def test_what_is_always_read_waits_on_the_first_instance_alone():
    with Enumeration(where_it_is_needed) as enumeration:
        paths, waited = enumerated(enumeration, where_it_is_needed)
        assert waited
        assert enumerated(enumeration, where_it_is_needed) == (paths, False)


def test_what_is_left_unread_once_waits_on_every_instance():
    with Enumeration(for_every_slot) as enumeration:
        first = enumerated(enumeration, for_every_slot)
        assert first[1]
        assert enumerated(enumeration, for_every_slot) == first
        # Decided at once, the tokens of all slots multiply the paths.
        enumeration.source.at_once = True
        paths, waited = enumerated(enumeration, for_every_slot)
        assert paths > 3 * first[0]
        assert not waited


def test_one_function_called_for_two_ends_is_two_places():
    """Only the token that is thrown away waits, though one line draws both."""
    sites = []

    def rule(p, q, x, rng):
        token_of(p[0])
        return [int(token_of(p[0]))]

    with Enumeration(rule) as enumeration:
        for _ in range(2):
            enumeration.source.sites.learn()
            law = enumerate_block(enumeration, rule, P[:2], Q[:1], np.array(DRAFTED[:1]))
            sites.append(law.paths)
            due = {(i,): P[0, i] for i in range(P.shape[1])}
            assert distance(law.probabilities, due) < 1e-12
    assert sites == [np.count_nonzero(P[0])] * 2
