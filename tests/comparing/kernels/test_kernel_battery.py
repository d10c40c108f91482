"""The battery on compiled kernels: mutants named and localised, right rules refute faults."""

from dataclasses import replace

import numpy as np
import pytest
from support.false_alarms import ALPHA
from support.kernel_trials import shares, trial

from simverify.comparing.kernels.check import sampled_check
from simverify.comparing.kernels.contexts import judge_contexts
from simverify.comparing.kernels.pits import judge_pits
from simverify.comparing.kernels.streamed import Streamed
from simverify.faults.base import tempered
from simverify.faults.catalogue import get_fault
from simverify.models.base import MarkovModel
from simverify.models.markov import markov
from simverify.models.small import compact
from simverify.simulators.run import simulate
from simverify.simulators.tables import model_tables

BLOCKS = 150_000


@pytest.fixture(scope="module")
def honest():
    run = trial(markov(8), "token", alpha=ALPHA, detect=0.02)
    return run, run.run(BLOCKS)


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
    check = sampled_check(run, BLOCKS, run.first_calls(BLOCKS))
    assert (check.findings, check.lossless.located) == ((), None)
    assert check.lossless.named.best is None
    refuted = {fault.fault: fault.strength for fault in check.lossless.named.refuted}
    assert len(refuted) >= 8
    assert refuted["inverted-ratio"] <= 1
    assert check.lossless.verdict(0.02) == "PASS"
    # Negative control: the kernel on a target at another temperature.
    judged = judge_contexts(run, heated(run).run(BLOCKS), shares(ALPHA / 2))
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
    judged = judge_contexts(run, wrong.run(BLOCKS), shares(ALPHA), wrong.first_calls(BLOCKS))
    assert judged.findings
    assert judged.named.best is None
    assert judged.located.part is None


def test_pits_localise_the_bonus_slot_alone():
    """Where contexts are too many no context holds the bonus's row, but slots have tests."""
    run = trial(markov(2100), "token", gamma=2, alpha=ALPHA, detect=0.05)
    counts = run.run(100_000)
    split = shares(ALPHA)
    first = Streamed.of(run, 2000)
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
