"""Two verdicts on acceptance: lossy is a fault of losslessness, another rule is not."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.kernel_trials import shares, trial

import simverify
from simverify.battery.battery import callable_shares, context_shares, kernel_shares, pit_shares
from simverify.comparing import model as compare_model
from simverify.comparing.sampled import (
    GenerationLengths,
    StreamedTokens,
    acceptance_detectable,
    judge_contexts,
    judge_pits,
    sampled_check,
)
from simverify.faults.base import tempered
from simverify.faults.catalogue import get_fault
from simverify.models.base import MarkovModel, compact, toy
from simverify.models.markov import markov
from simverify.simulators.exact.laws import laws_by_tree, markov_rows, tokens_after_calls
from simverify.simulators.run import model_tables, simulate
from simverify.verifiers import VERIFIERS

BLOCKS = 200_000


def first_calls(run, rule):
    slots = (run.gamma + 1, len(run.rows), run.model.vocab_size)
    return simulate(run.tables, rule, run.gamma, BLOCKS, seed=2, threads=1, transition_shape=slots)


@pytest.fixture(scope="module")
def token():
    return trial(compact(), "token", alpha=ALPHA / 4, detect=0.05)


@pytest.mark.distribution
def test_acceptance_of_its_own_passes_both(token):
    for rule in ("token", "block", "greedy", "match"):
        run = trial(compact(), rule, alpha=ALPHA / 4, detect=0.05)
        check = sampled_check(run, BLOCKS, first_calls(run, rule))
        assert check.findings == ()
        assert check.lossless.verdict(0.05) == check.acceptance.verdict(0.05) == "PASS"


@pytest.mark.parametrize("other", ["block", "match"])
def test_another_lossless_rule_is_not_the_declared_one(token, other):
    check = sampled_check(token, BLOCKS, first_calls(token, other))
    assert check.lossless.verdict(0.05) == "PASS"
    assert check.acceptance.verdict(0.05) == "FAIL"
    (finding,) = check.acceptance.findings
    assert ("above" if other == "block" else "below") in finding


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_more_than_block_verification_is_lossy(rule):
    """Greedy's first call, which only its carried state makes good."""
    run = trial(compact(), rule, alpha=ALPHA, detect=0.05)
    check = sampled_check(run, BLOCKS, first_calls(run, "greedy"))
    assert check.lossless.verdict(0.05) == "FAIL"
    assert check.lossless.findings[0].startswith("lossy: Pr(tau >= ")
    assert "block verification" in check.lossless.findings[0]
    assert check.acceptance.verdict(0.05) == "FAIL"


def test_more_than_the_coupling_bound_is_lossy():
    run = trial(compact(), "greedy", alpha=ALPHA, detect=0.05)
    counts = first_calls(run, "greedy")
    accepted = counts.accepted.copy()
    accepted[0] -= 5000
    accepted[3] += 5000
    check = sampled_check(run, 50_000, replace(counts, accepted=accepted))
    assert "coupling bound" in check.lossless.findings[0]
    assert sampled_check(run, 50_000, counts).lossless.findings == ()


def test_the_power_of_the_acceptance_test_is_the_promised_one(token):
    shares = kernel_shares(token.alpha, calls=False)
    found = acceptance_detectable(token, BLOCKS, shares["acceptance"])
    assert 0.003 < found < 0.03
    assert acceptance_detectable(token, 4 * BLOCKS, shares["acceptance"]) < found
    # A level that always or never holds has no room for a shift of that size.
    sure = replace(token.curve, lower=np.array([1, 1, 0.0]), upper=np.array([1, 1, 0.0]))
    certain = replace(token, curve=sure)
    assert acceptance_detectable(certain, 10**8, 1e-9) < 1e-6
    rare = replace(token.curve, lower=np.full(3, 1e-9), upper=np.full(3, 1e-9))
    assert acceptance_detectable(replace(token, curve=rare), BLOCKS, 1e-9) < 1e-3


# Tokens after calls.


