"""How far the calls went is named where it may matter: to code that keeps something, or drafts."""

import re

import pytest
from msgspec import UNSET

from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.reports.audit import line_coverage_words
from simverify.verifiers.token import verify as token

pytestmark = pytest.mark.usefixtures("unsearched", "unnamed")

SMALL = AuditSettings(gamma=1, vocab=2)
CALLS = [0]


def after(prefix, target, rng, *, wrong):
    row = target(prefix)
    return [0] if wrong else [int(rng.choice(len(row), p=row))]


class Counts:
    """Right for so many calls of a generation."""

    most = 5_000  # the probe of many calls makes fewer

    def __init__(self):
        self.calls = 0

    def reset(self):
        self.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        self.calls += 1
        return after(prefix, target, rng, wrong=self.calls > self.most)


def counting(target, draft, drafted, rng):
    CALLS[0] += 1
    return token(target, draft, drafted, rng)


def long_prefixes(prefix, target, draft, gamma, rng):
    # No literal 5_000, to which an instance would go; the probe of many calls makes shorter ones.
    return after(prefix, target, rng, wrong=len(prefix) > int("5000"))


def passed(rule, contract):
    run = audit(Subject("rule", rule, None), contract, SMALL)
    assert (run.verdict, run.tier) == ("PASS", "exact")
    return run.coverage


def test_code_that_counts_its_calls_is_told_how_many_there_were():
    found = passed(Counts, "step")
    assert 1 < found.calls <= Counts.most
    told = re.search(r"not tried: .*more than ([\d,]+) calls in a row", line_coverage_words(found))
    assert int(told[1].replace(",", "")) == found.calls


def test_calls_of_a_function_that_keeps_a_count_are_counted_to_the_last():
    CALLS[0] = 0
    assert 100 < passed(counting, "verify").calls <= CALLS[0]


def test_a_rule_that_drafts_is_told_the_longest_prefix():
    found = passed(long_prefixes, "step")
    assert 2 < found.prefix <= 25  # those of the probe are not judged
    assert f"not tried: prefixes of more than {found.prefix} tokens" in line_coverage_words(found)


def test_code_that_keeps_nothing_and_sees_no_prefix_is_told_nothing():
    found = passed(token, "verify")
    assert (found.calls, found.prefix) == (UNSET, UNSET)
    assert "not tried" not in line_coverage_words(found)
    assert passed(long_prefixes, "step").calls is UNSET
