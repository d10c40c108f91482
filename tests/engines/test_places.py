"""Where an engine is: installed, in a checkout, in a folder of checkouts; whose commit it has."""

import dataclasses

import pytest
from support.many_versions import git, repository

from simverify.engines import get_engine
from simverify.engines.places import checkout_of, find_place

WHERE = "https://git.example/someone/speculative"


@pytest.fixture
def engine():
    """An engine that is no package: a file at the top of a repository."""
    return dataclasses.replace(
        get_engine("lmdeploy"), name="someones", package="", source="rule.py", repository=WHERE,
        needs=(), commit="0123456",
    )  # fmt: skip


def test_an_installed_package_has_its_version():
    place = find_place(get_engine("torch-token"), [])
    assert place.folder is None
    assert place.version == get_engine("torch-token").version
    assert place.file.name == "rules.py"


def test_a_checkout_is_found_by_itself_and_among_others(engine, tmp_path):
    (commit,) = repository(tmp_path / "all" / "speculative", ["x = 1\n"])
    for folder in (tmp_path / "all", tmp_path / "all" / "speculative"):
        place = find_place(engine, [tmp_path / "none", folder])
        assert place.file.read_text() == "x = 1\n"
        assert (place.commit, place.version) == (commit, None)
    owned = tmp_path / "owned" / "someone"
    repository(owned / "speculative", ["x = 2\n"])
    assert find_place(engine, [tmp_path / "owned"]).file.read_text() == "x = 2\n"


def test_a_clone_goes_before_a_package_of_its_name(engine, tmp_path):
    unpacked = tmp_path / "unpacked" / "speculative"
    unpacked.mkdir(parents=True)
    (unpacked / "rule.py").write_text("another = 1\n")
    assert find_place(engine, [tmp_path / "unpacked"]).commit is None
    repository(tmp_path / "clones" / "speculative", ["x = 1\n"])
    found = find_place(engine, [tmp_path / "unpacked", tmp_path / "clones"])
    assert found.file.read_text() == "x = 1\n"


def test_an_edited_file_is_not_its_commit(engine, tmp_path):
    (commit,) = repository(tmp_path / "speculative", ["x = 1\n"])
    (tmp_path / "speculative" / "number.txt").write_text("another file")
    assert find_place(engine, [tmp_path]).commit == commit
    (tmp_path / "speculative" / "rule.py").write_text("x = 2\n")
    assert find_place(engine, [tmp_path]).commit == f"{commit} edited"


def test_another_repository_with_such_a_file_is_not_taken_for_it(engine, tmp_path):
    repository(tmp_path / "other", ["x = 1\n"])
    assert find_place(engine, [tmp_path / "other"]) is None
    named_alike = tmp_path / "forks" / "speculative"
    repository(named_alike, ["x = 1\n"])
    git(named_alike, "remote", "add", "origin", "git@git.example:nobody/speculative.git")
    assert find_place(engine, [tmp_path / "forks"]) is None
    git(named_alike, "remote", "set-url", "origin", "git@git.example:Someone/speculative.git")
    assert find_place(engine, [tmp_path / "forks"]) is not None


def test_a_commit_is_not_that_of_a_repository_around_it(engine, tmp_path):
    repository(tmp_path / "mine", ["x = 1\n"])
    vendored = tmp_path / "mine" / "third" / "speculative"
    vendored.mkdir(parents=True)
    (vendored / "rule.py").write_text("x = 1\n")
    assert find_place(engine, [tmp_path / "mine" / "third"]).commit is None


def test_a_package_unpacked_with_its_metadata_has_a_version(tmp_path):
    engine = get_engine("lmdeploy")
    file = tmp_path / engine.package / engine.source
    file.parent.mkdir(parents=True)
    file.touch()
    assert find_place(engine, [tmp_path]).version is None
    about = tmp_path / "lmdeploy-0.18.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lmdeploy\nVersion: 0.18.2\n")
    assert find_place(engine, [tmp_path]).version == "0.18.2"


def test_an_audit_finds_a_checkout_as_the_table_does(engine, tmp_path):
    pinned, other = (tmp_path / f"speculative@{commit}" for commit in (engine.commit, "fedcba9"))
    for folder in (pinned, other):
        repository(folder, ["x = 1\n"])
    assert checkout_of(engine, tmp_path) == pinned
    assert checkout_of(engine, other) == other  # nothing of it there: the load says so
    assert checkout_of(engine, tmp_path / "fork") == tmp_path / "fork"