def generations(rule, model, gamma, *, eos=None, calls=4, run_eos=None):
    """``calls`` calls under ``run_eos``, and the exact lengths under ``eos``."""
    run = trial(model, rule, gamma=gamma, alpha=ALPHA, detect=0.05)
    counts = simulate(run.tables, rule, gamma, 100_000, seed=4, threads=1, calls=calls, eos=run_eos)
    laws = laws_by_tree(VERIFIERS[rule], markov_rows(model), gamma)
    exact = tokens_after_calls(laws, gamma, calls, eos=eos)
    return run, GenerationLengths(counts, exact, eos is not None)


@pytest.mark.distribution
@pytest.mark.parametrize("eos", [None, 0])
@pytest.mark.parametrize("rule", ["token", "block", "greedy"])
def test_tokens_after_calls_are_judged(rule, eos):
    run, right = generations(rule, compact(), 2, eos=eos, run_eos=eos)
    check = sampled_check(run, BLOCKS, first_calls(run, rule), right)
    lengths = check.acceptance.tests[-1]
    assert (lengths.name, lengths.rejected) == ("tokens after calls", False)
    assert check.acceptance.findings == ()
    # Negative control: after the last call more tokens than there are, by what is promised.
    assert lengths.min_detectable < 0.1
    exact = [*right.exact[:-1], right.exact[-1] + Fraction(1.5 * lengths.min_detectable)]
    wrong = sampled_check(run, BLOCKS, first_calls(run, rule), replace(right, exact=exact))
    assert wrong.acceptance.verdict(0.05) == "FAIL"
    assert "tokens after 4 calls" in wrong.acceptance.findings[0]
    assert wrong.lossless.findings == ()


def test_an_end_that_is_not_heeded_fails():
    run, ignored = generations("token", toy(), 2, eos=0, run_eos=None)
    check = sampled_check(run, BLOCKS, first_calls(run, "token"), ignored)
    assert check.acceptance.verdict(0.05) == "FAIL"
    assert "above their exact mean" in check.acceptance.findings[0]


def test_without_exact_values_nothing_is_judged():
    run, right = generations("token", toy(), 2)
    unknown = replace(right, exact=None)
    check = sampled_check(run, BLOCKS, first_calls(run, "token"), unknown)
    assert [test.name for test in check.acceptance.tests] == ["acceptance"]


# In the document.


def test_wrong_lengths_fail_a_comparison_and_not_its_losslessness(monkeypatch):
    def run():
        (row,) = simverify.compare(
            ["toy"], ["block"], gamma=2, calls=3, blocks=300_000, threads=1
        ).results
        return row

    good = run()
    assert good.verdict == good.lossless.verdict == good.acceptance.verdict == "PASS"
    assert [test.name for test in good.acceptance.tests] == ["acceptance", "tokens after calls"]
    monkeypatch.setattr(
        compare_model,
        "tokens_after_calls",
        lambda *args, **options: [x + 1 for x in tokens_after_calls(*args, **options)],
    )
    bad = run()
    assert (bad.verdict, bad.lossless.verdict, bad.acceptance.verdict) == ("FAIL", "PASS", "FAIL")
    assert bad.acceptance.words == "not the declared rule"
    assert not bad.lossless.findings


def test_a_declared_rule_that_is_another_is_no_fault_of_losslessness(monkeypatch):
    """The token kernel run under the name of block: lossless, and not block."""
    monkeypatch.setattr(
        "simverify.simulators.run.simulate",
        lambda tables, rule, *args, **options: simulate(tables, "token", *args, **options),
    )
    (row,) = simverify.compare(["compact"], ["block"], gamma=3, blocks=200_000, threads=1).results
    assert (row.lossless.verdict, row.acceptance.verdict, row.verdict) == ("PASS", "FAIL", "FAIL")
    assert "below the rule's exact distribution" in row.acceptance.findings[0]


