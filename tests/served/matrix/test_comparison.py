"""The bets of a cell: how often they are wrong, and whether they find what they promise."""

import numpy as np
import pytest
from support.levels import at_night

from simverify.models.distribution import Law
from simverify.served.matrix import (
    KEEP_PROBABILITIES,
    CellComparison,
    RequestLogits,
    _plain_alternatives,
    block_row_alternatives,
    every_row,
    first_token_only,
    forward_probabilities,
)
from simverify.served.requests import Request
from simverify.served.variants import TOO_NEAR

V, N, LENGTH = 16, 256, 32
ASKED, RAW = Law(top_k=4), Law()
WAYS = [
    every_row("honoured", "as asked", ASKED),
    every_row("dropped", "ignored", RAW),
    every_row("wrong order", "hot", Law(1.5, 4)),
    first_token_only("ignored after the first token", ASKED, RAW),
    *block_row_alternatives(ASKED, RAW, (1, 3), drafted=False),
]


def run(rng, law, share=0.0, alpha=0.05, n=N, ways=WAYS):
    """Judge tokens of ``law``, ``share`` of them drawn without truncation."""
    comparison = CellComparison(ways, int(rng.integers(1 << 30)))
    for _ in range(n // LENGTH):
        logits = rng.normal(size=(LENGTH, V)).astype(np.float32) * 1.5
        rows = (1 - share) * law.rows(logits) + share * RAW.rows(logits)
        tokens = tuple(int(rng.choice(V, p=row / row.sum())) for row in rows)
        comparison.add(RequestLogits(Request((0,), tokens), logits, None))
    return comparison.judge(alpha, 0.0)


def outcomes(compared):
    return {outcome for outcome, _ in compared.left}


@pytest.mark.distribution
@pytest.mark.parametrize(("runs", "most"), [(30, 7), pytest.param(200, 20, marks=pytest.mark.slow)])
@pytest.mark.thorough
def test_what_an_engine_does_is_rejected_as_seldom_as_promised(runs, most):
    """At 1 in 20; a law that is not among those tried is rejected."""
    rng = np.random.default_rng(0)
    for law, outcome in ((ASKED, "honoured"), (RAW, "dropped")):
        wrong = sum(outcome not in outcomes(run(rng, law)) for _ in range(runs))
        assert wrong <= most  # more has P < 1e-3 where the rate is 1 in 20
    assert all("honoured" not in outcomes(run(rng, Law(3.0, 9))) for _ in range(5))


@pytest.mark.distribution
@pytest.mark.thorough
def test_the_share_that_it_promises_is_found():
    rng = np.random.default_rng(1)
    promised = run(rng, ASKED, alpha=1e-6).found
    assert 0.02 < promised < 0.5
    found = ["honoured" not in outcomes(run(rng, ASKED, promised, 1e-6)) for _ in range(30)]
    assert np.mean(found) > 0.8
    less = ["honoured" not in outcomes(run(rng, ASKED, promised / 8, 1e-6)) for _ in range(30)]
    assert np.mean(less) < 0.5


@pytest.mark.distribution
@pytest.mark.parametrize("law", at_night({"asked": ASKED, "warm": Law(1.1, 4)}, but=("asked",)))
@pytest.mark.thorough
def test_as_many_tokens_tell_as_are_said_to(law):
    """An estimate from the bets so far: with ten seeds three times as many do, an eighth never."""
    law = {"asked": ASKED, "warm": Law(1.1, 4)}[law]
    ways = [every_row("honoured", "as asked", ASKED), every_row("wrong order", "warm", Law(1.1, 4))]
    rng = np.random.default_rng(5)
    said = [run(rng, law, n=32 * LENGTH, alpha=1e-6, ways=ways) for _ in range(9)]
    assert all(len(outcomes(one)) == 2 for one in said)
    told = [one.tells for one in said if one.tells is not None]
    assert len(told) > 5
    needed = int(np.median(told))
    enough = [run(rng, law, n=3 * needed, alpha=1e-6, ways=ways) for _ in range(3)]
    assert sum(len(outcomes(one)) == 1 for one in enough) >= 2
    assert all(one.tells is None for one in enough if len(outcomes(one)) == 1)
    few = [run(rng, law, n=needed // 8, alpha=1e-6, ways=ways) for _ in range(3)]
    assert sum(len(outcomes(one)) == 1 for one in few) <= 1


def test_bets_that_win_nothing_say_no_number():
    """Two laws that are one: however many tokens come, both are left."""
    ways = [every_row("honoured", "as asked", ASKED), every_row("wrong order", "the same", ASKED)]
    found = run(np.random.default_rng(6), ASKED, ways=ways)
    assert outcomes(found) == {"honoured", "wrong order"}
    assert found.tells is None


def test_a_ball_costs_power_and_never_gains_any():
    rng = np.random.default_rng(2)
    comparison = CellComparison(WAYS, 0)
    logits = rng.normal(size=(LENGTH, V)).astype(np.float32)
    tokens = tuple(int(rng.choice(V, p=row / row.sum())) for row in RAW.rows(logits))
    comparison.add(RequestLogits(Request((0,), tokens), logits, None))
    values = [comparison.judge(1e-6, ball).evalue for ball in (0.0, 1e-4, 1e-2, 0.5)]
    assert values == sorted(values, reverse=True)
    assert outcomes(comparison.judge(1e-6, 0.9)) >= {"honoured", "dropped"}
    assert comparison.judge(1e-6, 0.9).found is None


def test_places_of_a_block_are_followed():
    """Against the sum over all ways in which blocks may lie, of three tokens and gamma 2."""
    rng = np.random.default_rng(3)
    kept, ends = rng.uniform(0.05, 0.4, (2, 3, 4))
    kept[2] = 0.0
    start = rng.uniform(0.1, 0.5, 4)
    found = forward_probabilities(list(zip(kept, ends, strict=True)), start)
    totals = []
    for length in range(1, 5):
        paths = {0: start[0]}
        for i in range(1, length):
            following = {}
            for place, weight in paths.items():
                for after, mass in ((0, ends[place, i]), (place + 1, kept[place, i])):
                    if after < 3:
                        following[after] = following.get(after, 0.0) + weight * mass
            paths = following
        totals.append(sum(paths.values()))
    assert np.allclose(np.cumprod(found), totals)


def test_a_law_on_every_row_is_itself():
    """Where all rows of a block have the law, what is hidden tells nothing."""
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(LENGTH, V)).astype(np.float32)
    tokens = tuple(int(t) for t in rng.integers(0, V, LENGTH))
    seen = RequestLogits(Request((0,), tokens), logits, logits + 0.5 * rng.normal(size=(LENGTH, V)))
    for drafted in (False, True):
        ways = block_row_alternatives(RAW, RAW, (1, 4), drafted)
        assert len(ways) == 2 * 2 * (1 if drafted else len(KEEP_PROBABILITIES))
        for way in ways:
            assert np.allclose(way.chances(seen), seen.of(RAW.rows(logits)))


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_server_at_nine_tenths_of_the_temperature_is_named_and_a_right_one_is_honoured():
    asked = Law(2.0)
    cell_ways = _plain_alternatives(asked, "temperature")
    words = {way.words for way in cell_ways}
    assert "0.9 times the temperature" in words
    assert not words.intersection(TOO_NEAR)
    rng = np.random.default_rng(8)
    cold = run(rng, Law(1.8), n=256 * LENGTH, alpha=1e-6, ways=cell_ways)
    assert cold.left == (("other", "0.9 times the temperature"),)
    right = run(rng, asked, n=256 * LENGTH, alpha=1e-6, ways=cell_ways)
    assert outcomes(right) == {"honoured"}


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_parameter_that_is_dropped_for_a_default_of_the_server_is_dropped():
    rng = np.random.default_rng(9)
    ways = _plain_alternatives(Law(top_k=2), "top_k")
    ignored = run(rng, RAW, n=32 * LENGTH, alpha=1e-6, ways=ways)
    assert outcomes(ignored) == {"dropped"}
    one_more = run(rng, Law(top_k=3), n=32 * LENGTH, alpha=1e-6, ways=ways)
    assert one_more.left == (("other", "top-k of k + 1"),)
