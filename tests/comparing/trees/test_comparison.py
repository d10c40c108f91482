"""Whole comparisons on draft trees: rows, verdicts, what is refused; wrong kernels are found."""

import json
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from support.false_alarms import ALPHA

import simverify
from simverify import UsageError
from simverify.comparing import model as compare_model
from simverify.comparing.model import PYTHON_RULE_BLOCKS
from simverify.comparing.sampled import MAX_NODE_CALLS, KernelTrial
from simverify.models import get_model
from simverify.results.reading import document_text, read_document
from simverify.simulators.run import model_tables
from simverify.stats import rate_interval
from simverify.trees import shape_of_levels
from simverify.verifiers import trees
from simverify.verifiers.trees.base import walk_rule

BLOCKS = 150_000
QUICK = {"blocks": BLOCKS, "alpha": ALPHA, "detect": 0.05, "threads": 2}


def row(run, verifier, model="compact"):
    (found,) = [r for r in run.results if (r.model, r.verifier) == (model, verifier)]
    return found


@pytest.fixture(scope="module")
def run():
    return simverify.compare(["toy", "compact"], tree="2", **QUICK)


def test_the_known_numbers(run):
    """Two drafts of one token, toy: optimum 8/9, K-SEQ .811420, recursive 7/9, match 2/3."""
    exact = {
        name: row(run, name, "toy").expected_accepted.exact
        for name in ("k-seq", "recursive", "match", "tournament")
    }
    assert exact == pytest.approx(
        {"k-seq": 0.811420, "recursive": 7 / 9, "match": 2 / 3, "tournament": 8 / 9}, abs=1e-6
    )
    assert row(run, "recursive", "toy").expected_accepted.fraction == "7/9"
    best = row(run, "recursive", "toy").optimum
    assert (best.name, best.by, best.bound) == ("memoryless", "closed-form", False)
    assert best.expected_accepted == pytest.approx(8 / 9)
    assert row(run, "recursive", "toy").optimality == pytest.approx(7 / 8)
    assert run.models[0].bounds.coupling.fraction == "8/9"


def test_three_drafts_on_the_toy():
    found = simverify.compare(["toy"], ["k-seq", "recursive"], drafts=3, gamma=1, **QUICK)
    assert row(found, "k-seq", "toy").expected_accepted.exact == pytest.approx(0.896576, abs=1e-6)
    assert row(found, "recursive", "toy").expected_accepted.fraction == "23/27"
    assert row(found, "k-seq", "toy").optimum.expected_accepted == 1


def test_every_rule_that_fits_has_a_row_and_passes(run):
    two = shape_of_levels([2])
    fits = [
        name
        for name, rule in trees.TREE_VERIFIERS.items()
        if "iid" in rule.schemes and rule.fits(two)
    ]
    assert [r.verifier for r in run.results if r.model == "toy"] == fits
    assert run.verdict == "PASS"
    for found in run.results:
        assert found.lossless.tier == "exact"
        assert found.lossless.tv == 0
        low, high = found.measured.ci_low, found.measured.ci_high
        assert low <= found.expected_accepted.exact <= high
        assert found.optimality <= 1 + 1e-9


def test_mass_of_nodes(run):
    """Recursive rejection keeps min(p, q) of the first child, and then of what is left."""
    found = row(run, "recursive", "toy")
    assert found.nodes == pytest.approx((2 / 3, 1 / 9))
    assert sum(found.nodes) == pytest.approx(found.expected_accepted.exact)
    counts = found.node_counts
    assert counts.calls == min(found.measured.blocks, MAX_NODE_CALLS)
    for mass, kept in zip(found.nodes, counts.kept, strict=True):
        low, high = rate_interval(np.array([kept]), counts.calls, error=1e-6)
        assert low[0] <= mass <= high[0]
        assert not low[0] <= mass + 0.03 <= high[0]


