"""The workflow to copy, its steps run as a script in a repository with a small verifier."""

import os
import re
import shutil
import subprocess
import sys

import msgspec
import pytest
import yaml
from docs.examples import ROOT
from support.baseline_runs import drawn
from support.levels import at_night

from simverify.results.reading import document_text

FILE = ROOT / "docs" / "how-to" / "simverify.yml"
TOKEN = """\
import numpy as np


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if rng.random() * q[token] >= p[token]:
            residual = np.maximum(p - q, 0)
            return [*draft_tokens[:i], int(rng.choice(len(p), p=residual / residual.sum()))]
    return [*draft_tokens, int(rng.choice(len(p), p=target_probs[-1]))]
"""
FAULTY = TOKEN.replace("np.maximum(p - q, 0)", "np.array(p)")
SLOWER = TOKEN.replace(
    "        if rng", "        if rng.random() < 0.05:\n"
    "            return [*draft_tokens[:i], int(rng.choice(len(p), p=p))]\n        if rng",
)  # fmt: skip
"""Lossless, and keeps fewer tokens: it looks away at times, and draws from the target."""


class Repository:
    """A repository that copied the workflow; what its steps printed, by name."""

    def __init__(self, folder, artifacts, tools):
        self.folder, self.artifacts, self.tools = folder, artifacts, tools
        self.summary = folder.parent / "summary"

    def job(self, code, event, **names):
        """Run the steps as GitHub does: after a failure only those that run unless cancelled."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "my_sampler.py").write_text(code)
        self.summary.write_text("")
        document = yaml.safe_load(FILE.read_text())
        self.said, self.codes, failed = {}, {}, False
        for step in document["jobs"]["lossless"]["steps"]:
            rule = step.get("if", "success()")
            if failed and "!cancelled()" not in rule:
                continue
            if "event_name == 'push'" in rule and event != "push":
                continue
            if "uses" in step:
                if (
                    step["uses"].startswith("actions/upload-artifact")
                    and "baseline" in step["name"]
                ):
                    shutil.copy(self.folder / step["with"]["path"], self.artifacts)
                continue
            done = self._step(step, document["env"] | names | {"GITHUB_EVENT_NAME": event})
            self.said[step["name"]] = done.stdout + done.stderr
            self.codes[step["name"]] = done.returncode
            failed = failed or done.returncode != 0
        return failed

    def one(self, name, event, files):
        """Run a single step in a folder of these files; return its exit code."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for path, data in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(data)
        self.summary.write_text("")
        document = yaml.safe_load(FILE.read_text())
        steps = {step.get("name"): step for step in document["jobs"]["lossless"]["steps"]}
        environment = document["env"] | {"GITHUB_EVENT_NAME": event}
        done = self._step(steps[name], environment)
        self.said = {name: done.stdout + done.stderr}
        return done.returncode

    def _step(self, step, environment):
        given = {k: v for k, v in os.environ.items() if not k.startswith(("SIMVERIFY_R", "GITHUB"))}
        own = {k: "main" if "github." in v else v for k, v in step.get("env", {}).items()}
        path = {"PATH": f"{self.tools}:{os.environ['PATH']}"}
        page = {"GITHUB_STEP_SUMMARY": str(self.summary), "ARTIFACTS": str(self.artifacts)}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder, env=given | environment | own | page | path, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip


