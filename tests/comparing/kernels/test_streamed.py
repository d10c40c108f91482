"""The battery where contexts do not repeat: mutants are named, a right rule refutes faults."""

from dataclasses import replace

import numpy as np
import pytest
from numba import njit
from support.false_alarms import ALPHA
from support.kernel_trials import shares, trial

import simverify
from simverify.battery.judgement import rejections
from simverify.battery.shares import pit_shares
from simverify.comparing.kernels import kernel as trial_module
from simverify.comparing.kernels.pits import judge_pits
from simverify.comparing.kernels.streamed import DESCENDING, Streamed
from simverify.models.corpus import corpus_text
from simverify.models.markov import markov
from simverify.models.ngram import train
from simverify.simulators.kernels.tables import access
from simverify.simulators.streamed import Rows, Sample, sample_features

GAMMA, CALLS = 3, 40_000
FEWER = CALLS // 2
"""Enough for mutants that are gross; an acceptance scaled by 1.1 is not found with so few."""


@njit
def starts(tables, uniforms):
    return np.array([access.start(tables, u) for u in uniforms])


@njit
def after(tables, states, tokens):
    out = np.empty_like(states)
    for i in range(len(states)):
        out[i] = access.advance(tables, states[i], tokens[i])
    return out


def drawn(rng, rows):
    cdf = np.cumsum(np.maximum(rows, 0), axis=1)
    return (cdf <= rng.random((len(rows), 1)) * cdf[:, -1:]).sum(axis=1)


def excess(p, q):
    return np.maximum(p - q, 0)


def emitted(
    run, *, calls=CALLS, scale=1.0, residual=excess, inverted=False, bonus_row=0, warmth=1.0
):
    """The token rule in numpy, or a mutant of it, as the sample of a run.

    ``calls``: so many, and as many tokens; ``scale``: of the acceptance; ``residual``: law of the
    corrected token; ``bonus_row``: how many rows too early the bonus is drawn; ``warmth``: power
    of the target row sampled.
    """
    rng = np.random.default_rng(11)
    rows, states = Rows.of(run.model, run.tables), starts(run.tables, rng.random(calls))
    alive, early = np.ones(calls, bool), None
    kept = {name: np.full((calls, GAMMA + 1), -1) for name in ("state", "token")}
    for slot in range(GAMMA + 1):
        p, q = rows.lookup(states)
        p = p**warmth / (p**warmth).sum(axis=1, keepdims=True)
        if slot < GAMMA:
            token = drawn(rng, q)
            ratio = p[np.arange(calls), token] / q[np.arange(calls), token]
            accepted = rng.random(calls) < (1 / ratio if inverted else scale * ratio)
            corrected = drawn(rng, residual(p, q))
            token = np.where(accepted, token, corrected)
        else:
            token = drawn(rng, early if bonus_row else p)
            accepted = np.zeros(calls, bool)
        kept["state"][alive, slot] = states[alive]
        kept["token"][alive, slot] = token[alive]
        alive &= accepted
        states, early = after(run.tables, states, token), p
    call, position = np.nonzero(kept["token"] >= 0)
    n = calls  # so many tokens are sure
    call, position = call[:n], position[:n]
    return Sample(
        kept["state"][call, position], kept["token"][call, position], position, rng.random(n)
    )


def streamed(run, tokens):
    rows, judged = Rows.of(run.model, run.tables), tokens.positions < GAMMA
    found = sample_features(tokens, rows, judged, 1)
    return Streamed(tokens, judged, found, found.ratios, rows)


@pytest.fixture(scope="module")
def run():
    return trial(train(corpus_text()[:100_000]), "token", gamma=GAMMA, alpha=ALPHA, detect=0.05)


@pytest.fixture(scope="module")
def counts(run):
    """The honest kernel's: what is found, the streamed tokens find."""
    return run.run(20_000)


def target(p, q):
    return p


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_right_rule_passes_and_refutes_faults(run, counts):
    judged = judge_pits(run, counts, shares(ALPHA), streamed(run, emitted(run)))
    assert (judged.findings, judged.located) == ((), None)
    refuted = {fault.fault: fault.strength for fault in judged.named.refuted}
    assert {"target-residual", "inverted-ratio", "reused-uniform", "draft-leak(1)"} <= set(refuted)
    assert refuted["inverted-ratio"] <= 0.1
    assert judged.named.best is None
    assert judged.verdict(1.0) == "PASS"


@pytest.mark.parametrize(
    ("mutation", "fault", "part"),
    [
        ({"calls": FEWER, "residual": target}, {"target-residual"}, "residual"),
        ({"calls": FEWER, "inverted": True}, {"inverted-ratio"}, "accept"),
        ({"scale": 1.1}, {"scaled-acceptance(1.1)", "lenient(0.9)"}, "accept"),
    ],
)
@pytest.mark.thorough
def test_a_mutant_is_found_named_and_localised(run, counts, mutation, fault, part):
    """Negative controls, by the streamed tokens alone: the PITs beside are the right rule's."""
    judged = judge_pits(run, counts, shares(ALPHA), streamed(run, emitted(run, **mutation)))
    assert judged.verdict(1.0) == "FAIL"
    assert any(finding.startswith("named faults") for finding in judged.findings)
    assert judged.named.best.fault in fault
    assert (judged.named.fits, judged.located.part) == (True, part)
    assert not fault & {r.fault for r in judged.named.refuted if r.strength == 0.01}


