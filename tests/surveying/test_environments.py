"""Each version in an environment of its own: what it asks for decides, not what is here."""

import os
import subprocess

import pytest
from support.many_versions import LOSSY, RULE, git, index, repository, wheel

import simverify
from simverify.surveying import bisect as bisect_environments
from simverify.surveying.bisect import (
    PROJECT_PLACEHOLDER,
    CheckoutError,
    Releases,
    get_environment,
    pip_constraints,
    project_environment,
    resolve_code,
)
from simverify.surveying.table import AuditOutcome, AuditProcesses

SPEC = "fake_verifier.rule:verify"
ASKS = "from fake_helper.rule import LAW\n"
"""The same rule in every release: the law is its dependency's."""

LAWS = {"1.0": "LAW = 'right'\n", "2.0": "LAW = 'wrong'\n"}


@pytest.fixture
def asked(monkeypatch, documents):
    """Answer each audit by the LAW that the version's own Python imports; return them."""
    found = []

    def audit(self, words, limit, *, python_path=(), python=""):
        place = words[0].rpartition(":")[0]
        loaded = f"exec(open({place!r}).read())" if place.endswith(".py") else f"import {place}"
        # The rule's name is not known where a file is executed.
        program = f"{loaded}\nimport fake_helper.rule as h\nprint(h.LAW)"
        paths = [*map(str, python_path), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [python, "-P", "-c", program], capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
        if done.returncode:
            return AuditOutcome("not loaded", None, done.stderr.splitlines()[-1], 4, 0.1)
        found.append(done.stdout.strip())
        run = documents[RULE if found[-1] == "right" else LOSSY]
        return AuditOutcome("judged", run, "", 0 if run.verdict == "PASS" else 1, 0.1)

    monkeypatch.setattr(AuditProcesses, "audit", audit)
    return found


@pytest.fixture
def shop(monkeypatch, tmp_path):
    """A folder of wheels with two releases of a helper, the second of which has another law."""
    folder = tmp_path / "wheels"
    index(monkeypatch, folder, {})
    for version, law in LAWS.items():
        wheel(folder, version, law, "fake-helper", "fake_helper")
    return folder


def bisect(good, bad):
    return simverify.bisect(SPEC, good, bad, package="fake-verifier")


@pytest.mark.slow
def test_the_dependency_that_a_release_asks_for_decides(asked, shop, monkeypatch, tmp_path):
    """What cannot be installed is untestable, and gone around; the rest is installed once.

    The helper that is installed here, first on PYTHONPATH, would make them all alike.
    """
    for version, pin in (("1.0", "==1.0"), ("1.1", "==9"), ("1.2", "<2"), ("1.3", "==2.0")):
        wheel(shop, version, ASKS, needs=[f"fake-helper{pin}"])
    here = tmp_path / "here" / "fake_helper"
    here.mkdir(parents=True)
    (here / "__init__.py").touch()
    (here / "rule.py").write_text(LAWS["1.0"])
    monkeypatch.setenv("PYTHONPATH", str(here.parent))
    found = bisect("1.0", "1.3")
    assert (found.outcome, found.last, found.first) == ("changed", "1.2", "1.3")
    assert found.how.startswith("PASS becomes FAIL")
    assert asked == ["right", "wrong", "right"]
    (one,) = found.skipped
    assert (one.version, one.state) == ("1.1", "untestable")
    assert "fake-helper==9" in one.reason
    assert "\n" not in one.reason
    assert "1.1: skipped; untestable: pip: " in " ".join(str(found).split())
    monkeypatch.setattr(bisect_environments, "run_pip", None)
    monkeypatch.setattr(Releases, "_listed", lambda self, *, early: ["1.0", "1.2", "1.3"])
    assert bisect("1.0", "1.3").first == "1.3"


def test_nothing_takes_the_place_of_what_simverify_needs(shop):
    """msgspec 0.1 is on the shelf: without the limits it would be installed before ours."""
    wheel(shop, "0.1", "", "msgspec", "msgspec")
    assert "msgspec>=0.20" in pip_constraints("simverify")
    with pytest.raises(CheckoutError, match="pip: "):
        get_environment([["msgspec==0.1"]], "clash")
    assert list(shop.parent.glob("environments/clash*")) == []


def test_one_that_was_not_finished_is_made_again(shop):
    made = get_environment([], "empty")
    stray = made.packages / "stray.py"
    stray.touch()
    assert get_environment([], "empty") == made
    assert stray.exists()
    (made.python.parents[1] / "complete").unlink()
    assert get_environment([], "empty") == made
    assert not stray.exists()


@pytest.mark.thorough
def test_a_release_that_is_installed_here_is_not_taken_from_here(shop):
    wheel(shop, "0.0.1", "", "pytest", "pytest")
    releases = Releases(resolve_code("pytest.rule:verify"))
    with releases.laid_out("0.0.1") as layout:
        assert (layout.folder / "pytest" / "rule.py").is_file()
        asking = "import simverify.errors, msgspec, pytest; print(pytest.__file__)"
        done = subprocess.run(
            [layout.python, "-P", "-c", asking], capture_output=True, text=True, check=True
        )
    assert done.stdout.startswith(str(layout.folder))


@pytest.mark.slow
def test_the_dependency_that_a_commit_asks_for_decides(asked, shop, tmp_path):
    folder, commits = tmp_path / "repo", []
    repository(folder, [ASKS])
    whole = '[project]\nname = "x"\ndependencies = ["fake-helper==%s"]\n'
    for text in (whole % "1.0", "[project", whole % "1.0", whole % "2.0"):
        (folder / "pyproject.toml").write_text(text)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--allow-empty", "-m", "x")
        commits.append(git(folder, "rev-parse", "HEAD"))
    found = simverify.bisect(f"{folder}/rule.py:verify", commits[0], "HEAD", engine_path=folder)
    assert (found.last, found.first) == (commits[2], commits[3])
    (one,) = found.skipped
    assert one.state == "untestable"
    assert one.reason.startswith("pyproject.toml: ")


@pytest.mark.parametrize(
    ("files", "steps"),
    [
        ({}, None),
        ({"pyproject.toml": "[tool.ruff]"}, None),
        ({"pyproject.toml": "[project]"}, None),
        ({"pyproject.toml": "[project]\ndependencies = ['a>1', 'b']"}, [["a>1", "b"]]),
        ({"pyproject.toml": "[project]\ndynamic = ['dependencies']"}, [[PROJECT_PLACEHOLDER]]),
        ({"pyproject.toml": "[build-system]"}, [[PROJECT_PLACEHOLDER]]),
        ({"setup.py": ""}, [[PROJECT_PLACEHOLDER]]),
        ({"requirements.txt": "a"}, [["--requirement", f"{PROJECT_PLACEHOLDER}/requirements.txt"]]),
    ],
)
def test_where_a_commit_says_what_it_asks_for(monkeypatch, tmp_path, files, steps):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "a" / name).write_text(text)
    asked = []
    monkeypatch.setattr(
        bisect_environments, "get_environment", lambda *given: asked.append(given[0])
    )
    project_environment(tmp_path, below / "rule.py", "1" * 40)
    assert asked == ([] if steps is None else [steps])