def test_the_document_comes_back(run, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(document_text(run))
    assert read_document(path) == run


def test_threads_and_repetition_change_nothing():
    first, again = (
        simverify.compare(["toy"], ["recursive", "gbv"], tree="2", **(QUICK | {"threads": n}))
        for n in (1, 2)
    )
    assert without_meta(first) == without_meta(again)


def without_meta(run):
    document = json.loads(document_text(run))
    del document["meta"]
    return document


def test_a_tree_file_is_the_tree(run, tmp_path):
    path = tmp_path / "two.json"
    path.write_text('{"parents": [-1, -1]}')
    found = simverify.compare(["toy"], ["recursive"], tree=str(path), **QUICK)
    assert found.drafting == run.drafting
    assert found.results[0].expected_accepted == row(run, "recursive", "toy").expected_accepted


def test_chain_rules_stand_beside_trees_on_one_draft():
    found = simverify.compare(["compact"], ["token", "block", "k-seq"], drafts=2, gamma=3, **QUICK)
    alone = simverify.compare(["compact"], ["token", "block"], gamma=3, **QUICK)
    for name in ("token", "block"):
        assert row(found, name).one_draft
        assert row(found, name).expected_accepted == row(alone, name).expected_accepted
        assert row(found, name).optimum == row(alone, name).optimum
    assert not row(found, "k-seq").one_draft


def test_a_rule_without_a_kernel_is_judged_by_its_law(monkeypatch):
    monkeypatch.setattr(compare_model, "compiled_rules", lambda _drafting: ())
    found = row(simverify.compare(["compact"], ["gbv"], tree="2,1", **QUICK), "gbv")
    assert found.lossless.tests == found.acceptance.tests == ()
    assert found.verdict == "PASS"
    assert found.measured.blocks == PYTHON_RULE_BLOCKS
    assert found.expected_accepted.fraction == "4369/2592"
    assert found.measured.ci_low <= found.expected_accepted.exact <= found.measured.ci_high


@pytest.mark.parametrize("compiled", [True, False])
def test_a_lossy_rule_fails_by_its_law(monkeypatch, compiled):
    if not compiled:
        monkeypatch.setattr(compare_model, "compiled_rules", lambda _drafting: ())

    def stale(p, q, siblings, rng):
        for x in siblings:
            if rng.random() < p[x] / q[x]:
                return x
        left = np.maximum(p - q, 0)
        return int(rng.choice(len(p), p=left / left.sum()))

    right = trees.TREE_VERIFIERS["recursive"]
    wrong = replace(right, rule=walk_rule(stale), one_step=stale, hits={})
    monkeypatch.setitem(trees.TREE_VERIFIERS, "recursive", wrong)
    found = row(simverify.compare(["compact"], ["recursive"], tree="2", **QUICK), "recursive")
    assert found.verdict == found.lossless.verdict == "FAIL"
    assert "exact distribution differs from the target's by TV 0.0833" in found.lossless.findings[0]


def test_a_lossy_rule_whose_law_is_too_large_is_found_by_its_tokens(monkeypatch):
    """The readable rule, on too many trees to enumerate: it emits the draft's own first token."""

    def greedy(p, q, siblings, rng):
        return siblings[0]

    right = trees.TREE_VERIFIERS["recursive"]
    wrong = replace(right, rule=walk_rule(greedy), one_step=greedy, hits={})
    monkeypatch.setitem(trees.TREE_VERIFIERS, "recursive", wrong)
    monkeypatch.setattr(compare_model, "compiled_rules", lambda _drafting: ())
    run = simverify.compare(["markov-16"], ["recursive"], tree="2,2", **QUICK)
    found = row(run, "recursive", "markov-16")
    assert found.lossless.tier == "sampled"
    assert found.lossless.verdict == "FAIL"
    assert found.expected_accepted.method == "measured"


def test_a_kernel_on_other_rows_fails(monkeypatch):
    """The readable rule is right; what runs in its place has another target."""
    model = get_model("compact")
    other = replace(model, target_rows=model.target_rows[[1, 0, 2]], rational=None)
    monkeypatch.setattr(compare_model, "model_tables", lambda _model: model_tables(other))
    found = row(simverify.compare([model], ["recursive"], tree="2,1", **QUICK), "recursive")
    assert found.lossless.verdict == "FAIL"
    assert found.lossless.tv == 0


def test_a_kernel_of_another_rule_is_not_the_declared_one(monkeypatch):
    simulate = KernelTrial._simulate

    def another(self, *numbers):
        k_seq = trees.TREE_VERIFIERS["k-seq"]
        return simulate(replace(self, verifier=k_seq), *numbers)

    monkeypatch.setattr(KernelTrial, "_simulate", another)
    found = row(simverify.compare(["compact"], ["recursive"], tree="2", **QUICK), "recursive")
    assert found.lossless.verdict == "PASS"
    assert found.acceptance.verdict == "FAIL"


def test_a_kernel_above_every_rule_is_lossy(monkeypatch):
    simulate = KernelTrial._simulate

    def lucky(self, *numbers):
        counts = simulate(self, *numbers)
        return replace(counts, accepted=np.array([0, counts.trials]))

    monkeypatch.setattr(KernelTrial, "_simulate", lucky)
    found = row(simverify.compare(["toy"], ["recursive"], tree="2", **QUICK), "recursive", "toy")
    assert any("lossy: Pr(tau >= 1)" in words for words in found.lossless.findings)


BAD = {
    "two ways": ({"drafts": 2, "tree": "2", "gamma": 1}, "drafts and tree are two ways"),
    "no gamma": ({"drafts": 2}, "gamma requires an argument"),
    "no draft": ({"drafts": 0, "gamma": 2}, "drafts is 0: expected 1 to 64"),
    "no child": ({"tree": "2,0"}, "expected children per level, 1 or more each"),
    "no tree": ({"tree": "2;1"}, "is no file: expected children per level"),
    "nothing": ({"tree": " "}, "tree is empty"),
    "a folder": ({"tree": "/"}, "/ cannot be read: Is a directory"),
    "a long name": ({"tree": "x" * 5000}, "(5,000 characters) cannot be read"),
    "too deep": ({"tree": "2,1,1", "gamma": 2}, "the tree has a depth of 3, above gamma 2"),
    "too large": ({"tree": "64,64,64"}, "has more than 4096 nodes"),
    "scheme": ({"tree": "2", "scheme": "idd"}, "unknown scheme 'idd': did you mean 'iid'?"),
    "scheme alone": ({"gamma": 2, "scheme": "iid"}, "scheme is for draft trees"),
    "calls": ({"tree": "2", "calls": 2}, "calls is for a single draft"),
    "misfit": ({"tree": "2", "scheme": "top-k", "verifiers": ["k-seq"]}, "k-seq is not lossless"),
    "shape": ({"tree": "2,2", "verifiers": ["gbv"]}, "gbv takes chains of one length"),
    "stateful": ({"tree": "2", "verifiers": ["greedy"]}, "greedy is for a single draft"),
    "unknown": ({"tree": "2", "verifiers": ["kseq"]}, "did you mean 'k-seq'?"),
    "trace": ({"tree": "2", "trace": "t"}, "tree is not for a trace: it is for simulated models"),
    "other": (
        {"tree": "2", "models": [SimpleNamespace(name="own", vocab_size=3)]},
        "expected a model whose rows follow",
    ),
    "large": ({"tree": "2", "models": ["markov-4096"]}, "take a smaller vocabulary"),
    "batch alone": ({"gamma": 2, "batch_size": 8}, "batch_size alone changes nothing"),
    "batch": ({"gamma": 2, "batch_size": 0, "free_rows": 8}, "batch size is 0"),
    "rows": ({"gamma": 2, "free_rows": 0.5}, "free rows is 0.5: expected 1 or more"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case):
    given, expected = BAD[case]
    with pytest.raises(UsageError) as error:
        simverify.compare(**({"models": ["toy"]} | given))
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"parents": [-1, 0, 5]}', "parent of node 2 is 5, which is no node"),
        ('{"parents": [0]}', "node 0 is its own parent"),
        ('{"parents": [-1, 2, 0]}', "put parents before their children"),
        ('{"parents": []}', "the tree has 0 nodes"),
        ('{"parents": [-1, "a"]}', "parent of node 1 is 'a': expected an integer"),
        ('{"parents": 3}', "holds no tree"),
        ('{"parents": [-1], "x": 1}', "and nothing else"),
        ("[-1, 0]", "holds no tree"),
        ("not JSON", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
    ],
)
def test_a_bad_tree_file_is_one_line(text, expected, tmp_path):
    path = tmp_path / "tree.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as error:
        simverify.compare(["toy"], tree=str(path))
    assert expected in str(error.value)
    assert "tree.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_exact_share_is_of_a_sure_optimum_and_a_bound_says_that_it_is_one():
    found = simverify.compare(["toy"], ["recursive"], drafts=2, gamma=8, **QUICK)
    best = row(found, "recursive", "toy").optimum
    assert best.bound
    assert best.by == "counting"
    assert found.models[0].bounds.coupling.method == "counting"
    assert row(found, "recursive", "toy").expected_accepted.fraction == str(Fraction(44135, 19683))
