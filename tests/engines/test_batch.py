"""."""

import dataclasses

import numpy as np
import pytest
from support.many_versions import git, repository

from simverify.engines import Batch, Emitted, get_engine
from simverify.engines.base import find_checkout, locate_engine
from simverify.engines.fake_models import draw_token_tree, likeliest_paths
from simverify.errors import UsageError

GOOD = {
    "draft_tokens": np.array([[0, 2], [1, -1]]),
    "target_probs": np.full((2, 3, 3), 1 / 3),
    "draft_probs": np.full((2, 2, 3), 1 / 3),
    "draft_len": np.array([2, 1]),
}


def test_a_ragged_batch_knows_its_sizes():
    batch = Batch(**GOOD)
    assert (batch.size, batch.gamma, batch.vocab_size) == (2, 2, 3)
    assert Batch(**{**GOOD, "draft_probs": None}).draft_probs is None


def test_a_block_is_a_batch_of_one_and_copied():
    p = np.full((3, 4), 0.25)
    batch = Batch.of_block(p, p[:2], np.array([3, 0]))
    assert batch.draft_tokens.tolist() == [[3, 0]]
    assert batch.draft_len.tolist() == [2]
    batch.target_probs[0, 0, 0] = 9
    assert p[0, 0] == 0.25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draft_tokens": np.array([[0, 3], [1, -1]])}, r"draft_tokens\[0, 1\] = 3: pass an id"),
        ({"draft_tokens": np.array([[0, -1], [1, -1]])}, r"draft_tokens\[0, 1\] = -1: pass an id"),
        ({"draft_tokens": np.array([[0, 2], [1, 0]])}, r"draft_tokens\[1, 1\] = 0: pass -1"),
        ({"draft_tokens": np.array([0, 2])}, r"pass int64 \(B, G\)"),
        ({"draft_tokens": GOOD["draft_tokens"].astype(float)}, "float64"),
        ({"target_probs": np.ones((2, 2, 3))}, r"\(2, 3, V\)"),
        ({"target_probs": np.ones((2, 3, 3), dtype=np.float32)}, "float32: pass float64"),
        ({"draft_probs": np.ones((2, 2, 4))}, r"\(2, 2, 3\), or None"),
        ({"draft_len": np.array([2, 3])}, r"in 0\.\.2"),
        ({"draft_len": np.array([2])}, r"int64 \(2,\)"),
    ],
)
def test_bad_batches_say_what_to_pass(change, message):
    with pytest.raises(UsageError, match=message):
        Batch(**{**GOOD, **change})


def test_rows_that_probes_need_are_let_through():
    Batch(**{**GOOD, "target_probs": np.full((2, 3, 3), np.nan)})
    Batch(**{**GOOD, "draft_probs": np.zeros((2, 2, 3))})


def test_emitted_rows_lose_their_padding():
    emitted = Emitted(np.array([[0, 1, 2], [1, -1, -1]]), np.array([3, 1]))
    assert [emitted.row(0), emitted.row(1)] == [[0, 1, 2], [1]]


@pytest.mark.parametrize(
    ("tokens", "count", "message"),
    [
        ([[0, 1, 2], [1, 5, -1]], [3, 1], "pad with -1"),
        ([[0, 1, 2], [1, -1, -1]], [3, 4], r"in 0\.\.3"),
        ([[0, 1, 2], [1, -1, -1]], [3], r"int64 \(2,\)"),
        ([0, 1], [2], r"\(B, G\+1\)"),
    ],
)
def test_bad_results_say_what_to_return(tokens, count, message):
    with pytest.raises(UsageError, match=message):
        Emitted(np.array(tokens), np.array(count))


def test_two_children_of_the_root_and_one_of_every_other_node():
    asked = []

    def draft(prefix):
        asked.append(prefix)
        return np.eye(4)[len(prefix)]

    def children(row, count):
        return [int(row.argmax()) - i for i in range(count)]

    tree = draw_token_tree(draft, (0,), 2, children)
    assert tree.paths == [(), (1,), (0,), (1, 2), (0, 2)]
    assert tree.parents == [-1, 0, 0, 1, 2]
    assert tree.tokens == [1, 0, 2, 2]
    assert tree.children == [[1, 2], [3], [4], [], []]
    assert asked == [(0,), (0, 1), (0, 0)]
    assert tree.rows(draft).argmax(-1).tolist() == [1, 2, 2, 3, 3]


def test_a_draft_may_have_fewer_tokens_than_children():
    tree = draw_token_tree(lambda prefix: None, (), 2, lambda row, count: [3])
    assert (tree.paths, tree.parents) == ([(), (3,), (3, 3)], [-1, 0, 1])


