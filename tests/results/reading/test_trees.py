"""Run files on draft trees that contradict themselves: each is refused by its field."""

import json

import pytest

import simverify
from simverify.errors import UsageError
from simverify.results.reading.document import document_text, read_document


@pytest.fixture(scope="module")
def text():
    run = simverify.compare(
        ["toy"],
        ["block", "recursive"],
        tree="2,1",
        blocks=20_000,
        detect=0.2,
        threads=1,
        batch_size=8,
        free_rows=64,
    )
    return document_text(run)


def test_it_reads_as_it_is(text, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(text)
    assert document_text(read_document(path)) == text


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("drafting", "parents"), [], "drafting.parents is empty"),
        (("drafting", "parents"), [-1, 1, 0, 1], "drafting.parents[1] is 1"),
        (("drafting", "parents"), [-1, -1, 0, 2], "gamma is 2: expected 3, the depth"),
        (("drafting", "parents"), [-1, -1, 0], "results[1].nodes has 4 values: expected 3"),
        (("drafting",), None, "results[0].one_draft is true without drafting"),
        (("results", 1, "nodes"), [0.5, 0.5, 0.1, 0.1], "results[1].nodes add up to 1 at level 1"),
        (("results", 1, "nodes"), [0.5, 0.1, 0.6, 0.1], "results[1].nodes[2] is 0.6: expected 0"),
        (("results", 0, "nodes"), [0.5], "results[0].nodes stands beside a single draft"),
        (("results", 0, "node_counts"), {"calls": 9, "kept": [1]}, "results[0].node_counts stands"),
        (("results", 1, "node_counts", "calls"), 20_001, "node_counts.calls is 20,001: expected 1"),
        (("results", 1, "node_counts", "calls"), 0, "node_counts.calls is 0: expected 1 to 20,000"),
        (("results", 1, "node_counts", "calls"), 9, "results[1].node_counts.kept[0] is "),
        (("results", 1, "node_counts", "kept"), [1, 1, 2, 0], "node_counts.kept[2] is 0.0001: exp"),
        (("results", 1, "node_counts", "kept"), [1], "node_counts.kept has 1 values: expected 4"),
        (("results", 1, "optimum", "name"), "block", "results[1].optimum.name is block"),
        (("results", 0, "optimum", "name"), "memoryless", "results[0].optimum.name is memoryless"),
        (("results", 1, "optimum", "by"), None, "results[1].optimum.by is None"),
        (("results", 1, "optimum", "bound"), True, "results[1].optimum.bound is true"),
        (("results", 1, "optimality"), 0.99, "results[1].optimality is 0.99: expected 0."),
        (("results", 1, "speedup", "rows"), 3, "results[1].speedup.rows is 3: expected 5"),
        (("results", 0, "speedup", "rows"), 5, "results[0].speedup.rows is 5: expected 3"),
        (("results", 0, "speedup", "batch_size"), 0, "speedup.batch_size is 0: expected 1 or more"),
        (("results", 0, "speedup", "free_rows"), 0.5, "free_rows is 0.5: expected 1 or more"),
    ],
)
def test_what_does_not_go_together_is_refused(text, tmp_path, keys, value, said):
    run = json.loads(text)
    at = run
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    with pytest.raises(UsageError) as error:
        read_document(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
