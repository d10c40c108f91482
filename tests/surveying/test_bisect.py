"""Which release, or which commit: found, named, skipped, refused."""

from contextlib import contextmanager
from dataclasses import replace

import msgspec
import pytest
from support.many_versions import (
    BROKEN,
    EDITED,
    LOSSY,
    RULE,
    SAMPLED,
    SMALL,
    git,
    index,
    repository,
    state,
    wheel,
)

import simverify
from simverify import UsageError
from simverify.cli import run
from simverify.engines import get_engine
from simverify.options.surveys import BisectOptions
from simverify.results import Localisation
from simverify.results.reading import read_document
from simverify.surveying.bisect import (
    CheckedOutVersion,
    Releases,
    bisect,
    resolve_code,
)
from simverify.surveying.table import AuditOutcome, AuditProcesses

SPEC = "fake_verifier.rule:verify"
PACKAGE = {"package": "fake-verifier"}


class Shelf:
    """A source of releases whose files are written when they are asked for: no pip takes part."""

    kind, package = "releases", "shelf"

    def __init__(self, folder, texts):
        self.folder, self.texts = folder, texts

    def between(self, good, bad):
        return tuple(self.texts)

    def title(self, version):
        return ""

    @contextmanager
    def laid_out(self, version):
        (self.folder / "rule.py").write_text(self.texts[version])
        yield CheckedOutVersion(self.folder, (f"{self.folder}/rule.py:verify",))


def bisect_shelf(folder, texts, what="law"):
    """Bisect rules with these texts, called 1.0, 1.1 and so on."""
    shelf = Shelf(folder, {f"1.{n}": text for n, text in enumerate(texts)})
    first, *_, last = shelf.texts
    code = resolve_code("rule.py:verify")
    return bisect(code, shelf, first, last, BisectOptions(what=what), "again")


def bisect_releases(good, bad, **options):
    return simverify.bisect(SPEC, good, bad, **PACKAGE, **options)


def bisect_commits(folder, good, bad, **options):
    return simverify.bisect(f"{folder}/rule.py:verify", good, bad, engine_path=folder, **options)


@pytest.mark.thorough
def test_the_first_release_that_differs_is_named_and_how(audits, monkeypatch, tmp_path):
    """Sorted as versions are: as texts, 1.10 would come before 1.9."""
    index(monkeypatch, tmp_path, {"1.8": RULE, "1.9": EDITED, "1.10": LOSSY})
    found = bisect_releases("1.8", "1.10")
    assert (found.outcome, found.last, found.first) == ("changed", "1.9", "1.10")
    assert found.versions == ("1.8", "1.9", "1.10")
    assert found.how.startswith("PASS becomes FAIL; on ")
    assert found.differences[0].after.max_abs_deviation > 0.05
    assert found.exit_code == 1


@pytest.mark.thorough
def test_the_first_commit_that_differs_is_named_and_the_checkout_left_alone(audits, tmp_path):
    folder = tmp_path / "repo"
    commits = repository(folder, [RULE, EDITED, RULE, RULE, LOSSY, LOSSY])
    (folder / "rule.py").write_text("edited and not committed")
    before = state(folder)
    found = bisect_commits(folder, commits[0], "HEAD")
    assert (found.last, found.first) == (commits[3], commits[4])
    assert found.versions == tuple(commits)
    assert next(x.title for x in found.tried if x.version == found.first) == "change 4"
    assert state(folder) == before


@pytest.mark.parametrize("planted", range(1, 8))
def test_wherever_the_change_is_it_is_found(audits, tmp_path, planted):
    found = bisect_shelf(tmp_path, [RULE] * planted + [LOSSY] * (8 - planted))
    assert found.first == f"1.{planted}"
    assert len(audits) <= 5


def test_no_change_is_said(audits, tmp_path):
    found = bisect_shelf(tmp_path, [RULE, LOSSY, EDITED])
    assert (found.outcome, found.first, found.exit_code) == ("unchanged", None, 0)
    assert len(audits) == 2
    assert "no change: 1.2 of shelf has the distribution of 1.0" in str(found)


