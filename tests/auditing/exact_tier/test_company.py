"""Requests that differ in one batch: each fault is caught in its company, and the twin passes."""

import re

import numpy as np
import pytest

from simverify.auditing.mixed_batches import (
    NeighbourError,
    embed_in_batch,
    find_neighbour_dependence,
    make_batch,
    tokens_per_request,
    try_mixed_batches,
)
from simverify.auditing.run import audit
from simverify.auditing.settings import (
    BATCH_MIXES,
    BATCH_SIZE,
    AuditSettings,
    batch_slot_of,
    batch_slots,
    parse_batch_mixes,
)
from simverify.auditing.subject import Subject, load_subject
from simverify.auditing.verdict import audit_findings
from simverify.engines.adapt import Emitted
from simverify.errors import UsageError
from simverify.faults import MIXED_BATCH_RULES
from simverify.faults.calls import MIXED_BATCH_FAULTS, judge_mixed_batch

SMALL = AuditSettings(gamma=2, vocab=3)
SMALLEST = AuditSettings(gamma=1, vocab=3)
"""One instance a place: a fault of some company shows on it as well as on three."""
EXACT = [kind for kind in BATCH_MIXES if kind != "seeds"]


def tried(rule, kinds, settings=SMALL):
    return try_mixed_batches(Subject("code", rule, "verify"), kinds, settings, lambda _line: None)


@pytest.mark.parametrize("name", MIXED_BATCH_FAULTS)
@pytest.mark.thorough
def test_every_fault_is_caught_in_its_company(name):
    fault = MIXED_BATCH_FAULTS[name]
    assert tried(fault.rule, parse_batch_mixes(fault.kinds), SMALLEST).caught


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.thorough
def test_the_right_twin_passes(kind):
    trial = tried(judge_mixed_batch, (kind,))
    assert not trial.caught
    assert not trial.sampled
    assert all(x.tier.judged and not x.tier.skipped for x in trial.tried)


def test_seeds_of_the_right_twin_are_its_own():
    assert find_neighbour_dependence(Subject("code", judge_mixed_batch, "verify"), 0) == ""


@pytest.mark.slow
def test_the_right_twin_passes_in_all_company():
    run = audit(load_subject("in-company"), settings=SMALL)
    assert (run.verdict, run.company) == ("PASS", "all")


def test_one_stream_for_two_seeds_is_seen():
    """Requests that are right each by itself, and tied: the sampled tier's to find."""

    def halved(batch, rng):
        seeds = None if batch.seeds is None else batch.seeds % 2
        return judge_mixed_batch(
            type(batch)(batch.draft_tokens, batch.target_probs, batch.draft_probs,
                        batch.draft_len, greedy=batch.greedy, seeds=seeds), rng,
        )  # fmt: skip

    (sampled,) = tried(halved, ("seeds",)).sampled
    assert sampled.verdict == "FAIL"


def own_alone(slip):
    """The twin for every request but one; where that one stands, something is wrong."""

    def rule(batch, rng):
        rows = judge_mixed_batch(batch, rng)
        if not batch.greedy[slip]:
            return rows  # where it is right too
        wrong = judge_mixed_batch(batch, rng, "greedy-drawn")
        return [wrong[b] if b == slip else rows[b] for b in range(len(rows))]

    return rule


@pytest.mark.thorough
def test_the_place_that_fails_is_named(unsearched, unprobed, unnamed):
    run = audit(Subject("code", own_alone(3), "verify"),
                settings=AuditSettings(gamma=1, vocab=3, batch_mix="greedy"))  # fmt: skip
    assert run.verdict == "FAIL"
    assert "request 4 of 4" in str(run.findings[0])
    assert str(run.findings[0]).startswith("greedy, request 1 of 4: ")
    assert str(run.findings[-1]).startswith("greedy (greedy itself), request 4 of 4: ")


def test_all_places_are_tried_and_each_that_fails_is_told():
    def rule(batch, rng):
        rows = judge_mixed_batch(batch, rng)
        if batch.draft_probs is None:
            rows[3][-1] = (rows[3][-1] + 1) % batch.vocab
        return rows

    trial = tried(rule, ("padded", "one-hot"), AuditSettings(gamma=1, vocab=3))
    assert [x.place for x in trial.tried] == [*batch_slots("padded"), *batch_slots("one-hot")]
    # Seen as a neighbour of the first two, and as the last one itself.
    told = [x.place for x in trial.tried if audit_findings(x.tier, ())]
    assert told == [*batch_slots("one-hot")]
    assert trial.sampled == ()


def in_the_dark(rule):
    """The same rule on a generator of its own, whose draws no path is followed through."""
    return lambda batch, rng: rule(batch, np.random.default_rng([*rng.bytes(8)]))


@pytest.mark.thorough
def test_what_cannot_be_followed_is_sampled_at_every_place():
    settings = AuditSettings(gamma=1, vocab=3, batch_mix="padded", detect=0.2)
    run = audit(Subject("code", in_the_dark(judge_mixed_batch), "verify"), settings=settings)
    assert (run.verdict, run.tier) == ("PASS", "sampled")
    assert run.not_enumerable.startswith("padded, request 1 of 4: cannot follow bytes()")
    places = [one.name.partition(":")[0] for one in run.sampled.instances]
    assert places == [f"padded, request {place} of 4" for place in (1, 2, 4)]
    # The neighbours of the one that is wrong are certain, and it is not seen by them.
    slipped = MIXED_BATCH_FAULTS["padding-drawn"].rule
    settings = AuditSettings(gamma=1, vocab=3, batch_mix="unmasked", detect=0.2)
    run = audit(Subject("code", in_the_dark(slipped), "verify"), settings=settings)
    assert (run.verdict, run.tier) == ("FAIL", "sampled")
    assert str(run.findings[0]).startswith("unmasked, request 1 of 4")


