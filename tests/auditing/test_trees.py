"""Audits of rules for draft trees: from the line that a user types to the replay of a failure."""

import numpy as np
import pytest

import simverify
from simverify.auditing.instances import tree_instances
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject, load_subject
from simverify.errors import UsageError
from simverify.trees import SCHEMES, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=2, vocab=3, scheme="iid")


def recursive(p_rows, q_rows, tokens, parents, rng, *, slip=None):
    """Recursive rejection, right for independent siblings; or with one thing done wrong."""
    node, kept = -1, []
    while True:
        p, q = p_rows[node + 1], q_rows[node + 1]
        children = np.flatnonzero(parents == node)
        if slip == "bonus of the parent" and not len(children) and node >= 0:
            p = p_rows[parents[node] + 1]
        for child in children:
            token = tokens[child]
            if slip == "zero is padding" and token == 0:
                continue
            if slip == "an id of three bits" and token >= 8:
                token = token - 8
            if rng.random() < p[token] / q[token]:
                kept.append(int(token))
                node = child
                break
            left = np.maximum(p - q, 0)
            p = left if slip == "not renormalised" else left / left.sum()
        else:
            return [*kept, int(rng.choice(len(p), p=p / p.sum()))]


def slipped(slip):
    def tree(target_probs, draft_probs, tokens, parents, rng):
        return recursive(target_probs, draft_probs, tokens, parents, rng, slip=slip)

    return tree


def run(rule, settings=SMALL):
    return audit(Subject("mine", rule, None), "tree", settings)


@pytest.mark.thorough
def test_a_right_rule_passes_exactly():
    found = run(slipped(None), AuditSettings(gamma=3, vocab=2, scheme="iid"))
    assert (found.verdict, found.tier) == ("PASS", "exact")
    assert (found.scheme, found.contract) == ("iid", "tree")
    assert max(i.max_abs_deviation for i in found.instances) < 1e-12
    names = {instance.name for instance in found.instances}
    assert {"plain, V=2, tree 2,1,1", "plain, V=2, a leaf first"} <= names


def test_the_sizes_that_a_verdict_names_are_judged():
    models = tree_instances(SCHEMES["iid"], 4, 12, 0)
    assert max(model.gamma for model in models) == 4
    assert {2, 3, 4, 5, 6, 8, 12} == {model.vocab_size for model in models}
    one = tree_instances(SCHEMES["iid"], 4, 12, 0, shape_of_levels([2, 1]))
    assert max(model.vocab_size for model in one) == 12


@pytest.mark.usefixtures("unprobed")
@pytest.mark.thorough
def test_ids_of_large_vocabularies_are_judged():
    found = run(slipped("an id of three bits"), AuditSettings(gamma=1, scheme="iid"))
    assert found.verdict == "FAIL"
    failed = [i.name for i in found.instances if i.max_abs_deviation > 1e-9]
    assert failed
    assert all(name.startswith("large, V=12") for name in failed)


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("slip", ["bonus of the parent", "zero is padding", "not renormalised"])
@pytest.mark.thorough
def test_slips_fail_exactly(slip):
    found = run(slipped(slip))
    assert (found.verdict, found.tier) == ("FAIL", "exact")
    assert (found.counterexample or found.breach).instance.scheme == "iid"
    text = str(found)
    assert "draft trees of" in text
    assert "--contract tree" in found.reproduce
    assert "--scheme iid" in found.reproduce


@pytest.mark.usefixtures("unprobed")
def test_another_scheme_fails():
    other = AuditSettings(gamma=1, vocab=4, scheme="without-replacement")
    assert run(slipped(None), other).verdict == "FAIL"


@pytest.mark.usefixtures("unprobed")
def test_one_shape_alone():
    only = AuditSettings(gamma=4, vocab=3, scheme="iid", tree="2")
    found = run(slipped(None), only)
    assert found.verdict == "PASS"
    assert {i.gamma for i in found.instances} == {1}
    assert "--tree 2" in found.reproduce


def test_code_for_one_shape_fails_on_others():
    def pairs_alone(target_probs, draft_probs, tokens, parents, rng):
        assert len(tokens) == 2, "made for two drafts"
        return recursive(target_probs, draft_probs, tokens, parents, rng)

    two = AuditSettings(gamma=1, vocab=3, scheme="iid", tree="2")
    assert run(pairs_alone, two).verdict == "PASS"
    found = run(pairs_alone)
    assert found.verdict == "FAIL"
    assert found.breach.parents is not None
    assert "draft tree" in str(found)