GH = """\
#!/bin/bash
# Stands for GitHub's own command: a list of runs, and an artifact of the one that has it.
[ "$GH_TOKEN" ] || exit 4
case "$1 $2" in
  "run list") printf '%s\\n' 12 11 ;;
  "run download") [ "$3" = 11 ] && cp "$ARTIFACTS/base.json" "$7" ;;
esac
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workflow")
    tools, artifacts = folder / "tools", folder / "artifacts"
    tools.mkdir()
    artifacts.mkdir()
    python = 'case "$2" in pip) exit 0 ;; esac\n'  # what is installed is the present environment
    for name, text in (
        ("python", f'#!/bin/bash\n{python}exec "{sys.executable}" "$@"\n'),
        ("simverify", f'#!/bin/bash\nexec "{sys.executable}" -m simverify "$@"\n'),
        ("gh", GH),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return Repository(folder / "repository", artifacts, tools)


def test_it_can_be_copied():
    document = yaml.safe_load(FILE.read_text())
    assert document[True] == {"pull_request": None, "push": {"branches": ["main"]}}  # YAML's "on"
    assert document["permissions"] == {"contents": "read", "actions": "read"}
    for step in document["jobs"]["lossless"]["steps"]:
        # What a pull request may name never becomes part of a script.
        assert "${{" not in step.get("run", "")


@pytest.mark.slow
def test_a_rerun_passes_and_a_drop_is_called_worse(repository):
    assert not repository.job(TOKEN, "push"), repository.said
    assert "No baseline yet." in repository.summary.read_text()
    assert (repository.artifacts / "base.json").is_file()

    assert not repository.job(TOKEN, "pull_request"), repository.said
    assert "## PASS: baseline base" in repository.summary.read_text()
    assert repository.said["Annotate"].startswith("::notice")
    assert "Keep the baseline" not in repository.said

    assert repository.job(SLOWER, "pull_request")
    assert repository.codes["Audit"] == 0
    assert repository.codes["Check against the baseline"] == 1
    page = repository.summary.read_text()
    assert "## FAIL: baseline base" in page
    assert "WORSE" in page


@pytest.mark.thorough
def test_a_fault_is_annotated_at_its_line(repository):
    assert repository.job(FAULTY, "pull_request", GAMMA="1")
    assert repository.codes == {"Install": 0, "Audit": 1, "Annotate": 0}
    line = next(n for n, text in enumerate(FAULTY.splitlines(), 1) if "np.array(p)" in text)
    place = re.match(r"::error file=my_sampler\.py,line=(\d+),", repository.said["Annotate"])
    assert place is not None, repository.said["Annotate"]
    assert int(place[1]) == line + 1  # where the token is drawn from what that line made
    page = repository.summary.read_text()
    assert page.count("FAIL: my") == 1
    assert "PASS" not in page


BASE = ".simverify/baselines/base.json"


CHECK = "Check against the baseline"


@pytest.mark.parametrize(
    "kind", at_night(("of another law", "cut off", "empty"), but=("of another law",))
)
@pytest.mark.thorough
def test_a_baseline_that_does_not_compare_stops_no_push_for_ever(repository, kind):
    """No run succeeded any more, so that none kept a baseline that would have compared."""
    run = drawn(200_000)
    whole = document_text(run).encode()
    base = {
        "of another law": document_text(msgspec.structs.replace(run, eos=2)).encode(),
        "cut off": whole[:100],
        "empty": b"",
    }[kind]
    assert repository.one(CHECK, "pull_request", {"run.json": whole, BASE: base}) == 2
    assert "Traceback" not in repository.said[CHECK]
    assert repository.one(CHECK, "push", {"run.json": whole, BASE: base}) == 0
    assert "this run replaces it" in repository.summary.read_text()


@pytest.mark.parametrize("event", at_night(("push", "pull_request"), but=("push",)))
@pytest.mark.thorough
def test_a_baseline_that_compares_is_not_replaced(repository, event):
    whole, worse = (document_text(drawn(200_000, share)).encode() for share in (1.0, 0.95))
    assert repository.one(CHECK, event, {"run.json": worse, BASE: whole}) == 1
    assert repository.one(CHECK, event, {"run.json": whole, BASE: whole}) == 0
    assert "replaces" not in repository.summary.read_text()


def test_no_verdict_is_said_on_the_page(repository):
    assert repository.one("Annotate", "pull_request", {"my_sampler.py": b"1/0"}) == 0
    assert repository.said["Annotate"].startswith("::error::No verdict on my_sampler.py:verify")
    assert repository.summary.read_text() == "No verdict: the Audit step says why.\n"
