"""Runs on threads and in shards: the same counts, whoever counted them."""

import itertools

import numpy as np
import pytest
from support.instances import equal_pair
from support.pages.reproduction import agree

from simverify.models.markov import markov
from simverify.models.small import compact
from simverify.simulators.run import SHARD, Counts, default_threads, on_threads, simulate
from simverify.simulators.tables import model_tables
from simverify.verifiers import VERIFIERS

TRIALS = 5 * SHARD + 77  # no multiple of a shard or of a tile


def run(rule, trials, *, threads=1, seed=7, model=None, **options):
    tables = model_tables(model or markov(5))
    options = {"calls": 3, "transition_shape": (6, *tables.target.shape), "pit_positions": 2,
               **options}  # fmt: skip
    return simulate(tables, rule, 4, trials, seed=seed, threads=threads, **options)


@pytest.fixture(scope="module", params=VERIFIERS)
def rule(request):
    return request.param


def test_threads_change_nothing(rule):
    one = run(rule, TRIALS)
    for threads in (2, 3):
        assert agree(one, run(rule, TRIALS, threads=threads))
    assert not agree(one, run(rule, TRIALS, seed=8))


def test_parts_add_up(rule):
    whole = run(rule, TRIALS, first_trial=1000)
    cuts = [0, 1, 130, SHARD + 5, TRIALS]
    parts = [
        run(rule, end - begin, first_trial=1000 + begin) for begin, end in itertools.pairwise(cuts)
    ]
    assert agree(whole, sum(parts[1:], parts[0]))
    assert not agree(whole, run(rule, TRIALS, first_trial=1001))


def test_counts_are_of_all_trials(rule):
    counts = run(rule, TRIALS)
    assert counts.trials == counts.accepted.sum() == TRIALS
    assert (counts.transitions.sum(axis=(1, 2))[:3] == TRIALS).all()
    assert (counts.pits.sum(axis=2) == TRIALS).all()
    assert (np.diff(counts.lengths[0]) > 0).all()
    tails = [counts.accepted[n:].sum() for n in range(1, 5)]
    assert counts.tail_counts.tolist() == tails
    first = run(rule, TRIALS, calls=1)
    assert first.lengths[0, 0] == TRIALS + sum(tails)
    taus = np.arange(1, 6)
    assert first.lengths[1, 0] == (first.accepted * taus**2).sum()


def test_all_rules_see_the_same_drafts():
    """With p = q these keep every draft token: the first gamma tokens are the drafts."""
    drafts = {
        rule: run(rule, 10_000, model=equal_pair(), calls=1).transitions[:4]
        for rule in ("token", "block", "greedy")
    }
    np.testing.assert_array_equal(drafts["token"], drafts["block"])
    np.testing.assert_array_equal(drafts["token"], drafts["greedy"])
    other = run("token", 10_000, model=equal_pair(), calls=1, seed=8).transitions[:4]
    assert (other != drafts["token"]).any()


def test_token_and_block_are_one_rule_at_gamma_one():
    """Down to each count, since they read the same uniforms."""
    tables = model_tables(compact())
    for gamma, same in ((1, True), (2, False)):
        token, block = (
            simulate(tables, rule, gamma, 20_000, seed=7, threads=1, transition_shape=(3, 4, 3))
            for rule in ("token", "block")
        )
        assert agree(token, block) == same


def test_fewer_trials_than_threads():
    assert run("block", 2, threads=3).trials == 2
    nothing = run("block", 0, threads=2)
    assert (nothing.trials, nothing.accepted.sum(), nothing.lengths.sum()) == (0, 0, 0)


def test_a_failing_thread_ends_the_run():
    def broken(take):
        raise KeyError(take())

    with pytest.raises(KeyError, match=str(SHARD)):
        on_threads(broken, 0, TRIALS, 2)


def test_default_threads():
    assert default_threads() >= 1


def test_counts_add_up_field_by_field():
    ones = np.ones(2, np.int64)
    a = Counts(1, ones, ones, ones, ones, 3)
    total = a + Counts(2, 2 * ones, 3 * ones, 4 * ones, 5 * ones, 6)
    assert (total.trials, total.unsupported) == (3, 9)
    fields = (total.accepted, total.lengths, total.transitions, total.pits)
    assert [field.tolist() for field in fields] == [[3, 3], [4, 4], [5, 5], [6, 6]]