def test_what_is_no_way_down_the_tree_breaks_the_contract():
    def backwards(target_probs, draft_probs, tokens, parents, rng):
        return [int(tokens[-1]), *recursive(target_probs, draft_probs, tokens, parents, rng)][:2]

    found = run(backwards, AuditSettings(gamma=1, vocab=3, scheme="iid"))
    assert found.verdict == "FAIL"


def test_inputs_are_left_as_they_are():
    def spoils(target_probs, draft_probs, tokens, parents, rng):
        out = recursive(target_probs, draft_probs, tokens, parents, rng)
        parents[0] = 7
        return out

    found = run(spoils)
    assert found.verdict == "FAIL"
    assert any("changes its argument parents" in f.text for f in found.findings)


@pytest.mark.usefixtures("unprobed")
def test_code_that_cannot_be_followed_is_sampled():
    def folded(target_probs, draft_probs, tokens, parents, rng):
        # The sum of two uniforms, folded back: a uniform that no path can follow.
        p, coins = target_probs[0], rng.random(2)
        u = float(coins.sum()) % 1.0
        return [min(int(np.searchsorted(np.cumsum(p), u, side="right")), len(p) - 1)]

    found = run(folded, AuditSettings(gamma=1, vocab=3, scheme="iid", detect=0.2))
    assert (found.verdict, found.tier) == ("PASS", "sampled")


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("name", ["traversal", "gbv", "hierarchical", "spechub"])
@pytest.mark.thorough
def test_a_built_in_rule_has_its_own_scheme_and_shapes(name):
    found = audit(load_subject(name), None, AuditSettings(gamma=2, vocab=2))
    assert found.verdict == "PASS"
    assert found.scheme == TREE_VERIFIERS[name].schemes[0]


def test_a_shape_that_a_built_in_rule_does_not_take():
    with pytest.raises(UsageError, match="hierarchical does not take the tree 2"):
        audit(load_subject("hierarchical"), None, AuditSettings(gamma=1, tree="2"))


@pytest.mark.parametrize(
    ("contract", "given", "why"),
    [
        ("tree", {}, "needs --scheme"),
        ("tree", {"scheme": "idd"}, "did you mean 'iid'"),
        ("verify", {"scheme": "iid"}, "name --contract tree too"),
        ("tree", {"scheme": "iid", "tree": "2,x"}, "expected children per level"),
        ("tree", {"scheme": "iid", "tree": "0"}, "1 or more each"),
        ("tree", {"scheme": "iid", "tree": "1,1,1", "gamma": 2}, "depth of 3, above gamma 2"),
        ("verify", {}, "looks like a tree rule: --contract tree"),
        (
            "tree",
            {"scheme": "iid", "batch": 2},
            "--batch and --batch-mix are for the verify contract",
        ),
    ],
)
def test_options_that_do_not_fit(contract, given, why):
    with pytest.raises(UsageError, match=why):
        audit(Subject("mine", slipped(None), None), contract, AuditSettings(**given))


def test_a_trace_holds_single_drafts():
    with pytest.raises(UsageError, match="contract is 'tree': expected verify for a trace"):
        simverify.audit(slipped(None), contract="tree", trace="folder")
    with pytest.raises(UsageError, match="scheme is not for a trace"):
        simverify.audit(slipped(None), contract="tree", scheme="iid", trace="folder")


@pytest.mark.thorough
def test_a_failure_is_shown_again(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import numpy as np\n"
        "def tree(target_probs, draft_probs, tokens, parents, rng):\n"
        "    p = target_probs[0] + 0.01 * draft_probs[0]\n"
        "    return [int(rng.choice(len(p), p=p / p.sum()))]\n"
    )
    found = simverify.audit(
        f"{path}:tree", contract="tree", scheme="without-replacement", gamma=1, vocab=3
    )
    assert found.verdict == "FAIL"
    file = tmp_path / "run.json"
    found.save(file)
    shown = str(simverify.replay(simverify.load(file), 0))
    assert "tree " in shown
    assert "emitted with probability" in shown


def test_a_broken_call_is_shown_again(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "def tree(target_probs, draft_probs, tokens, parents, rng):\n"
        "    if tokens[0] == 1:\n"
        "        raise KeyError('one')\n"
        "    p = target_probs[0]\n"
        "    return [int(rng.choice(len(p), p=p))]\n"
    )
    found = simverify.audit(f"{path}:tree", contract="tree", scheme="iid", gamma=1, vocab=3)
    assert found.verdict == "FAIL"
    shown = str(simverify.replay(found, 0))
    assert "draft tree" in shown
    assert "KeyError" in shown
