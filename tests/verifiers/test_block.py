"""Block verification: lossless to the last fraction, optimal, and its misprints are lossy."""

from dataclasses import replace
from fractions import Fraction

import pytest
from support.instances import (
    disjoint_pair,
    equal_pair,
    one_hot_pair,
    partly_equal_pair,
    random_pair,
)
from support.oracles.oracle_laws import call_law
from support.oracles.rule_laws import deviation, sample_call

from simverify.models.base import compact, toy
from simverify.verifiers.base import draw, excess
from simverify.verifiers.block import BLOCK, verify

MODELS = [toy(), compact(), one_hot_pair(), equal_pair(), partly_equal_pair(), disjoint_pair(),
          *(random_pair(i, 3) for i in range(4))]  # fmt: skip


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_lossless(model, gamma):
    assert deviation(BLOCK, model, gamma) == 0


def variant(target_probs, draft_probs, draft_tokens, rng, *,
            clamp=True, stop_early=False, weighted=True, bonus_row=-1):  # fmt: skip
    """Algorithm 2, with one thing done wrong."""
    gamma = len(draft_tokens)
    weight = kept = 1
    tau = 0
    for i, x in enumerate(draft_tokens):
        weight = weight * target_probs[i][x] / draft_probs[i][x]
        weight = min(1, weight) if clamp else weight
        threshold = min(1, weight)
        if i + 1 < gamma:
            residual = excess(weight * target_probs[i + 1], draft_probs[i + 1]).sum()
            room = residual + 1 - weight
            threshold = residual / room if room > 0 else 1
        if rng.random() < threshold:
            tau, kept = i + 1, weight
        elif stop_early:
            break
    p = target_probs[bonus_row if tau == gamma else tau]
    if tau < gamma:
        p = excess(kept * p if weighted else p, draft_probs[tau])
    return [*draft_tokens[:tau], draw(p, target_probs[tau], rng)]


WRONG = {
    "unclamped": {"clamp": False},
    "stops early": {"stop_early": True},
    "token's residual": {"weighted": False},
    "bonus of the row before": {"bonus_row": -2},
}


def test_the_variant_with_nothing_wrong_is_the_rule():
    assert deviation(replace(BLOCK, rule=variant), compact(), 3) == 0


@pytest.mark.parametrize("name", WRONG)
def test_misprints_are_lossy(name):
    wrong = replace(BLOCK, rule=lambda *arguments: variant(*arguments, **WRONG[name]))
    assert deviation(wrong, compact(), 3) > Fraction(1, 200)


def test_the_first_token_alone_misses_an_unclamped_weight():
    """An audit of the first token passes it (docs/explanation/statistics.md); all tokens do not."""
    wrong = replace(BLOCK, rule=lambda *arguments: variant(*arguments, clamp=False))
    assert deviation(wrong, toy(), 1) == 0
    assert deviation(wrong, compact(), 1) == 0
    assert deviation(wrong, toy(), 2) > 0


def test_accepts_a_whole_block_more_often_than_token():
    for model in MODELS[:2]:
        whole = {
            rule: sum(w for tokens, w in call_law(model, rule, 3).items() if len(tokens) == 4)
            for rule in ("token", "block")
        }
        assert whole["block"] > whole["token"]


def test_on_numpy_rows():
    for model in MODELS:
        for emitted, drafted in sample_call(BLOCK, model, 4, 50):
            assert emitted[:-1] == drafted[: len(emitted) - 1]


def test_equal_rows_accept_everything():
    """0/0 counts as 1: with p = q no residual mass is left anywhere."""
    assert all(len(emitted) == 5 for emitted, _ in sample_call(BLOCK, equal_pair(), 4, 100))


def test_scan_goes_on_after_a_rejection():
    """Coins that fail h_1 and pass h_2: tau = 2."""

    class Coins:
        def __init__(self):
            self.values = [0.99, 0.1]

        def random(self):
            return self.values.pop(0)

        def choice(self, n, p):
            return 0

    p, q = toy().target(()), toy().draft(())
    assert verify([p, p, p], [q, q], [0, 1], Coins()) == [0, 1, 0]
