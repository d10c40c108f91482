"""The plugin, in pytest runs of their own: what it says, when it fails, what it loads."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.pytest_runs import run_pytest

pytestmark = pytest.mark.thorough

TESTS = Path(__file__).parents[1]

RULES = """
import numpy as np

def verify(p, q, drafted, rng, same=False):
    for i, x in enumerate(drafted):
        u = rng.random()
        if u * q[i, x] >= p[i, x]:
            residual = np.clip(p[i] - q[i], 0, None)
            cdf = np.cumsum(residual / residual.sum())
            v = u if same else rng.random()
            last = np.searchsorted(cdf, v, side="right")
            return [*map(int, drafted[:i]), min(int(last), int(np.nonzero(residual)[0][-1]))]
    return [*map(int, drafted), int(rng.choice(len(p[-1]), p=p[-1]))]

def reused(p, q, drafted, rng):
    return verify(p, q, drafted, rng, same=True)

def step(prefix, target, draft, gamma, rng):
    return [int(rng.choice(len(target(prefix)), p=target(prefix)))]

def draft_step(prefix, target, draft, gamma, rng):
    return [int(rng.choice(len(draft(prefix)), p=draft(prefix)))]
"""

AUDITS = """
import pytest
from rules import draft_step, reused, step, verify

@pytest.mark.distribution(seed=5)
def test_right(simverify_audit):
    run = simverify_audit(verify, gamma=1, vocab=3)
    assert (run.verdict, run.seed, run.gamma, run.vocab_size) == ("PASS", 5, 1, 3)

@pytest.mark.distribution
class TestWrong:
    def test_reused(self, simverify_audit):
        simverify_audit(reused, gamma=1, vocab=3)

    def test_named_here_alone(self, simverify_audit):
        simverify_audit(lambda p, q, drafted, rng: [0], gamma=1, vocab=2)

def test_steps(simverify_audit):
    assert simverify_audit(step, gamma=1, vocab=2, contract="step").contract == "step"

def test_wrong_step(simverify_audit):
    simverify_audit(draft_step, gamma=1, vocab=2, contract="step")

def test_spec(simverify_audit):
    simverify_audit("wrong-bonus-row", gamma=1, vocab=2)

@pytest.mark.distribution(alpha=2)
def test_out_of_range(simverify_audit):
    simverify_audit(verify)

def test_unknown_spec(simverify_audit):
    simverify_audit("tokn")
"""


QUICK = """
from simverify.auditing import exact_tier, run

exact_tier.search_failure = exact_tier.smallest_failure = lambda *_, **__: None
run.refuted_faults = lambda *_: ()
"""
"""What the fixture ``unsearched`` does, for audits in a process of their own; and no test here asks
which faults a PASS refutes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a project with rules in one file and their audits in another."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "rules.py").write_text(RULES)
    (folder / "test_audits.py").write_text(AUDITS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers --strict-config\n")
    (folder / "conftest.py").write_text(QUICK)
    return folder


@pytest.fixture(scope="module")
def audits(folder):
    return run_pytest(folder, "-n", "2", "test_audits.py")


def section(text, name):
    """Return what pytest prints of one failure."""
    return re.search(
        rf"^_+ {re.escape(name)} _+$(.*?)^(?:_+ \S+ _+$|simverify: \d)", text, re.M | re.S
    )[1]


def test_right_rules_pass_and_wrong_ones_fail(audits):
    assert audits.code == 1
    failed = set(re.findall(r"^FAILED test_audits.py::(\S+)", audits.text, re.M))
    assert failed == {
        "TestWrong::test_reused",
        "TestWrong::test_named_here_alone",
        "test_wrong_step",
        "test_spec",
        "test_out_of_range",
        "test_unknown_spec",
    }
    assert "2 passed" in audits.text.splitlines()[-1]


def test_summary_counts_audits_of_all_workers(audits):
    assert "simverify: 6 audits: 2 PASS, 4 FAIL" in audits.text.splitlines()


def test_failure_shows_the_counterexample_and_no_traceback(audits):
    told = section(audits.text, "TestWrong.test_reused")
    for words in ("FAIL: rules.py:reused", "p = ", "q = ", "it should have", "reused-uniform"):
        assert words in told
    assert "Traceback" not in told
    assert "def reused" not in told


def test_failure_names_a_command_that_fails_too(audits, folder):
    told = section(audits.text, "TestWrong.test_reused")
    command = shlex.split(told.partition("To reproduce:")[2].replace("\\\n", " "))
    # From any folder: the file is named from the root.
    assert command[:3] == ["simverify", "audit", f"{folder / 'rules.py'}:reused"]
    again = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 1, again.stderr
    assert "reused-uniform" in again.stdout


def test_code_without_a_name_is_repeated_by_its_test(audits, folder):
    told = section(audits.text, "TestWrong.test_named_here_alone")
    command = shlex.split(told.partition("To reproduce:")[2].replace("\\\n", " "))
    assert command[0] == "pytest"
    assert command[1] == f"{folder / 'test_audits.py'}::TestWrong::test_named_here_alone"


def test_usage_errors_are_one_line(audits):
    told = section(audits.text, "test_out_of_range")
    assert "simverify: alpha is 2: expected 1e-300 or more, below 1" in told
    assert "did you mean 'token'?" in section(audits.text, "test_unknown_spec")
    assert "During handling" not in told


PACKAGED = """
import pytest
from ..pack.rules import looping, reused, verify

def test_every_setting(simverify_audit):
    run = simverify_audit(
        verify, gamma=1, vocab=3, tolerance=1e-8, strict_probes=True, eos=0, alpha=1e-5,
        detect=0.02, max_paths=9_000, max_samples=8_000, seconds=50, seed=3, contract="verify",
    )
    assert (run.gamma, run.vocab_size, run.tolerance, run.seed) == (1, 3, 1e-8, 3)

@pytest.mark.distribution(seed=7)
def test_the_call_wins(simverify_audit):
    assert simverify_audit(verify, gamma=1, vocab=2, seed=8).seed == 8

def test_wrong_name(simverify_audit):
    simverify_audit(verify, gama=1)

def test_wrong_type(simverify_audit):
    simverify_audit(verify, gamma="1")

def test_of_a_package(simverify_audit):
    simverify_audit(reused, gamma=1, vocab=2)

def test_crash(simverify_audit):
    simverify_audit(looping, gamma=1, vocab=2)
"""

CRASH = """
import ctypes
from . import helper

def looping(p, q, drafted, rng):
    return [ctypes.string_at(0)]
"""


@pytest.fixture(scope="module")
def packaged(tmp_path_factory):
    """Return the root of a package with rules that import each other, and its tests."""
    root = tmp_path_factory.mktemp("root")
    for name in ("pack", "checks"):
        (root / "outer" / name).mkdir(parents=True)
        (root / "outer" / name / "__init__.py").touch()
    (root / "outer" / "__init__.py").touch()
    (root / "outer" / "pack" / "helper.py").touch()
    (root / "outer" / "pack" / "rules.py").write_text(CRASH + RULES)
    (root / "outer" / "checks" / "test_packaged.py").write_text(PACKAGED)
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / "conftest.py").write_text(QUICK)
    return root


