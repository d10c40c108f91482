"""The benchmark of draft trees runs, and its references are right; nothing here is timed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.oracles.tree_laws import float_tree_law

from simverify.models.base import compact
from simverify.symbolic.paths import ForkedGenerator, explore
from simverify.trees import SCHEMES, Drafting, TreeShape
from simverify.verifiers.trees import TREE_VERIFIERS

pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHAPE = TreeShape((-1, -1, 0, 1, 1))


@pytest.fixture(scope="module")
def references():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import tree_references
    finally:
        sys.path.pop(0)
    return tree_references


@pytest.mark.parametrize(("rule", "other"), [("k-seq", "recursive"), ("recursive", "k-seq")])
@pytest.mark.thorough
def test_law_of_the_numpy_reference(references, rule, other):
    trees = references.NumpyTrees(compact(), SHAPE)
    law = {}
    for emitted, weight in explore(
        lambda path: tuple(
            trees.verify(rule, *trees.draw(ForkedGenerator(path)), ForkedGenerator(path))
        )
    ):
        law[emitted] = law.get(emitted, 0) + weight

    def distance(name):
        readable = TREE_VERIFIERS[name].rule
        exact = float_tree_law(readable, compact(), Drafting(SHAPE, SCHEMES["iid"]))
        return max(abs(law.get(key, 0) - exact.get(key, 0)) for key in law.keys() | exact.keys())

    assert distance(rule) < 1e-12
    assert distance(other) > 0.01


@pytest.mark.slow
def test_it_runs(tmp_path):
    path = tmp_path / "trees.json"
    run = subprocess.run(
        [sys.executable, str(BENCHMARKS / "tree_speed.py"), "--quick", "--json", str(path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    document = json.loads(path.read_text())
    assert {check["reference"] for check in document["checks"]} == {
        "numpy k-seq", "numpy recursive", "torch k-seq", "torch recursive",
    }  # fmt: skip
    for check in document["checks"]:
        low, high = check["interval"]
        assert low <= check["exact"] <= high
        assert not low <= check["excluded"] <= high
    # The toy, one level of two drafts.
    assert {round(check["exact"], 6) for check in document["checks"]} == {0.811420, 0.777778}
    assert all(speed["per_cpu_second"]["min"] > 0 for speed in document["speeds"])
    assert [list(row["nanoseconds"]) for row in document["nodes"]] == 7 * [["8", "16", "32", "64"]]
