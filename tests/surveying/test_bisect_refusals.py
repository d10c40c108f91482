"""Checkouts and commits that cannot be bisected: each is one line, with one advice."""

import pytest
from support.many_versions import LOSSY, RULE, git, repository

import simverify
from simverify import UsageError
from simverify.engines import get_engine


def bisect_commits(folder, good, bad):
    return simverify.bisect(f"{folder}/rule.py:verify", good, bad, engine_path=folder)


def test_commits_that_cannot_be_bisected_are_one_line(audits, tmp_path):
    folder = tmp_path / "repo"
    commits = repository(folder, [RULE, LOSSY])
    git(folder, "checkout", "--quiet", "-b", "other", commits[0])
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "aside")
    for good, bad, words in (
        (commits[1], commits[0], "comes after bad"),
        ("other", commits[1], "is no ancestor of bad"),
        (commits[0], commits[0], "are one commit"),
        ("v9", commits[0], "good is 'v9', which is no commit"),
    ):
        with pytest.raises(UsageError, match=words):
            bisect_commits(folder, good, bad)
    with pytest.raises(UsageError, match="no git history"):
        bisect_commits(tmp_path, "a", "b")


def test_a_checkout_of_something_else_is_named_with_one_advice(audits, tmp_path):
    """Before any commit is laid out; where some commits have the file, theirs is the advice."""
    folder = tmp_path / "theirs"
    commits = repository(folder, [RULE, LOSSY])
    with pytest.raises(UsageError) as error:
        simverify.bisect("lmdeploy", *commits, engine_path=folder)
    file = get_engine("lmdeploy").file
    assert str(error.value) == (
        f"{folder} has no {file}, nor had it at {commits[0]} or {commits[1]}: name the top of a "
        "checkout of lmdeploy"
    )
    assert audits == []
    whole = folder / file
    whole.parent.mkdir(parents=True)
    whole.write_text(RULE)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "theirs")
    with pytest.raises(UsageError) as error:
        simverify.bisect("lmdeploy", commits[0], "HEAD", engine_path=folder)
    assert str(error.value) == (
        f"good {commits[0][:10]} cannot be judged: it has no {file}: name another commit"
    )