def test_the_fixture_takes_what_the_command_line_takes(packaged):
    run = run_pytest(packaged, "outer/checks/test_packaged.py")
    assert "4 failed, 2 passed" in run.text, run.text
    assert "unknown argument of simverify_audit 'gama': did you mean 'gamma'?" in run.text
    assert "simverify: simverify_audit: gamma: got '1', expected a whole number" in run.text
    # A crash of the code is a failure of its test, and the others go on.
    crash = " ".join(section(run.text, "test_crash").split())
    assert "ended by the signal SIGSEGV (a segmentation fault) at " in crash
    assert "in a first call" in crash
    assert max(map(len, section(run.text, "test_crash").splitlines())) <= 80 + len(str(packaged))

    told = section(run.text, "test_of_a_package").partition("To reproduce:")[2]
    command = shlex.split(told.replace("\\\n", " "))
    again = subprocess.run(
        [sys.executable, "-m", *command], cwd="/", capture_output=True, text=True, check=False
    )
    assert again.returncode == 1, again.stderr
    assert "reused-uniform" in again.stdout


@pytest.fixture(scope="module")
def starved(tmp_path_factory):
    """Return a project whose audits run out of budget."""
    folder = tmp_path_factory.mktemp("starved")
    (folder / "rules.py").write_text(RULES)
    (folder / "test_starved.py").write_text(
        "from rules import verify\n"
        "def test_starved(simverify_audit):\n"
        "    simverify_audit(verify, gamma=1, vocab=3)\n"
    )
    (folder / "test_warned.py").write_text(
        "import pytest\n"
        "from rules import verify\n"
        "from simverify.plugin.plugin import InconclusiveWarning\n"
        "@pytest.mark.distribution(max_paths=20, max_samples=100)\n"
        "def test_warned(simverify_audit):\n"
        "    with pytest.warns(InconclusiveWarning, match='INCONCLUSIVE: rules.py:verify'):\n"
        "        assert simverify_audit(verify, gamma=1, vocab=3).verdict == 'INCONCLUSIVE'\n"
    )
    (folder / "conftest.py").write_text(QUICK)
    (folder / "pyproject.toml").write_text("[tool.simverify.pytest]\nmax-paths = 20\n")
    return folder


def test_inconclusive_fails(starved):
    run = run_pytest(starved, "--simverify-max-samples=100", "test_starved.py")
    assert run.code == 1
    assert "INCONCLUSIVE: rules.py:verify" in run.text
    assert "No verdict: " in run.text
    assert "simverify: 1 audit: 1 INCONCLUSIVE" in run.text.splitlines()


def test_inconclusive_warns_by_option(starved):
    environment = {"SIMVERIFY_PYTEST_INCONCLUSIVE": "warn"}
    run = run_pytest(starved, "test_warned.py", environment=environment)
    assert run.code == 0, run.text
    assert "simverify: 1 audit: 1 INCONCLUSIVE" in run.text.splitlines()
    refused = run_pytest(
        starved, "--simverify-inconclusive=fail", "test_warned.py", environment=environment
    )
    assert refused.code == 1