def test_another_expected_value_is_a_change_of_the_law_and_not_of_the_verdict(audits, tmp_path):
    texts = [RULE, RULE, SAMPLED, LOSSY]
    law, verdict = (bisect_shelf(tmp_path, texts, what) for what in ("law", "verdict"))
    assert (law.first, verdict.first) == ("1.2", "1.3")
    assert law.how.startswith("on ")
    assert "E[tau] is 0, before" in law.how
    assert not any(one.after.max_abs_deviation > 1e-9 for one in law.differences)


def test_the_line_is_named_below_the_release_that_was_laid_out(monkeypatch, audits, tmp_path):
    """Its folder is gone when a reader sees it."""
    asked = AuditProcesses.audit

    def audit(self, words, limit, *, python_path=(), python=""):
        audited = asked(self, words, limit, python_path=python_path, python=python)
        file = words[0].removesuffix(":verify")
        place = Localisation(0, "residual", 0.1, (f"{file}:7",))
        return replace(audited, run=msgspec.structs.replace(audited.run, localisation=place))

    monkeypatch.setattr(AuditProcesses, "audit", audit)
    found = bisect_shelf(tmp_path, [RULE, LOSSY])
    assert found.lines == ("rule.py:7",)
    assert "line: rule.py:7" in str(found)


def test_what_does_not_load_is_skipped_and_said(audits, tmp_path):
    found = bisect_shelf(tmp_path, [RULE, RULE, BROKEN, RULE, LOSSY])
    assert (found.outcome, found.last, found.first) == ("changed", "1.3", "1.4")
    assert [one.version for one in found.skipped] == ["1.2"]
    assert "skipped: 1.2" in str(found)
    assert "/tmp" not in str(found)


def test_where_it_hides_among_the_skipped_a_range_is_named(audits, tmp_path):
    found = bisect_shelf(tmp_path, [RULE, RULE, BROKEN, BROKEN, LOSSY])
    assert (found.outcome, found.last, found.first) == ("open", "1.1", "1.4")
    assert found.exit_code == 3
    assert "could not be judged: 1.2, 1.3" in " ".join(str(found).split())


@pytest.mark.thorough
def test_a_release_without_the_package_is_skipped_not_taken_from_elsewhere(
    audits, monkeypatch, tmp_path
):
    """Python would go on to the copy that is installed."""
    index(monkeypatch, tmp_path, {"1.0": RULE, "1.2": LOSSY})
    wheel(tmp_path, "1.1", RULE, module="other_name")
    found = bisect_releases("1.0", "1.2")
    (skipped,) = found.skipped
    assert skipped.reason == "it has no package 'fake_verifier'"


def test_neighbours_have_nothing_between(audits, tmp_path):
    found = bisect_shelf(tmp_path, [RULE, LOSSY])
    assert found.first == "1.1"
    assert "no release lies between 1.0 and 1.1" in str(found)


def test_pre_releases_are_left_out_unless_one_is_named(audits, monkeypatch, tmp_path):
    index(monkeypatch, tmp_path, {"1.0": RULE, "1.1rc1": LOSSY, "1.1": LOSSY})
    releases = Releases(resolve_code(SPEC), "fake-verifier")
    assert releases.between("1.0", "1.1") == ("1.0", "1.1")
    assert releases.between("1.0", "1.1rc1") == ("1.0", "1.1rc1")


@pytest.mark.parametrize(
    ("texts", "what", "words"),
    [
        ((LOSSY, LOSSY), "verdict", "good 1.0 is not good: it is a FAIL: "),
        ((BROKEN, LOSSY), "law", "good 1.0 cannot be judged: rule.py fails to load"),
        ((RULE, BROKEN), "law", "bad 1.1 cannot be judged: rule.py fails to load"),
    ],
)
def test_ends_that_are_not_what_they_should_be_are_one_line(audits, tmp_path, texts, what, words):
    with pytest.raises(UsageError, match=words) as error:
        bisect_shelf(tmp_path, texts, what)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("1.1", "1.0", "good 1.1 comes after bad 1.0"),
        ("1.0", "1.0", "good 1.0 is bad 1.0"),
        ("1.0", "2.0", "no release 2.0: the index has 1.0 to 1.1"),
        ("HEAD~3", "1.1", "good is 'HEAD~3': expected a release"),
    ],
)
def test_releases_that_cannot_be_bisected_are_one_line(monkeypatch, good, bad, words):
    monkeypatch.setattr(Releases, "_listed", lambda self, *, early: ["1.1", "1.0"])
    with pytest.raises(UsageError, match=words) as error:
        bisect_releases(good, bad)
    assert "\n" not in str(error.value)


