"""Comparisons of rules for draft trees on real models."""

from dataclasses import replace

import msgspec
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.levels import at_night  # noqa: E402
from support.real_models import (  # noqa: E402
    Words,
    little_pair,
)

from simverify.comparing.real import (  # noqa: E402
    RowSettings,
    compare_pair,
    decoded_row,
)
from simverify.errors import UsageError  # noqa: E402
from simverify.models.transformer import (  # noqa: E402
    BUNDLED,
    Sampling,
    load_pair,
    read_prompts,
)
from simverify.reports.formats import html_report  # noqa: E402
from simverify.results.reading import read_document  # noqa: E402
from simverify.simulators.decoding.job import make_job  # noqa: E402
from simverify.simulators.decoding.trees import (  # noqa: E402
    StatelessTreeVerifier,
    TreeEmissionObserver,
    decode_trees,
)
from simverify.trees import (  # noqa: E402
    SCHEMES,
    Drafting,
    shape_of_levels,
)
from simverify.verifiers.trees import TREE_VERIFIERS  # noqa: E402

pytestmark = pytest.mark.thorough

PROMPTS = read_prompts(BUNDLED / "prompts.jsonl")
TREE = Drafting(shape_of_levels([2, 2]), SCHEMES["iid"])


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def run(pair):
    rules = ("block", "recursive", "traversal", "match")
    return compare_pair(
        pair, PROMPTS, rules, gamma=2, drafting=TREE, tokens=1200, lanes=24, detect=0.3
    )


@pytest.mark.distribution
def test_lossless_rules_pass(run):
    assert [row.verdict for row in run.results] == ["PASS"] * 4
    assert {row.lossless.tier for row in run.results} == {"output"}
    assert [row.one_draft for row in run.results] == [True, False, False, False]
    # The tests are those of a single draft; the faults that they would name are of such alone.
    names = [{test.name for test in row.lossless.tests} for row in run.results]
    assert names == [names[0]] * 4
    assert [row.lossless.faults is None for row in run.results] == [False, True, True, True]


