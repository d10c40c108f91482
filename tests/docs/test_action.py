"""The action for GitHub: its steps, run as a script on a right and on a wrong verifier."""

import os
import subprocess
import sys

import pytest
import yaml
from docs.examples import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
TEST = """\
import pytest


def right(target_probs, draft_probs, draft_tokens, rng):
    p, q, x = target_probs[0], draft_probs[0], int(draft_tokens[0])
    if rng.random() * q[x] < p[x]:
        return [x, int(rng.choice(len(p), p=target_probs[1]))]
    residual = (p - q).clip(0)
    return [int(rng.choice(len(p), p=residual / residual.sum()))]


def wrong(target_probs, draft_probs, draft_tokens, rng):
    return [*map(int, draft_tokens), int(rng.choice(target_probs.shape[1], p=target_probs[-1]))]


@pytest.mark.distribution
def test_verifier(simverify_audit):
    simverify_audit({rule}, gamma=1, vocab=2)
"""


@pytest.fixture
def steps(tmp_path):
    """Run the steps of the action; return their exit codes, the page and the comment."""
    tools, project = tmp_path / "tools", tmp_path / "project"
    tools.mkdir()
    project.mkdir()
    python = 'case "$2" in pip) exit 0 ;; esac\n'  # what is installed is the present environment
    gh = '[ "$GH_TOKEN" ] && [ "$1 $2 $3" = "pr comment 7" ] && cp "${!#}" "$COMMENT"\n'
    for name, text in (("python", f'{python}exec "{sys.executable}" "$@"\n'), ("gh", gh)):
        (tools / name).write_text(f"#!/bin/bash\n{text}")
        (tools / name).chmod(0o755)
    page, comment = tmp_path / "page.md", tmp_path / "comment.md"

    def run(rule):
        (project / "test_rule.py").write_text(TEST.format(rule=rule))
        page.write_text("")
        comment.write_text("")
        inputs = {f"inputs.{name}": one["default"] for name, one in ACTION["inputs"].items()}
        values = inputs | {"github.token": "a token", "github.event.number": "7"}
        codes = {}
        for step in ACTION["runs"]["steps"]:
            given = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB")}
            more = {k: values[v.strip("${} ")] for k, v in step["env"].items()}
            places = {"GITHUB_STEP_SUMMARY": str(page), "COMMENT": str(comment)}
            path = {"PATH": f"{tools}:{os.environ['PATH']}"}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=project,
                env=given | more | places | path,
                capture_output=True,
                text=True,
                check=False,
            )
            codes[step["name"]] = done.returncode
        return codes, page.read_text(), comment.read_text()

    return run


def test_a_right_verifier_passes(steps):
    codes, page, comment = steps("right")
    assert codes == {"Install": 0, "Test": 0, "Comment": 0}
    assert page.startswith("### simverify: 1 passed in ")
    assert comment == page


def test_a_wrong_verifier_fails_and_is_named(steps):
    codes, page, comment = steps("wrong")
    assert codes == {"Install": 0, "Test": 1, "Comment": 0}
    assert page.startswith("### simverify: 1 failed in ")
    assert "FAILED test_rule.py::test_verifier" in comment
