"""Rules from outside: declared with their kernel in this file, registered, compared and audited."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import simverify
from simverify.errors import UsageError
from simverify.simulators.kernels.access import advance, correct, draft, ratio
from simverify.simulators.kernels.trees import Family, below, draw_from, generate_trees, judges
from simverify.verifiers import VERIFIERS, Verifier, register
from simverify.verifiers.base import draw, resolve_part
from simverify.verifiers.trees import TREE_VERIFIERS, TreeVerifier
from simverify.verifiers.trees.base import walk_rule

SHARE = 0.75
QUICK = {"seed": 1, "threads": 1, "detect": 0.1}
SMALL = {"vocab": 3, "seed": 1}


def accepted(p, q):
    """Token verification that accepts less: the mass min(p, q), times 3/4."""
    return np.minimum(p, q) * 3 / 4


def one_step(p, q, siblings, rng):
    """Test the first child; what is left of the target may be a child too."""
    x = siblings[0]
    if q[x] > 0 and rng.random() < accepted(p, q)[x] / q[x]:
        return x
    return draw(p - accepted(p, q), p, rng)


def down_a_chain(step):
    def verify(target_probs, draft_probs, draft_tokens, rng):
        for i, x in enumerate(draft_tokens):
            token = step(target_probs[i], draft_probs[i], [int(x)], rng)
            if token != x:
                return [*map(int, draft_tokens[:i]), token]
        return [*map(int, draft_tokens), draw(target_probs[-1], target_probs[-1], rng)]

    return verify


def hits(p, q, k):
    """Pr(the step emits y, and y is one of k independent children), accepted or drawn."""
    rejected, left = q - accepted(p, q), p - accepted(p, q)
    mass = left.sum(axis=-1, keepdims=True)
    drafted = rejected + (mass - rejected) * (1 - (1 - q) ** (k - 1))
    return accepted(p, q) + left / mass * drafted


def kept(p, q):
    return hits(p, q, 1)


def tree_step(m, b, f, p, q):
    return f * kept(p, q), f * (p - kept(p, q))


class Timid(NamedTuple):
    """What the kernel reads besides the model."""

    share: float


@judges(Timid)
def judge_timid(rule, tables, drafts, u_draft, u_accept, u_last, t, states, tokens, scratch):
    """On a chain as on a tree: a chain is a tree with one child a node."""
    before, left = scratch.ints[0], scratch.rows[0]
    node = np.int64(0)
    level = 0
    while True:
        state = states[level, t]
        begin = drafts.first[node]
        count = drafts.first[node + 1] - begin
        for j in range(count):
            before[j] = draft(tables, state, u_draft[drafts.child[begin + j] - 1, t])
        if count == 0:
            y = correct(tables, state, 1.0, 0.0, u_last[level, t])
        else:
            chance = rule.share * min(ratio(tables, state, before[0]), 1.0)
            y = before[0]
            if not u_accept[drafts.child[begin] - 1, t] < chance:
                for x in range(left.shape[0]):
                    p = tables.target[state, x]
                    left[x] = p - rule.share * min(p, tables.draft[state, x])
                y = draw_from(left, u_last[level, t])
        node = below(drafts, begin, count, before, y)
        if node == 0:
            return level, y
        tokens[level, t] = y
        states[level + 1, t] = advance(tables, state, y)
        level += 1


TIMID = Verifier(
    name="timid",
    contract="verify",
    rule=down_a_chain(one_step),
    tree_step=tree_step,
    summary="the token rule, three times in four",
    citation="this file",
    kernel=Family(lambda tables, drafting: Timid(SHARE)),
    kept=kept,
)

TIMID_TREE = TreeVerifier(
    name="timid-tree",
    rule=walk_rule(one_step),
    schemes=("iid",),
    summary="the same on the first child",
    citation="this file",
    one_step=one_step,
    hits={"iid": hits},
    kernel=TIMID.kernel,
)


def stale(p, q, siblings, rng):
    """Wrong: after a rejection the token is drawn from the target, not from what is left of it."""
    x = siblings[0]
    if q[x] > 0 and rng.random() < accepted(p, q)[x] / q[x]:
        return x
    return draw(p, p, rng)


def stale_step(m, b, f, p, q):
    rejected = q - accepted(p, q)
    again = accepted(p, q) + rejected.sum(axis=-1, keepdims=True) * p
    hit = accepted(p, q) + rejected * p
    return f * hit, f * (again - hit)


STALE = replace(TIMID, name="stale", rule=down_a_chain(stale), tree_step=stale_step, kept=None)
STALE_TREE = replace(TIMID_TREE, name="stale-tree", rule=walk_rule(stale), one_step=stale, hits={})


@pytest.fixture
def added():
    """Registers rules; they go again behind the test."""
    before = dict(VERIFIERS), dict(TREE_VERIFIERS)

    def add(*rules):
        for rule in rules:
            register(rule)

    yield add
    for registry, rules in zip((VERIFIERS, TREE_VERIFIERS), before, strict=True):
        registry.clear()
        registry.update(rules)


def compared(model, name, **options):
    (row,) = simverify.compare([model], [name], **{**QUICK, **options}).results
    return row


def test_a_chain_rule_is_held_to_its_exact_law_and_simulated(added):
    added(TIMID)
    row = compared("compact", "timid", gamma=3)
    assert (row.verdict, row.lossless.exact.tv) == ("PASS", 0.0)
    assert row.lossless.tests != row.acceptance.tests != ()
    assert row.expected_accepted.method == "enumeration"
    assert row.measured.ci_low <= row.expected_accepted.exact <= row.measured.ci_high
    token = compared("compact", "token", gamma=3)
    assert row.measured.ci_high < token.expected_accepted.exact


def test_a_chain_rule_with_kept_has_a_curve_where_drafts_are_too_many(added):
    added(TIMID)
    row = compared("markov-64", "timid", gamma=4)
    assert (row.verdict, row.expected_accepted.method) == ("PASS", "closed-form")
    assert row.measured.ci_low <= row.expected_accepted.exact <= row.measured.ci_high


@pytest.mark.parametrize(
    ("model", "method"), [("compact", "enumeration"), ("markov-64", "closed-form")]
)
def test_a_tree_rule_is_held_to_its_exact_law_and_simulated(added, model, method):
    added(TIMID_TREE)
    row = compared(model, "timid-tree", drafts=2, gamma=2)
    assert (row.verdict, row.expected_accepted.method) == ("PASS", method)
    assert row.lossless.tests != row.acceptance.tests != ()
    assert row.measured.ci_low <= row.expected_accepted.exact <= row.measured.ci_high


@pytest.mark.parametrize("rule", [TIMID, TIMID_TREE])
def test_a_rule_from_outside_is_audited_by_its_name(added, rule):
    added(rule)
    run = simverify.audit(rule.name, gamma=1, **SMALL)
    assert (run.verdict, run.spec, run.contract) == ("PASS", rule.name, rule.contract)


@pytest.mark.parametrize("rule", [STALE, STALE_TREE])
def test_a_wrong_rule_fails_an_audit(added, rule):
    added(rule)
    assert simverify.audit(rule.name, gamma=1, **SMALL).verdict == "FAIL"


@pytest.mark.parametrize(
    ("rule", "options"), [(STALE, {"gamma": 2}), (STALE_TREE, {"drafts": 2, "gamma": 2})]
)
def test_a_wrong_rule_fails_a_comparison_by_its_own_law(added, rule, options):
    added(rule)
    row = compared("compact", rule.name, **options)
    assert row.lossless.verdict == "FAIL"
    assert row.lossless.exact.tv > 0.01


@pytest.mark.parametrize("rule", [TIMID, TIMID_TREE])
def test_a_kernel_of_another_rule_fails(added, rule):
    """It is lossless too, and keeps more."""
    added(replace(rule, kernel=Family(lambda tables, drafting: Timid(1.0))))
    options = {"gamma": 2} if rule is TIMID else {"drafts": 2, "gamma": 2}
    row = compared("compact", rule.name, **options)
    assert (row.lossless.verdict, row.acceptance.verdict) == ("PASS", "FAIL")


def test_a_lossy_kernel_fails(added):
    added(replace(TIMID, kernel="simverify.simulators.kernels.chains:ARGMAX"))
    row = compared("compact", "timid", gamma=2)
    assert (row.lossless.verdict, row.lossless.exact.tv) == ("FAIL", 0.0)


def test_a_kernel_from_outside_is_not_cached_with_ours(added):
    """An edit of it would be missed, and a process that cannot import it could not read ours."""
    added(TIMID)
    before = generate_trees.signatures
    compared("compact", "timid", gamma=2, blocks=100)
    assert generate_trees.signatures == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"models": ["markov-64"]}, "no acceptance of timid is known on markov-64 with gamma 4"),
        ({"models": ["ngram"]}, "no acceptance of timid is known on ngram"),
        ({"models": ["toy"], "calls": 2}, "the kernel of timid judges single calls"),
        ({"models": ["toy"], "drafts": 2}, "timid is for a single draft"),
    ],
)
def test_what_a_rule_does_not_reach_is_one_line(added, options, words):
    added(replace(TIMID, kept=None))
    with pytest.raises(UsageError, match=words):
        simverify.compare(verifiers=["timid"], gamma=4, **QUICK, **options)


def test_a_rule_without_a_kernel_is_named(added):
    added(replace(TIMID, kernel=None), replace(TIMID_TREE, kernel=None))
    with pytest.raises(UsageError, match="timid has no kernel: give compare its function"):
        compared("toy", "timid", gamma=2)
    # Rules for draft trees are called where there is none.
    assert compared("toy", "timid-tree", drafts=2, gamma=1).verdict == "PASS"


@pytest.mark.parametrize("name", ["token", "recursive", "timid"])
def test_a_name_is_given_once(added, name):
    added(TIMID)
    for rule in (TIMID, TIMID_TREE):
        with pytest.raises(UsageError, match=f"there is a rule called '{name}' already"):
            register(replace(rule, name=name))


def test_an_unknown_name_is_still_unknown():
    with pytest.raises(UsageError, match="unknown verifier, engine or fault 'timid'"):
        compared("toy", "timid", gamma=2)


@pytest.mark.parametrize("field", ["kernel", "kept", "curve", "tails"])
def test_every_part_that_a_rule_names_is_there(field):
    named = [
        value
        for rule in (*VERIFIERS.values(), *TREE_VERIFIERS.values())
        if (value := getattr(rule, field, None)) is not None
    ]
    assert named
    assert all(isinstance(value, str) and resolve_part(value) is not None for value in named)