def test_all_shares_together_are_alpha():
    for calls in (False, True):
        shares = kernel_shares(1e-6, calls=calls)
        assert 0.99e-6 < math.fsum(shares.values()) <= 1e-6
        parts = [pit_shares(shares["output"], cells=cells) for cells in (False, True)]
        for split in (context_shares(shares["output"]), *parts):
            assert 0.99 * shares["output"] < math.fsum(split.values()) <= shares["output"]
    shares = kernel_shares(1e-6, calls=True)
    assert (shares["ratios"], shares["scores"]) == pytest.approx((0.5e-6, 0.25e-6))
    shares = callable_shares(1e-6)
    assert 0.99e-6 < math.fsum(shares.values()) <= 1e-6
    assert (shares["gate"] + shares["ratios"], shares["scores"]) == pytest.approx((5e-7, 2.5e-7))


def test_no_test_spends_more_than_its_share():
    run = simverify.compare(
        ["compact", "markov-70"], ["token", "greedy"], gamma=3, blocks=2000, calls=2, threads=1
    )
    spent = [
        sum(test.alpha for test in row.lossless.tests + row.acceptance.tests) for row in run.results
    ]
    assert max(spent) <= run.alpha / len(run.results) * (1 + 1e-9)


# The battery on compiled kernels: mutants named and localised, right rules refute faults.


KERNEL_BATTERY_BLOCKS = 150_000


@pytest.fixture(scope="module")
def honest():
    run = trial(markov(8), "token", alpha=ALPHA, detect=0.02)
    return run, run.run(KERNEL_BATTERY_BLOCKS)


def redrawn(run, counts, law):
    """Tokens of every slot drawn anew from ``law(slot, context)``, in the same contexts."""
    rng = np.random.default_rng(9)
    tables = np.zeros_like(counts.transitions)
    for slot, table in enumerate(counts.transitions):
        for context, total in enumerate(table.sum(axis=1)):
            if total:
                row = np.maximum(law(slot, context), 0)
                tables[slot, context] = rng.multinomial(total, row / row.sum())
    return replace(counts, transitions=tables)


def of_fault(run, name):
    """The law of a fault in a call from the empty prefix, whose context is the last token."""
    p, q, law = run.rows, run.draft_rows, get_fault(name).law

    def row(slot, context):
        if slot == 0:
            return law(p[-1:], q[-1:], ())
        drafts = 2 if slot < run.gamma else 1
        return law(np.array([p[-1], p[context]]), np.array([q[-1], q[context]])[:drafts], (0,))

    return row


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("target-residual", "residual"),
        ("inverted-ratio", "accept"),
        ("scaled-acceptance(1.1)", "accept"),
        ("draft-leak(1)", "accept"),
        ("reused-uniform", "random stream"),
        ("draft-temperature(0.9)", "draft contract"),
        ("residual-row-zero", "row plumbing"),
        ("target-temperature(0.9)", "row plumbing"),
    ],
)
def test_a_mutant_is_named_and_localised(honest, name, part):
    run, counts = honest
    judged = judge_contexts(run, redrawn(run, counts, of_fault(run, name)), shares(ALPHA))
    assert judged.verdict(0.02) == "FAIL"
    assert (judged.named.best.fault, judged.named.best.strength) == (name, 1.0)
    assert (judged.named.fits, judged.located.part) == (True, part)


def test_a_wrong_bonus_is_localised_though_no_context_holds_its_row(honest):
    run, counts = honest

    def law(slot, context):
        row = run.rows[context]
        return run.rows[(context + 1) % 8] if slot == run.gamma else row

    judged = judge_contexts(run, redrawn(run, counts, law), shares(ALPHA))
    assert (judged.located.part, judged.located.position) == ("bonus", run.gamma)


def test_a_law_of_no_fault_is_not_localised(honest):
    run, counts = honest
    judged = judge_contexts(
        run, redrawn(run, counts, lambda slot, x: np.roll(run.rows[x], 1)), shares(ALPHA)
    )
    assert judged.findings
    assert judged.located.part is None
    assert not judged.named.fits


def heated(run):
    """The trial whose kernel follows the target at temperature .9."""
    model = run.model
    hot = MarkovModel(
        "hot", tempered(model.target_start, 0.9),
        np.array([tempered(row, 0.9) for row in model.target_rows]),
        model.draft_start, model.draft_rows,
    )  # fmt: skip
    return replace(run, model=hot, tables=model_tables(hot))