def test_the_likeliest_tokens_after_every_node_and_the_likeliest_first():
    rows = {(0,): [0.2, 0.5, 0.3], (0, 1): [0.4, 0.4, 0.2], (0, 2): [0.1, 0.2, 0.7]}
    draft = lambda prefix: np.array(rows[prefix])  # noqa: E731
    assert likeliest_paths(draft, (0,), 2, 2) == [(1, 0), (1, 1), (2, 2), (2, 1)]
    assert likeliest_paths(draft, (0,), 0, 2) == [()]
    assert likeliest_paths(lambda prefix: np.ones(1), (), 2, 2) == [(0, 0)]


# Where an engine is: installed, in a checkout, in a folder of checkouts; whose commit it has.


WHERE = "https://git.example/someone/speculative"


@pytest.fixture
def engine():
    """An engine that is no package: a file at the top of a repository."""
    return dataclasses.replace(
        get_engine("lmdeploy"), name="someones", package="", source="rule.py", repository=WHERE,
        needs=(), commit="0123456",
    )  # fmt: skip


def test_an_installed_package_has_its_version():
    place = locate_engine(get_engine("torch-token"), [])
    assert place.folder is None
    assert place.version == get_engine("torch-token").version
    assert place.file.name == "rules.py"


def test_a_checkout_is_found_by_itself_and_among_others(engine, tmp_path):
    (commit,) = repository(tmp_path / "all" / "speculative", ["x = 1\n"])
    for folder in (tmp_path / "all", tmp_path / "all" / "speculative"):
        place = locate_engine(engine, [tmp_path / "none", folder])
        assert place.file.read_text() == "x = 1\n"
        assert (place.commit, place.version) == (commit, None)
    owned = tmp_path / "owned" / "someone"
    repository(owned / "speculative", ["x = 2\n"])
    assert locate_engine(engine, [tmp_path / "owned"]).file.read_text() == "x = 2\n"


def test_a_clone_goes_before_a_package_of_its_name(engine, tmp_path):
    unpacked = tmp_path / "unpacked" / "speculative"
    unpacked.mkdir(parents=True)
    (unpacked / "rule.py").write_text("another = 1\n")
    assert locate_engine(engine, [tmp_path / "unpacked"]).commit is None
    repository(tmp_path / "clones" / "speculative", ["x = 1\n"])
    found = locate_engine(engine, [tmp_path / "unpacked", tmp_path / "clones"])
    assert found.file.read_text() == "x = 1\n"


def test_an_edited_file_is_not_its_commit(engine, tmp_path):
    (commit,) = repository(tmp_path / "speculative", ["x = 1\n"])
    (tmp_path / "speculative" / "number.txt").write_text("another file")
    assert locate_engine(engine, [tmp_path]).commit == commit
    (tmp_path / "speculative" / "rule.py").write_text("x = 2\n")
    assert locate_engine(engine, [tmp_path]).commit == f"{commit} edited"


def test_another_repository_with_such_a_file_is_not_taken_for_it(engine, tmp_path):
    repository(tmp_path / "other", ["x = 1\n"])
    assert locate_engine(engine, [tmp_path / "other"]) is None
    named_alike = tmp_path / "forks" / "speculative"
    repository(named_alike, ["x = 1\n"])
    git(named_alike, "remote", "add", "origin", "git@git.example:nobody/speculative.git")
    assert locate_engine(engine, [tmp_path / "forks"]) is None
    git(named_alike, "remote", "set-url", "origin", "git@git.example:Someone/speculative.git")
    assert locate_engine(engine, [tmp_path / "forks"]) is not None


def test_a_commit_is_not_that_of_a_repository_around_it(engine, tmp_path):
    repository(tmp_path / "mine", ["x = 1\n"])
    vendored = tmp_path / "mine" / "third" / "speculative"
    vendored.mkdir(parents=True)
    (vendored / "rule.py").write_text("x = 1\n")
    assert locate_engine(engine, [tmp_path / "mine" / "third"]).commit is None


def test_a_package_unpacked_with_its_metadata_has_a_version(tmp_path):
    engine = get_engine("lmdeploy")
    file = tmp_path / engine.package / engine.source
    file.parent.mkdir(parents=True)
    file.touch()
    assert locate_engine(engine, [tmp_path]).version is None
    about = tmp_path / "lmdeploy-0.18.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lmdeploy\nVersion: 0.18.2\n")
    assert locate_engine(engine, [tmp_path]).version == "0.18.2"


def test_an_audit_finds_a_checkout_as_the_table_does(engine, tmp_path):
    pinned, other = (tmp_path / f"speculative@{commit}" for commit in (engine.commit, "fedcba9"))
    for folder in (pinned, other):
        repository(folder, ["x = 1\n"])
    assert find_checkout(engine, tmp_path) == pinned
    assert find_checkout(engine, other) == other  # nothing of it there: the load says so
    assert find_checkout(engine, tmp_path / "fork") == tmp_path / "fork"