@pytest.mark.parametrize(
    ("mutation", "sees"),
    [
        ({"calls": FEWER, "bonus_row": 1}, {"score -log p"}),
        ({"warmth": 1.1}, {"score -log p", "named faults"}),
    ],
)
@pytest.mark.thorough
def test_other_mutants_are_found(run, mutation, sees):
    split = shares(ALPHA)
    first = streamed(run, emitted(run, **mutation))
    rejected = {t.name for t in first.tests(split | pit_shares(split["output"], cells=False))
                if t.rejected}  # fmt: skip
    assert sees <= rejected


def test_a_law_of_no_fault_is_not_explained(run, counts):
    """A wrong bonus: some fault fits best, and explains too little to be named."""
    judged = judge_pits(
        run, counts, shares(ALPHA), streamed(run, emitted(run, calls=FEWER, bonus_row=1))
    )
    assert judged.findings
    assert not judged.named.fits
    assert judged.located.part is None


@pytest.mark.distribution
@pytest.mark.thorough
def test_pairs_reach_from_one_call_to_the_next(run):
    """The first of a pair within a call was kept, so that such pairs alone are no fair sample."""
    tokens = emitted(run)
    rows, judged = Rows.of(run.model, run.tables), tokens.positions < GAMMA
    found = streamed(run, tokens).features
    assert found.pairs.n == CALLS - 1 - (CALLS - 1) // 4096  # each batch's first has no partner
    names = {test.name: test for test in streamed(run, tokens).tests(spent())}
    assert not names["pairs, 8 x 8 cells"].rejected
    # Negative control: what comes next repeats the place of what came.
    twin = replace(tokens, **{
        name: np.repeat(getattr(tokens, name)[::2], 2)
        for name in ("states", "tokens", "positions", "uniforms")
    })  # fmt: skip
    repeated = replace(streamed(run, twin), features=sample_features(twin, rows, judged, 1)).tests(
        spent()
    )
    pairs = [test for test in repeated if test.name.startswith("pairs")]
    assert [test.rejected for test in pairs] == [True, True]


def spent():
    split = shares(ALPHA)
    return split | pit_shares(split["output"], cells=False)


def test_each_part_spends_its_share(run):
    split = spent()
    parts = {"ratios": 0.0, "scores": 0.0, "descending": 0.0, "pairs": 0.0}
    kinds = {"named": "ratios", "score": "scores", "PIT": "descending", "pairs,": "pairs"}
    for test in Streamed.of(run, 20_000).tests(split):
        parts[kinds[test.name.split()[0]]] += test.alpha
    assert parts == pytest.approx({name: split[name] for name in parts})
    assert split["ratios"] == pytest.approx(ALPHA / 2)


def test_faults_that_emit_nothing_but_the_target_are_not_left_standing():
    """Draft and target are the same: hardly a fault does harm."""
    same = trial(markov(2100, distance=0.0), "token", gamma=2, detect=0.5)
    named = Streamed.of(same, 500).named(diagnose=False)
    standing = {*named.not_refuted, *(fault.fault for fault in named.refuted)}
    assert "target-temperature(0.9)" in standing
    assert not standing & {"target-residual", "draft-leak(1)", "scaled-acceptance(1.1)"}


def test_how_many_tokens_are_streamed(run, monkeypatch):
    """As many as are sure, up to a number that no run's size changes."""
    assert len(run.sample(100).tokens) == 100
    greedy = trial(markov(3000), "greedy", gamma=2, detect=0.5)
    assert len(greedy.sample(100).tokens) == 400
    monkeypatch.setattr(trial_module, "STREAMED", 50)
    assert [len(x.sample(1000).tokens) for x in (run, greedy)] == [50, 100]
    monkeypatch.setattr(trial_module, "MAX_STREAMED_ENTRIES", 30 * 3000)
    assert len(greedy.sample(1000).tokens) == 30


@pytest.mark.distribution
@pytest.mark.thorough
def test_a_rule_with_state_has_directions_and_is_told_by_its_first_calls(run):
    greedy = trial(run.model, "greedy", gamma=GAMMA, alpha=ALPHA, detect=0.05)
    first = Streamed.of(greedy, 20_000)
    assert first.judged.all()
    assert first.features.n == 2 * trial_module.STREAMED < 20_000 * 2 * GAMMA
    assert first.calls.n == 20_000
    judged = judge_pits(greedy, greedy.run(20_000), shares(ALPHA), first)
    assert judged.findings == ()
    assert "inverted-ratio" in {fault.fault for fault in judged.named.refuted}
    # Negative control: the directions see tokens of a mutant, which is not named.
    wrong = streamed(run, emitted(run, residual=target))
    judged = judge_pits(greedy, greedy.run(20_000), shares(ALPHA), wrong)
    assert any(finding.startswith("named faults") for finding in judged.findings)
    assert (judged.named.best, judged.located.part) == (None, None)


@pytest.mark.distribution
def test_a_large_vocabulary_in_a_comparison():
    result = simverify.compare(
        ["markov-3000"], ["token"], gamma=2, blocks=4000, alpha=ALPHA, threads=1
    ).results[0].lossless  # fmt: skip
    names = [test.name for test in result.tests]
    assert {"named faults", "score q > p", DESCENDING, "pairs, 8 x 8 cells"} <= set(names)
    assert not result.findings
    assert {"target-residual", "inverted-ratio"} <= {f.fault for f in result.faults.refuted}
    assert result.beside[-1].deviation.startswith("mean one-token TV of the first 4,000 tokens")


def test_the_names_of_what_fails_are_kinds(run):
    first = streamed(run, emitted(run, calls=FEWER, inverted=True))
    kinds = [finding.split()[0].rstrip(",") for finding in rejections(first.tests(spent()))]
    assert kinds.count("score") == 1
    assert "named" in kinds