@pytest.mark.parametrize("kind", EXACT)
def test_the_request_under_test_keeps_its_rows(kind):
    rng = np.random.default_rng(5)
    p, q, x = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 2), np.array([2, 0])
    for place in batch_slots(kind):
        assert batch_slot_of(f"any among others: {place.name}") == place
        batch, due = make_batch(place, p, q, x)
        b = place.request
        assert batch.ends[b] == 2
        assert batch.draft_tokens[b, :2].tolist() == [2, 0]
        assert [i for i, row in enumerate(due) if row is None] == [b]
        if not place.greedy:
            assert (batch.target_probs[b, :3, :3] == p).all()
        assert (batch.draft_probs is None) == (kind == "one-hot")
        assert all(row is None or len(row) <= batch.ends[i] + 1 for i, row in enumerate(due))


def test_a_neighbour_that_is_wrong_is_an_error_that_names_it():
    def rule(batch, rng):
        rows = judge_mixed_batch(batch, rng)
        return [rows[0], [0], *rows[2:]]

    verify = embed_in_batch(Subject("code", rule, "verify"), next(batch_slots("padded"))).rule
    p, q = np.full((2, 3), 1 / 3), np.full((1, 3), 1 / 3)
    with pytest.raises(NeighbourError, match="request 2 of 4 emits"):
        verify(p, q, np.array([1]), np.random.default_rng(0))


@pytest.mark.parametrize(
    "name", [name for name, f in MIXED_BATCH_FAULTS.items() if f.kinds != "seeds"]
)
@pytest.mark.thorough(by_day=3)
def test_a_fault_of_the_request_under_test_alone_is_a_deviation(name):
    """Its neighbours are right: what is left is its own law, at whatever place."""
    fault = MIXED_BATCH_FAULTS[name]

    def rule(batch, rng):
        first = batch.target_probs[:, 0, : batch.vocab]
        # Of greedy neighbours the rows are soft too, by half.
        own = int(np.flatnonzero((first.max(axis=1) < 0.9) & ~batch.greedy)[:1].sum())
        if fault.kinds == "greedy":
            own = int(batch.greedy.argmax()) if batch.greedy.sum() == 1 else -1
        out = judge_mixed_batch(batch, rng)
        if own >= 0:
            out[own] = fault.rule(batch, rng)[own]
        return out

    found = tried(rule, (fault.kinds,), SMALLEST).failed
    assert found is not None
    if name == "first-greedy":  # alone among random ones it is wrong where it is not the first
        assert found.place.request > 0
    assert "WrongNeighbour" not in str(found.tier.failure.comparison.findings)


def test_all_forms_of_an_answer_are_read():
    tokens, count = np.array([[1, 2], [0, -1]]), np.array([2, 1])
    for answer in (tokens, [[1, 2], [0]], (tokens, count), Emitted(tokens, count)):
        assert tokens_per_request(answer, 2) == [[1, 2], [0]]
    with pytest.raises(ValueError, match="2 rows of tokens for 4"):
        tokens_per_request(tokens, BATCH_SIZE)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "returned NoneType instead of rows of tokens: return a row for each request"),
        ("ab", "returned str instead of rows of tokens"),
        ({0: [1], 1: [2]}, "returned dict instead of rows of tokens"),
        ([1, 2], "returned int instead of tokens of a request"),
        (["a", "b"], "returned str instead of tokens of a request"),
        (([[1, 2], [0, 1]], np.array([1])), "returned 1 numbers of tokens for 2 requests"),
        (
            ([[1, 2], [0, 1]], np.array([1, -1])),
            "returned -1 for the number of tokens in a row of 2",
        ),
        (([[1, 2], [0, 1]], np.array([1, 3])), "returned 3 for the number of tokens in a row of 2"),
        (([[1, 2], [0, 1]], np.array([1, 0.5])), "returned 0.5 for the number of tokens"),
        (([[1, 2], [0, 1]], np.array(1)), "returned ndarray instead of numbers of tokens"),
    ],
)
def test_what_is_no_answer_is_said_in_a_line(answer, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        tokens_per_request(answer, 2)


def test_sizes_that_hold_no_batch_are_refused():
    for kinds in ("ragged", "all", "seeds,one-hot"):
        with pytest.raises(UsageError, match="the smallest batch has --gamma 1 --vocab 3"):
            AuditSettings(batch_mix=kinds, gamma=1, vocab=2)
        for gamma, vocab in ((1, 3), (2, 2)):
            AuditSettings(batch_mix=kinds, gamma=gamma, vocab=vocab)
    AuditSettings(batch_mix="seeds", gamma=1, vocab=2)


def test_kinds_are_named():
    assert parse_batch_mixes("all") == tuple(BATCH_MIXES)
    assert parse_batch_mixes("seeds, ragged") == ("ragged", "seeds")
    for wrong in ("raged", ""):
        with pytest.raises(UsageError):
            parse_batch_mixes(wrong)
    with pytest.raises(UsageError, match="--batch-mix makes its own batches"):
        AuditSettings(batch_mix="all", batch=4)


def test_the_right_twin_is_one_of_the_catalogue():
    assert set(MIXED_BATCH_RULES) - set(MIXED_BATCH_FAULTS) == {"in-company"}
    assert load_subject("one-seed").company == "seeds"