@pytest.mark.distribution
@pytest.mark.parametrize("rule", ["token", "block", "match", "greedy"])
def test_a_right_kernel_refutes_faults_and_is_localised_nowhere(rule):
    run = trial(compact(), rule, alpha=ALPHA / 2, detect=0.02)
    check = sampled_check(run, KERNEL_BATTERY_BLOCKS, run.first_calls(KERNEL_BATTERY_BLOCKS))
    assert (check.findings, check.lossless.located) == ((), None)
    assert check.lossless.named.best is None
    refuted = {fault.fault: fault.strength for fault in check.lossless.named.refuted}
    assert len(refuted) >= 8
    assert refuted["inverted-ratio"] <= 1
    assert check.lossless.verdict(0.02) == "PASS"
    # Negative control: the kernel on a target at another temperature.
    judged = judge_contexts(run, heated(run).run(KERNEL_BATTERY_BLOCKS), shares(ALPHA / 2))
    assert judged.verdict(0.02) == "FAIL"


def test_a_kernel_that_drafts_at_another_temperature():
    """The compiled kernel itself, drafting from rows it does not judge with."""
    run = trial(compact(), "token", alpha=ALPHA, detect=0.02)
    model = run.model
    hot = MarkovModel(
        "hot", model.target_start, model.target_rows, tempered(model.draft_start, 0.9),
        np.array([tempered(row, 0.9) for row in model.draft_rows]),
    )  # fmt: skip
    drafted = model_tables(hot)
    mixed = run.tables._replace(alias_cut=drafted.alias_cut, alias_token=drafted.alias_token)
    shape = (run.positions, len(run.rows), 3)
    counts = simulate(mixed, "token", 3, 400_000, seed=3, threads=1, transition_shape=shape)
    judged = judge_contexts(run, counts, shares(ALPHA))
    assert judged.named.best.fault == "draft-temperature(0.9)"
    assert judged.located.part == "draft contract"


def test_a_rule_with_state_is_tested_by_position_and_never_named():
    run = trial(compact(), "greedy", alpha=ALPHA, detect=0.02)
    wrong = heated(run)
    judged = judge_contexts(
        run,
        wrong.run(KERNEL_BATTERY_BLOCKS),
        shares(ALPHA),
        wrong.first_calls(KERNEL_BATTERY_BLOCKS),
    )
    assert judged.findings
    assert judged.named.best is None
    assert judged.located.part is None


def test_pits_localise_the_bonus_slot_alone():
    """Where contexts are too many no context holds the bonus's row, but slots have tests."""
    run = trial(markov(2100), "token", gamma=2, alpha=ALPHA, detect=0.05)
    counts = run.run(100_000)
    split = shares(ALPHA)
    first = StreamedTokens.of(run, 2000)
    right = judge_pits(run, counts, split, first)
    assert (right.findings, right.located, right.named.best) == ((), None, None)
    for slots, part in (([2], "bonus"), ([0, 1, 2], None)):
        pits = counts.pits.copy()
        # A third of the PITs of the lower half is moved into the upper half.
        moved = pits[:, slots, :2048] // 3
        pits[:, slots, :2048] -= moved
        pits[:, slots, 2048:] += moved
        wrong = judge_pits(run, replace(counts, pits=pits), split, first)
        assert wrong.findings
        assert (wrong.located.part, wrong.located.position) == (part, slots[0])


def test_no_more_than_the_share_is_spent(honest):
    run, counts = honest
    split = shares(ALPHA)
    judged = judge_contexts(run, counts, split)
    parts = {"ratios": 0.0, "scores": 0.0, "output": 0.0}
    for test in judged.tests:
        kind = test.name.split()[0]
        parts[{"named": "ratios", "score": "scores"}.get(kind, "output")] += test.alpha
    assert parts["ratios"] == pytest.approx(ALPHA / 2)
    assert all(spent <= split[name] * (1 + 1e-12) for name, spent in parts.items())
