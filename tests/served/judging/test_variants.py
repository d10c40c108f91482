"""Other ways to sample than a law asks for: what each keeps, and when it differs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from simverify.models.distribution import ORDERS, Law, Mask, check_order
from simverify.served.variants import (
    LOG_VARIANTS,
    VARIANT_TOKENS,
    VARIANTS,
    explaining_variants,
    variant_bets,
    variant_ratios,
)
from simverify.stats import bet_test

NAMED = {one.words: one for one in VARIANTS}
V, N = 30, 40


def rows(words, law, seed=0, prompt=(1, 2), tokens=None):
    """The rows of the law, and of the variant."""
    rng = np.random.default_rng(seed)
    logits = (2 * rng.normal(size=(N, V))).astype(np.float32)
    tokens = rng.integers(0, V, N).tolist() if tokens is None else tokens
    assert NAMED[words].applies(law)
    return law.after(logits, prompt, tokens), NAMED[words].rows(law, logits, prompt, tokens)


def kept(p):
    return (p > 0).sum(axis=1)


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("top-p without the token that crosses p", -1),
        ("top-p with one token more than reach p", 1),
        ("top-k of k - 1", -1),
        ("top-k of k + 1", 1),
    ],
)
def test_a_cut_that_is_off_by_one_keeps_the_likeliest(words, more):
    law = Law(0.8, 5) if "top-k" in words else Law(0.8, None, 0.7)
    right, wrong = rows(words, law)
    assert (kept(wrong) == np.maximum(kept(right) + more, 1)).all()
    both = (right > 0) & (wrong > 0)
    ratio = np.where(both, wrong, 0).sum(1) / np.where(both, right, 0).sum(1)
    assert np.allclose(wrong[both], (right * ratio[:, None])[both])


def test_min_p_is_relative_to_what_it_should_not_be():
    law = Law(0.5, min_p=0.1)
    logits = np.log([[0.5, 0.3, 0.15, 0.05], [0.25, 0.25, 0.25, 0.25]])

    def found(words):
        return kept(NAMED[words].rows(law, logits, (0,), (1, 2))).tolist()

    # At temperature .5 the first row is .685, .247, .062, .007.
    assert kept(law.after(logits, (0,), (1, 2))).tolist() == [2, 4]
    assert found("min-p relative to 1, not to the largest probability") == [2, 4]
    raw = "min-p relative to the model's largest probability, before temperature"
    assert found(raw) == [3, 4]
    assert found("min-p relative to the largest probability of the row before") == [2, 4]
    assert not NAMED[raw].applies(replace(law, temperature=1.0))


def test_stages_in_another_order():
    law = Law(2.0, None, 0.6)
    right, wrong = rows("temperature after the cuts", law)
    assert (kept(wrong) <= kept(right)).all()
    assert (kept(wrong) < kept(right)).any()
    swapped = replace(law, order=ORDERS["llamacpp"])
    assert np.array_equal(wrong, rows("temperature before the cuts", swapped)[0])
    assert not NAMED["temperature before the cuts"].applies(law)
    late = Law(0.5, presence_penalty=1.0)
    assert not np.allclose(*rows("penalties after temperature", late, tokens=[3] * N))


def test_each_variant_differs_from_some_law_and_none_from_the_target_itself_but_by_values():
    laws = [
        Law(0.7, 12, 0.8, 0.02, 0.9, 1.2, 0.5, 0.5, ((3, 1.0),), ((4,),), 2, (0,)),
        replace(Law(1.3, 12, 0.8, 0.02), order=ORDERS["sglang"]),
        replace(Law(1.3, 12, 0.8, 0.02, repetition_penalty=2.0), order=ORDERS["llamacpp"]),
        Law(),
        Law(0.7, top_p=0.8),
    ]
    idle = [one.words for one in VARIANTS if not any(one.applies(law) for law in laws)]
    limits = {"mask ignored", "allowed-token-ids ignored"}
    assert set(idle) <= {*limits, "penalties before temperature"}
    for variant in VARIANTS:
        assert not variant.applies(Law(0.0, 5, 0.9)) or variant.words == "temperature ignored"
        if variant.applies(Law()):
            assert "times the temperature" in variant.words or "not asked for" in variant.words


def test_no_variant_is_tried_that_may_leave_nothing_to_draw():
    law = Law(0.8, 2, bad_words=((3,),), order=check_order("top-k,bad-words"))
    logits = np.array([[0.0, 1.0, 2.0, 5.0, 4.0]])
    p = law.after(logits, (1,), (4,))
    assert p.tolist() == [[0, 0, 0, 0, 1]]  # with a top-k of 1 the bad word would be all
    assert (variant_ratios(law, p, logits, (1,), (4,)) == 1.0).all()
    before = replace(law, order=Law().order)
    assert NAMED["top-k of k - 1"].applies(before)


@pytest.mark.parametrize("temperature", [1e-310, 1e200])
def test_a_temperature_beyond_all_numbers_is_not_tried(temperature):
    assert [one.words for one in VARIANTS if one.applies(Law(temperature))]


@pytest.mark.distribution
@pytest.mark.parametrize("engine", ["right", *list(NAMED)[11:20]])
def test_bets_find_a_variant_and_leave_a_right_engine_alone(engine):
    """At 1e-9; the right one is every law whose variant is tried here, on as many tokens."""
    laws = {
        "mask ignored": Law(0.8, mask=Mask("even", lambda prompt, tokens: range(0, V, 2))),
        "allowed-token-ids ignored": Law(0.8, allowed_token_ids=tuple(range(V - 1))),
    }
    cuts = Law(0.8, 8, min_p=0.02) if "top-k" in engine else Law(0.8, None, 0.8, 0.02)
    law = laws.get(engine, cuts)
    rng = np.random.default_rng(3)
    sums, n = None, 0
    while n < 3000:
        logits = (2 * rng.normal(size=(100, V))).astype(np.float32)
        p = law.after(logits, (1,), [0] * 100)
        sampled = p if engine == "right" else NAMED[engine].rows(law, logits, (1,), [0] * 100)
        tokens = [int(rng.choice(V, p=row / row.sum())) for row in sampled]
        bets = variant_bets(variant_ratios(law, p, logits, (1,), tokens), n)
        sums = bets if sums is None else sums + bets
        n += 100
    test = bet_test(sums, alpha=1e-9)
    assert test.rejected == (engine != "right")
    if engine != "right":
        assert sums.best().startswith(engine)


def test_bets_end_at_a_number_of_tokens_inside_a_request():
    law, logits = Law(0.8, 3), np.zeros((4, 6), np.float32)
    p = law.after(logits, (0,), (1, 1, 1, 1))
    ratios = variant_ratios(law, p, logits, (0,), (1, 1, 1, 1))
    assert variant_bets(ratios, VARIANT_TOKENS - 3).n == 3
    assert variant_bets(ratios, VARIANT_TOKENS) is None


def test_what_a_kind_of_request_ignores_is_a_variant_where_others_do_not():
    alone = "temperature ignored in requests that ask for nothing else"
    warm, cut = Law(0.5), Law(0.5, 3)

    def words(*laws):
        return {one.words for one in explaining_variants(laws)}

    assert alone not in words(warm)  # "temperature ignored" says it
    assert {alone, "temperature ignored"} <= words(warm, cut)
    assert alone not in words(cut, Law(0.0))  # greedy requests go another way
    assert words(cut) > {"temperature and cuts ignored", "top-k ignored"}
    assert "temperature and cuts ignored" not in words(warm)
    assert "penalties ignored" in words(Law(presence_penalty=1.0, frequency_penalty=1.0))
    assert "penalties ignored" not in words(Law(presence_penalty=1.0))


@pytest.mark.distribution
@pytest.mark.parametrize("ignores", [False, True])
def test_one_kind_of_request_in_a_mixed_log_is_bet_on(ignores):
    rng = np.random.default_rng(7)
    laws = [Law(0.5), Law(0.5, 4), Law(0.0)]
    sums, n = None, 0
    for i in range(60):
        law = laws[i % 3]
        logits = (2 * rng.normal(size=(20, V))).astype(np.float32)
        p = law.after(logits, (1,), [0] * 20)
        sampled = Law().after(logits, (1,), [0] * 20) if ignores and law == laws[0] else p
        tokens = [int(rng.choice(V, p=row / row.sum())) for row in sampled]
        bets = variant_bets(variant_ratios(law, p, logits, (1,), tokens), n)
        sums = bets if sums is None else sums + bets
        n += 20
    assert bet_test(sums, alpha=1e-9).rejected == ignores
    if ignores:
        assert sums.best().startswith("temperature ignored in requests that ask for nothing else")


def test_the_page_says_how_many_ways_are_bet_on():
    page = (Path(__file__).parents[3] / "docs/how-to/served/audit.md").read_text(encoding="utf-8")
    assert f"{len(LOG_VARIANTS)} in all" in " ".join(page.split())