def test_a_package_that_pip_does_not_know_is_one_line(audits, monkeypatch, tmp_path):
    index(monkeypatch, tmp_path, {"1.0": RULE})
    with pytest.raises(UsageError, match="pip lists no release of no-such-thing"):
        simverify.bisect(SPEC, "1.0", "1.1", package="no-such-thing")


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("token", {}, "is no engine and no module:attribute"),
        ("torch-token", {}, "is simverify's own"),
        ("rule.py:verify", {}, "a file has no releases: .*--engine-path"),
        (
            SPEC,
            {"engine_path": ".", "package": "x"},
            "package is for releases, not for the commits of a checkout",
        ),
        ("transformers", {"contract": "step"}, "contract is not for an engine"),
    ],
)
def test_what_has_no_versions_is_one_line(spec, options, words):
    with pytest.raises(UsageError, match=words):
        simverify.bisect(spec, "1.0", "1.1", **options)


@pytest.mark.thorough
def test_it_is_saved_read_and_reported(audits, monkeypatch, tmp_path, capsys):
    index(monkeypatch, tmp_path / "wheels", {"1.0": RULE, "1.1": LOSSY})
    words = ("--good", "1.0", "--bad", "1.1", "--package", "fake-verifier", "--quiet")
    code = run(["bisect", SPEC, *words, "--report", str(tmp_path / "all")])
    out = capsys.readouterr().out
    assert code == 1
    assert all(len(line) <= 80 for line in out.splitlines())
    again = read_document(tmp_path / "all" / "run.json")
    assert str(again) == out.rstrip("\n")
    page = (tmp_path / "all" / "report.html").read_text()
    assert "1.1 is the first release of fake-verifier that differs" in page.replace("\n", " ")
    assert "<title>Bisect: " in page


def test_the_folder_of_a_release_is_not_named(monkeypatch, tmp_path):
    def audit(self, words, limit, **_):
        reason = f"no rule.py in {tmp_path}, nor {tmp_path}/src/rule.py"
        return AuditOutcome("not loaded", None, reason, 4, 0.5)

    monkeypatch.setattr(AuditProcesses, "audit", audit)
    with pytest.raises(UsageError, match=r"judged: no rule\.py in shelf 1\.0, nor src/rule\.py: "):
        bisect_shelf(tmp_path, [RULE, LOSSY])


@pytest.mark.slow
def test_whole_releases_and_commits_in_processes(monkeypatch, tmp_path, capsys):
    index(monkeypatch, tmp_path / "w", {"1.0": RULE, "1.1": EDITED, "1.2": BROKEN, "1.3": LOSSY})
    words = ("--good", "1.0", "--bad", "1.3", "--package", "fake-verifier", *SMALL)
    assert run(["bisect", SPEC, *words]) == 3
    out = capsys.readouterr().out
    assert "1.2: skipped; not loaded: fake_verifier.rule fails to load: RuntimeError" in out
    folder = tmp_path / "repo"
    commits = repository(folder, [RULE, EDITED, LOSSY])
    found = bisect_commits(folder, commits[0], commits[2], gamma=1, vocab=2)
    assert (found.last, found.first) == (commits[1], commits[2])
    same = bisect_commits(folder, commits[0], commits[1], gamma=1, vocab=2)
    assert same.outcome == "unchanged"


# Checkouts and commits that cannot be bisected: each is one line, with one advice.


def bisect_commits_bisect_refusals(folder, good, bad):
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
            bisect_commits_bisect_refusals(folder, good, bad)
    with pytest.raises(UsageError, match="no git history"):
        bisect_commits_bisect_refusals(tmp_path, "a", "b")


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