def test_what_was_measured_is_what_the_rows_let_expect(run):
    block, recursive, traversal, match = run.results
    for row in (recursive, match):
        assert row.expected_accepted.method == "rao-blackwell"
        assert row.acceptance.tests[0].n == 24 * (50 * 2 // 3)  # as many as are sure to come
        assert row.measured.ci_low < row.expected_accepted.upper
        assert row.measured.ci_high > row.expected_accepted.lower
    assert match.expected_accepted.upper < recursive.expected_accepted.lower
    assert traversal.expected_accepted.method == "measured"
    assert traversal.acceptance.tests == ()
    assert "not judged" in traversal.acceptance.words
    assert recursive.block_efficiency > block.block_efficiency  # two drafts a level keep more


def test_the_optimum_is_bounded_on_each_rules_own_calls(run):
    for row in run.results[1:]:
        assert (row.optimum.name, row.optimum.by, row.optimum.bound) == (
            "memoryless", "counting", True
        )  # fmt: skip
        assert 0.2 < row.optimality < 1.0
    assert run.models[0].bounds.blocks_of == "recursive"
    assert run.models[0].bounds.coupling.method == "counting"


def test_the_ways_that_were_kept_are_counted(run):
    for row in run.results[1:]:
        calls, kept = row.node_counts.calls, row.node_counts.kept
        assert calls == row.measured.blocks
        # Two siblings on the first level, and below each its own two.
        assert sum(kept[:2]) / calls == pytest.approx(row.acceptance_ccdf.measured[0])
        assert sum(kept[2:]) / calls == pytest.approx(row.acceptance_ccdf.measured[1])
    assert run.results[0].node_counts is None


def test_what_a_call_costs_counts_the_tree(run):
    assert [row.speedup.rows for row in run.results] == [None, 7, 7, 7]
    assert {latency.verifier for latency in run.meta.latencies} == {
        "block", "recursive", "traversal", "match"
    }  # fmt: skip


def test_the_document_is_read_again_and_drawn(run, tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(run))
    assert read_document(path) == run
    page = html_report(run)
    assert "the 7 tokens of a tree" in page
    assert "--tree 2,2" in page
    assert "--scheme iid" in page


def stale(target_probs, draft_probs, tokens, parents, rng):
    """Recursive rejection that goes on with the target's row itself after a rejected child."""
    node, kept = -1, []
    while True:
        p, q = target_probs[node + 1], draft_probs[node + 1]
        for child in range(len(tokens)):
            if parents[child] != node:
                continue
            if rng.random() * q[tokens[child]] < p[tokens[child]]:
                kept.append(int(tokens[child]))
                node = child
                break
        else:
            return [*kept, int(rng.choice(len(p), p=p))]


@pytest.mark.distribution
def test_a_wrong_rule_fails(pair):
    """The negative control: tokens and acceptance of a rule without residuals are found out."""
    job = make_job(pair, PROMPTS, gamma=2, tokens=1200, lanes=24, seed=0)
    rule = TREE_VERIFIERS["recursive"]
    seen = TreeEmissionObserver(job.lanes, job.seed, TREE, rule, nodes=33)
    decode_trees(pair, job, TREE, lambda: StatelessTreeVerifier(stale), seen)
    row = decoded_row(pair, rule, seen.decoded, RowSettings(1e-6, 0.3, 0.1), drafting=TREE)
    assert (row.lossless.verdict, row.acceptance.verdict) == ("FAIL", "FAIL")
    assert "more often than its rule would" in row.acceptance.findings[0]


@pytest.mark.parametrize(
    ("levels", "scheme", "sampling"),
    at_night(
        [
            ((2, 2), "without-replacement", Sampling(0.0)),
            ((3, 1), "iid", Sampling(top_k=1)),
            ((2, 1), "top-k", Sampling(0.8, top_p=0.9)),
            ((2,), "argmax-first", Sampling(top_k=4)),
            ((1, 1, 1), "iid", Sampling()),
            ((3, 2, 1), "last-sampled", Sampling(top_k=2)),
        ],
        # Rows of one token and of few, trees of one level and of several, sampled and certain.
        but=[
            ((2, 2), "without-replacement", Sampling(0.0)),
            ((2, 1), "top-k", Sampling(0.8, top_p=0.9)),
            ((2,), "argmax-first", Sampling(top_k=4)),
        ],
    ),
)
def test_degenerate_rows_are_judged(levels, scheme, sampling):
    pair = replace(little_pair(eos=(2, 3), sampling=sampling), tokenizer=Words())
    drafting = Drafting(shape_of_levels(levels), SCHEMES[scheme])
    run = compare_pair(
        pair, ["1 4", "5"], None, gamma=len(levels), drafting=drafting, tokens=64, lanes=4,
        request_tokens=7, detect=0.9,
    )  # fmt: skip
    assert not any(row.lossless.findings or row.acceptance.findings for row in run.results)
    for row in run.results:
        # What is known by the rows of the trees is no more than the optimum of the same calls.
        if row.expected_accepted.method == "rao-blackwell" and len(levels) == 1:
            assert row.optimality <= 1 + 1e-9
        if sampling in (Sampling(0.0), Sampling(top_k=1)):
            assert row.measured.mean == pytest.approx(row.block_efficiency - 1)
    if scheme == "top-k":
        assert [row.optimality for row in run.results] == pytest.approx([1.0] * len(run.results))
        assert not run.results[0].optimum.bound
    assert html_report(run)


@pytest.mark.parametrize(
    ("rules", "levels", "says"),
    [
        (("token", "block"), (2,), "no rule for draft trees among token, block"),
        (("greedy",), (2,), "greedy is for a single draft"),
        (("fixed-tree",), (2,), "not lossless on siblings drafted by iid"),
        (("gbv",), (2, 2), "gbv takes chains of one length"),
        (("recursive",), (1,) * 60, "the context holds"),
    ],
)
def test_what_cannot_be_run_is_refused(rules, levels, says):
    pair = replace(little_pair(), tokenizer=Words())
    drafting = Drafting(shape_of_levels(levels), SCHEMES["iid"])
    with pytest.raises(UsageError, match=says):
        compare_pair(pair, ["1 2 3 4"], rules, gamma=len(levels), drafting=drafting, tokens=20,
                     lanes=2)  # fmt: skip
