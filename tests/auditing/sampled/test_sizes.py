"""On which sizes and rows the sampled tier looks: faults that show nowhere else are found."""

from functools import cache

import numpy as np
import pytest
from support.false_alarms import ALPHA

from simverify.auditing.run import audit
from simverify.auditing.sampled_runs import (
    MAX_OUTPUT_COUNT,
    SampledInstance,
    default_sampled_instances,
)
from simverify.auditing.sampled_tier import instance_detect, sample_callable
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.models.base import compact
from simverify.options.option import MAX_GAMMA, MAX_VOCAB
from simverify.verifiers import VERIFIERS

INSTANCES = default_sampled_instances()
FINE = tuple(x for x in INSTANCES if not x.coarse)
COARSE = tuple(x for x in INSTANCES if x.coarse)
SETTINGS = AuditSettings(detect=0.03, alpha=ALPHA, seed=7)


def rule(residual=lambda p, q, i: np.maximum(p[i] - q[i], 0.0), bonus=lambda p: p[-1]):
    """Token rule with uniforms that no exact run follows; rows of the last token by the caller."""

    def verify(p, q, x, rng):
        def uniform():
            return int.from_bytes(rng.bytes(6), "little") / 2**48

        def draw(row):
            return int(np.searchsorted(np.cumsum(row), uniform() * row.sum(), side="right"))

        for i, t in enumerate(x.tolist()):
            if uniform() * q[i, t] >= p[i, t]:
                return [*x[:i].tolist(), draw(residual(p, q, i))]
        return [*x.tolist(), draw(bonus(p))]

    return verify


def moves_token_5(row):
    """From V = 6 on token 5 becomes token 0."""
    row = row.copy()
    if len(row) > 5:
        row[0], row[5] = row[0] + row[5], 0.0
    return row


def halves_ties(p):
    """Of several likeliest tokens the first is favoured."""
    row = p[-1].copy()
    row[np.flatnonzero(row == row.max())[1:]] /= 2.0
    return row


def misses_one_hot(p):
    """A certain bonus token is blurred over its neighbour."""
    row = p[-1].copy()
    return np.roll(row, 1) + row if row.max() == row.sum() else row


