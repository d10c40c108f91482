"""Faults of draft trees: each is lossy where the rule that it is a slip of is right."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from support.instances import disjoint_pair, equal_pair, one_hot_pair, random_pair
from support.oracles.tree_laws import tree_deviation, tree_law
from support.styles import FOLDER, Style

from simverify.auditing import examiner
from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.examiner import Examiner, nearest_faults, refuted_faults
from simverify.auditing.instances import (
    fault_revealing_trees,
    instances_for,
    max_tree_count,
    tree_instances,
)
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject, load_subject
from simverify.faults import FAULTS
from simverify.models.base import compact
from simverify.trees import SCHEMES, Drafting, draw_tree, shape_of_levels
from simverify.verifiers.base import draw, excess
from simverify.verifiers.trees import TREE_VERIFIERS
from simverify.verifiers.trees.base import normalised, walk_rule

TREES = {name: fault for name, fault in FAULTS.items() if fault.contract == "tree"}

RIGHT = {
    "k-seq-rho-one": "k-seq",
    "top-k-taken-as-sampled": "fixed-tree",
    "hub-taken-as-sampled": "spechub",
    "last-sibling-at-full-q": "greedy-draft",
    "best-of-several-ways": "naive",
    "gbv-own-q": "gbv",
    "traversal-weight-of-child": "traversal-without-replacement",
    "traversal-ratio-weight": "traversal-without-replacement",
    "uncapped-hierarchical": "hierarchical",
    "shorter-cap-hierarchical": "hierarchical",
}
"""The rule that a fault is a slip of, where that is not recursive rejection on its scheme."""

WHERE = {
    # A second sibling needs a coin, after a residual that is not one token.
    "one-coin-for-siblings": (compact, [1, 2]),
    "stale-sibling-q": (lambda: random_pair(3, 4), [2]),
    "traversal-ratio-weight": (lambda: random_pair(3, 4), [2]),
    "last-sibling-at-full-q": (compact, [2]),
    "uncapped-hierarchical": (compact, [1, 1]),
    "shorter-cap-hierarchical": (compact, [1, 1]),
}
"""Model and children per level, where it is not two children on the compact model."""


def right_rule(fault):
    usual = "recursive" if fault.scheme == "iid" else "recursive-without-replacement"
    return TREE_VERIFIERS[RIGHT.get(fault.name, usual)]


def core(scheme, seed=0):
    """Instances that a verdict needs, but for the largest."""
    found = fault_revealing_trees(tree_instances(SCHEMES[scheme], 4, 12, seed))
    assert all(model.core for model in found)
    return found


@pytest.mark.parametrize("name", TREES)
def test_a_fault_is_lossy_where_the_right_rule_is_not(name):
    fault = TREES[name]
    model, levels = WHERE.get(name, (compact, [2]))
    model, shape = model(), shape_of_levels(levels)

    def deviation(rule):
        return tree_deviation(tree_law(rule, model, shape, fault.scheme), model, shape)

    assert deviation(fault.rule) > Fraction(1, 150)
    right = right_rule(fault)
    assert fault.scheme in right.schemes
    assert deviation(right.rule) == 0


def test_a_cap_of_shorter_prefixes_alone_is_off_by_little():
    shape = shape_of_levels([1, 1])
    law = tree_law(TREES["shorter-cap-hierarchical"].rule, compact(), shape, "iid")
    assert tree_deviation(law, compact(), shape) == Fraction(1, 135)


def test_a_q_that_is_not_renormalised_is_as_good_as_stale():
    def step(p, q, siblings, rng):
        residual = p
        for x in siblings:
            if q[x] > 0 and rng.random() < residual[x] / q[x]:
                return x
            residual = normalised(excess(residual, q), p)
            q = np.where(np.arange(len(q)) == x, 0 * q, q)
        return draw(residual, p, rng)

    given = random_pair(3, 4), shape_of_levels([3]), "without-replacement"
    assert tree_law(walk_rule(step), *given) == tree_law(TREES["stale-sibling-q"].rule, *given)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.thorough
def test_each_shows_on_the_core_and_is_refuted_by_a_law_that_is_right_there(seed):
    for name, fault in TREES.items():
        examiner = Examiner(Subject(name, fault.rule, "tree"), "tree", leaves=10_000)
        assert any(examiner.fails(model) for model in core(fault.scheme, seed)), name
    for scheme in SCHEMES:
        of_it = {name for name, fault in TREES.items() if fault.scheme == scheme}
        assert set(refuted_faults("tree", core(scheme, seed), None)) == of_it
    assert refuted_faults("tree", [], None) == ()
    # A rule for chains has none of the core.
    chains = [m for m in tree_instances(SCHEMES["iid"], 2, 3, seed) if m.drafting.shape.is_chain]
    assert "shorter-cap-hierarchical" in refuted_faults("tree", chains, None)


def test_the_right_rules_show_nothing_there():
    for fault in TREES.values():
        right = right_rule(fault)
        examiner = Examiner(Subject(right.name, right.rule, "tree"), "tree", leaves=10_000)
        models = [m for m in core(fault.scheme) if right.fits(m.drafting.shape)]
        assert not any(examiner.fails(model) for model in models[:2])


@pytest.mark.parametrize("name", TREES)
def test_the_name_brings_contract_and_scheme(name):
    subject = load_subject(name)
    assert (subject.contract, subject.scheme) == ("tree", TREES[name].scheme)


def loop(slip):
    """Recursive rejection in a loop over node numbers, with one thing done wrong."""

    def tree(target_probs, draft_probs, tokens, parents, rng):
        node, kept = -1, []
        while True:
            p, q = target_probs[node + 1], draft_probs[node + 1]
            children = np.flatnonzero(parents == node)
            if slip == "parent-row-bonus" and not len(children):
                p = target_probs[parents[node] + 1]
            for child in children:
                token = tokens[child]
                if slip == "zero-id-as-padding" and token == 0:
                    continue
                if rng.random() < p[token] / q[token]:
                    kept.append(int(token))
                    node = child
                    break
                left = np.maximum(p - q, 0)
                p = left if slip == "unnormalised-sibling-residual" else left / left.sum()
            else:
                p = p if p.sum() > 0 else target_probs[node + 1]
                return [*kept, int(rng.choice(len(p), p=p / p.sum()))]

    return tree


def strangers():
    """Rules written for other tests, by the fault that they are."""
    for fault, file in (
        ("top-k-taken-as-sampled", "tree_certain_as_sampled"),
        ("best-of-several-ways", "tree_longest_of_paths"),
        ("siblings-sorted-by-target", "tree_sorted_by_target"),
        ("stale-sibling-q", "tree_stale_q"),
    ):
        path = FOLDER / "wrong" / "trees" / f"{file}.py"
        yield fault, load_subject(Style(path).spec).rule


OTHERS = [
    *((slip, loop(slip)) for slip in
      ("parent-row-bonus", "zero-id-as-padding", "unnormalised-sibling-residual")),
    *strangers(),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rule"), OTHERS, ids=[name for name, _ in OTHERS])
@pytest.mark.thorough
def test_a_fault_by_another_hand_is_named_first(name, rule):
    models = core(TREES[name].scheme)
    subject = Subject("mine", rule, "tree")
    failure = run_exact_tier(subject, "tree", models, tolerance=None, searching=False).failure
    first, *others = nearest_faults(subject, failure, "tree")
    assert (first.fault, first.distance < 1e-9) == (name, True)
    assert all(other.distance > 1e-3 for other in others)


@pytest.mark.parametrize("slip", [None, "unnormalised-sibling-residual"])
@pytest.mark.thorough
def test_code_for_one_shape_is_held_against_them_on_that_one(slip):
    def pairs_alone(target_probs, draft_probs, tokens, parents, rng):
        assert len(tokens) == 2, "made for two drafts"
        return loop(slip)(target_probs, draft_probs, tokens, parents, rng)

    pairs = AuditSettings(gamma=1, vocab=3, scheme="iid", tree="2")
    run = audit(Subject("mine", pairs_alone, None), "tree", pairs)
    if slip is None:
        assert {"equal-sibling-at-q", "best-of-several-ways"} <= set(run.refuted)
        assert set(run.refuted) <= {name for name, f in TREES.items() if f.scheme == "iid"}
    else:
        assert run.refuted == ()
        assert run.diagnosis[0].fault == slip


def test_a_failure_on_very_many_trees_takes_no_minutes():
    large = tree_instances(SCHEMES["iid"], 3, 2, 0, shape_of_levels([3, 2]))[0]
    assert max_tree_count(large) == 2**9
    judged = SimpleNamespace(model=large, comparison=None)

    def nine_alone(target_probs, draft_probs, tokens, parents, rng):
        raise ValueError("made for another shape")

    # It is compared on another shape if it can be, and if not on none.
    assert nearest_faults(Subject("mine", nine_alone, "tree"), judged, "tree") == ()
    first, *_ = nearest_faults(Subject("mine", TREES["row-by-depth"].rule, "tree"), judged, "tree")
    assert (first.fault, first.distance) == ("row-by-depth", 0)


def test_chains_and_trees_are_not_held_against_each_other():
    (chain, *_), (tree, *_) = instances_for("verify", 2, 2, 0), core("iid")
    assert {fault.contract for fault in examiner._candidate_faults("verify", chain)} == {
        "verify",
        "step",
    }
    assert {fault.contract for fault in examiner._candidate_faults("tree", tree)} == {"tree"}
    for contract in ("verify", "step"):
        assert not [f for f in TREES.values() if examiner._fault_examiner(f, contract, None)]
    assert examiner._fault_examiner(FAULTS["inverted-ratio"], "tree", None) is None


PAIRS = [disjoint_pair(), equal_pair(), one_hot_pair(), random_pair(1, 4)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_they_return_a_way_and_one_token_more_whatever_the_rows(pair):
    rng = np.random.default_rng(5)
    for name, fault in TREES.items():
        for levels in [2], [1, 2], [2, 1], [3]:
            drafting = Drafting(shape_of_levels(levels), SCHEMES[fault.scheme])
            for _ in range(5):
                tree = draw_tree(drafting, pair.draft, rng)
                given = tree.rows(pair.target), tree.rows(pair.draft), np.array(tree.tokens)
                before = [array.copy() for array in given]
                out = fault.rule(*given, np.array(tree.shape.parents), rng)
                assert all(type(x) is int and 0 <= x < pair.vocab_size for x in out), name
                ways = {tree.text(node) for node in range(-1, len(tree.tokens))}
                assert tuple(out[:-1]) in ways, name
                assert all(np.array_equal(*two) for two in zip(given, before, strict=True)), name
