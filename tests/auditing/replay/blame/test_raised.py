"""Of code that raises: the line, what called it, and the lines that its values come from."""

import textwrap
from pathlib import Path

import pytest

import simverify
from simverify.reports.audit.lines import briefly, finding_words
from simverify.symbolic.whose import lines_in

RULE = """
import numpy as np

def drawn(row, most, rng):
    first = np.argsort(-row)[:most]
    return rng.choice(first)

def verify(p, q, x, rng):
    apart = p - 1  # APART
    most = p.shape[-1] / 1  # WRONG
    for i, token in enumerate(x):
        if rng.random() >= p[i][token] / q[i][token]:
            return [*x[:i], drawn(np.maximum(p[i] - q[i], 0), most, rng)]  # CALLER
    return [*x, drawn(p[-1], most, rng)]  # CALLER
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    file = tmp_path_factory.mktemp("raised") / "rule.py"
    file.write_text(textwrap.dedent(RULE))
    return simverify.audit(f"{file}:verify", gamma=1, vocab=2, seed=0)


def at(run, mark):
    file = run.spec.partition(":")[0]
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return [f"{file}:{i}" for i, line in enumerate(lines, 1) if mark in line]


def test_a_raise_names_its_callers_and_what_is_behind_it(run):
    assert run.verdict == "FAIL"
    (raised,) = [found for found in run.findings if found.broke == "raises"]
    assert [raised.line] == at(run, "first = np.argsort")
    assert set(raised.callers) <= set(at(run, "# CALLER"))
    assert set(at(run, "# WRONG")) <= set(raised.sources)
    assert not set(at(run, "# APART")) & set(raised.sources)


def test_a_probe_names_them_too(run):
    probes = [found for found in run.findings if found.kind == "probe" and found.line]
    assert probes
    assert all(set(found.callers) <= set(at(run, "# CALLER")) for found in probes)


def test_they_are_told(run):
    (raised,) = [found for found in run.findings if found.broke == "raises"]
    said = finding_words(raised)
    assert "called at " in said
    assert "What it raised on comes from, likeliest mistake first, rule.py:" in said
    assert briefly(run.findings, None).startswith("raised at rule.py:5, called at rule.py:1")


def test_a_comma_in_a_file_s_name_is_of_the_name(tmp_path):
    file = tmp_path / "rule, old.py"
    file.touch()
    assert lines_in(f"raised E: x ({file}:3, called at {file}:5, {file}:9)") == (
        f"{file}:3",
        f"{file}:5",
        f"{file}:9",
    )


def test_code_that_calls_itself_is_named_once(tmp_path):
    file = tmp_path / "deep.py"
    file.write_text(
        "def deep(n):\n    if n == 0:\n        raise ValueError('deep')\n    return deep(n - 1)\n\n"
        "def verify(p, q, x, rng):\n    return deep(5)\n"
    )
    run = simverify.audit(f"{file}:verify", gamma=1, vocab=2, seed=0)
    (raised,) = [found for found in run.findings if found.broke == "raises"]
    assert raised.callers == (f"{file}:4", f"{file}:7")