FAULTS = {
    "V above 5, bonus": (rule(bonus=lambda p: moves_token_5(p[-1])), "wide, V=12"),
    "V above 5, residual": (
        rule(lambda p, q, i: moves_token_5(np.maximum(p[i] - q[i], 0.0))), "wide, V=12",
    ),
    "gamma 4 alone": (
        rule(lambda p, q, i: p[i] if i == 3 else np.maximum(p[i] - q[i], 0.0)), "long drafts, V=2",
    ),
    "ties of the likeliest": (rule(bonus=halves_ties), "ties, V=5"),
    "one possible token": (rule(bonus=misses_one_hot), "ties, V=5"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.thorough
def test_a_fault_of_one_size_or_kind_of_row_fails(name):
    wrong, where = FAULTS[name]
    # Their part of an audit by default, without the calls on the others.
    alpha = AuditSettings.alpha * len(COARSE) / len(INSTANCES)
    result = sample_callable(wrong, "verify", instances=COARSE, seed=7, alpha=alpha)
    assert result.verdict == "FAIL"
    assert all(finding.text.startswith(where) for finding in result.tier.findings)


def coarsely(code, instance):
    return sample_callable(code, "verify", instances=[instance], seed=7, detect=0.2)


@cache
def right_one(place):
    """The right rule on the instance there, which all faults are held against."""
    return coarsely(rule(), FINE[place])


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.thorough
def test_the_other_instances_cannot_show_it(name):
    """They pass such code: on them it is the right rule, token for token."""
    wrong, _ = FAULTS[name]
    for place, instance in enumerate(FINE):
        ours = coarsely(wrong, instance)
        assert ours.tier == right_one(place).tier
        assert ours.verdict == "PASS"


@pytest.mark.distribution
@pytest.mark.thorough
def test_the_right_rule_passes_and_claims_no_other_size():
    run = audit(Subject("mine", rule(), None), "verify", SETTINGS)
    assert (run.verdict, run.tier, run.findings) == ("PASS", "sampled", ())
    sizes = [(3, 3), (4, 2), (2, 4), (5, 2), (12, 1)]
    assert [(x.vocab_size, x.gamma) for x in run.sampled.instances] == sizes
    assert all(x.detectable <= x.detect for x in run.sampled.instances)
    assert [x.detect for x in run.sampled.instances] == pytest.approx([0.03] * 2 + [0.09] * 3)
    assert sum(x.samples for x in run.sampled.instances) == run.sampled.samples
    text = " ".join(run.as_text(verbose=True).split())
    looked = ", ".join(f"V={v} gamma={gamma}" for v, gamma in sizes)
    assert f"sampled on {looked} only, seed 7" in text
    assert "gamma up to" not in text


def test_the_whole_audit_of_such_code_fails():
    wrong, where = FAULTS["V above 5, bonus"]
    run = audit(Subject("mine", wrong, None), "verify", SETTINGS)
    assert (run.verdict, run.tier) == ("FAIL", "sampled")
    assert any(where in finding.text for finding in run.findings)


# -- the instances -------------------------------------------------------------------------


def test_the_largest_sizes_of_an_audit_are_among_them():
    sizes = [(x.model.vocab_size, x.gamma) for x in INSTANCES]
    assert max(v for v, _ in sizes) == MAX_VOCAB
    assert max(gamma for _, gamma in sizes) == MAX_GAMMA
    assert all(v ** (gamma + 1) <= MAX_OUTPUT_COUNT for v, gamma in sizes)
    assert {gamma for _, gamma in sizes} == {1, 2, 3, 4}


@pytest.mark.parametrize(("gamma", "vocab"), [(1, 2), (2, 5), (3, 12), (4, 3)])
def test_none_is_larger_than_asked(gamma, vocab):
    chosen = default_sampled_instances(gamma, vocab)
    assert not chosen[0].coarse
    assert all(x.gamma <= gamma and x.model.vocab_size <= vocab for x in chosen)


def test_every_token_of_the_wide_one_can_be_emitted():
    (wide,) = (x.model for x in COARSE if x.model.vocab_size == 12)
    first = wide.target(()), wide.draft(())
    after = [wide.target((x,)) for x in np.flatnonzero(first[0])]
    assert (np.array(after).sum(axis=0) > 0).all()
    assert (first[0] > first[1]).sum() >= 5


def test_ties_rows_of_one_token_and_equal_rows_are_there():
    (ties,) = (x.model for x in COARSE if x.model.vocab_size == 5)
    prefixes = [(), *((x,) for x in range(5))]
    p, q = (np.array([row(x) for x in prefixes]) for row in (ties.target, ties.draft))
    assert ((p == p.max(axis=1, keepdims=True)).sum(axis=1) > 1).any()
    assert (p.max(axis=1) == 1.0).any()
    assert (q.max(axis=1) == 1.0).any()
    assert (p == q).all(axis=1).any()


# -- what is asked of them -----------------------------------------------------------------


def test_a_coarse_instance_is_asked_for_more_up_to_a_limit():
    coarse = SampledInstance(compact(), 2, coarse=True)
    assert instance_detect(coarse, 0.01) == pytest.approx(0.03)
    assert instance_detect(coarse, 0.2) == pytest.approx(0.3)
    assert instance_detect(coarse, 0.5) == pytest.approx(0.5)
    assert instance_detect(SampledInstance(compact(), 2), 0.01) == pytest.approx(0.01)


def test_a_coarse_instance_that_gets_too_few_calls_is_inconclusive():
    result = sample_callable(
        VERIFIERS["token"].rule, "verify", instances=COARSE[:1], seed=7, detect=0.03,
        samples=600,
    )  # fmt: skip
    assert result.verdict == "INCONCLUSIVE"
    assert "the calls on long drafts, V=2, gamma=4 promise a TV of" in result.reason
    assert "not 0.09: raise max_samples" in result.reason
