"""Rules for draft trees on ngram, which has no kernels for them: called on drawn trees."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from simverify.comparing.comparison import compare
from simverify.comparing.documents import ComparisonSettings
from simverify.comparing.model import ModelComparison
from simverify.models import get_model
from simverify.reports.formats import html_report
from simverify.results.reading import read_document
from simverify.trees import SCHEMES, Drafting, shape_of_levels
from simverify.verifiers.trees import TREE_VERIFIERS

pytestmark = pytest.mark.thorough

TREE = Drafting(shape_of_levels([2, 1]), SCHEMES["iid"])


@pytest.fixture(scope="module")
def run():
    return compare(
        ["ngram"], ["recursive", "gbv", "match"], gamma=2, drafting=TREE, blocks=800, detect=0.2
    )


@pytest.mark.distribution
def test_lossless_rules_pass(run):
    assert [row.verdict for row in run.results] == ["PASS"] * 3
    assert {row.lossless.tier for row in run.results} == {"output"}
    assert {row.lossless.tests[0].n for row in run.results} == {800}
    assert {row.measured.blocks for row in run.results} == {800}


def test_all_rules_see_the_same_trees(run):
    assert len({row.optimum.expected_accepted for row in run.results}) == 1
    best = run.results[0].optimum
    assert (best.by, best.bound) == ("counting", True)
    assert run.models[0].bounds.coupling.upper == pytest.approx(best.expected_accepted)
    assert all(0.1 < row.optimality < 1.0 for row in run.results)


def test_the_document_is_read_again_and_drawn(run, tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(run))
    assert read_document(path) == run
    assert "Mass of nodes" in html_report(run)


def greedy_of_p(target_probs, draft_probs, tokens, parents, rng):
    """Keeps nothing, and emits the likelier of two samples."""
    row = target_probs[0]
    return [int(max(rng.choice(len(row), size=2, p=row), key=row.__getitem__))]


@pytest.mark.distribution
def test_a_wrong_rule_fails():
    """The negative control: its tokens, and how often it goes on."""
    settings = ComparisonSettings(2, 800, 0, None, 0.1, 1e-6, 0.2, 0, 1)
    rule = replace(TREE_VERIFIERS["recursive"], rule=greedy_of_p)
    trees = ModelComparison(get_model("ngram"), TREE, {"recursive": rule}, settings, lambda _: None)
    row, _ = trees.row(rule)
    assert (row.lossless.verdict, row.acceptance.verdict) == ("FAIL", "FAIL")
    assert row.measured.mean == 0.0


def test_few_blocks_are_too_few():
    found = compare(["ngram"], ["match"], gamma=2, drafting=TREE, blocks=2, detect=0.2)
    assert found.results[0].verdict == "INCONCLUSIVE"
    assert np.isfinite(found.results[0].optimality)
