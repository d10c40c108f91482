"""A table whose audits are processes: what they come to, and that none outlives it."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import UNSET
from support.many_versions import BROKEN, HANG, RULE, SMALL, install
from support.waiting import wait_for

import simverify
from simverify.cli import run
from simverify.surveying.audited import Audited, Processes


def rows(run):
    return {row.engine: row for row in run.rows}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends processes with their parents")
@pytest.mark.thorough
def test_a_table_that_is_killed_takes_its_audits_along(installed, tmp_path):
    (installed / "hang.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n" + HANG
    )
    code = "from simverify.cli import main; main()"
    table = subprocess.Popen([sys.executable, "-c", code, "table", "--engines", "hang", "--quiet"])
    try:
        pid = wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        assert Path("/proc", pid).exists()
    finally:
        table.kill()
        table.wait()
    assert wait_for(lambda: not Path("/proc", pid).exists())


@pytest.mark.slow
def test_whole_audits_in_processes(installed, capsys):
    names = ["right", "lossy", "broken", "crash"]
    code = run(["table", "--engines", ",".join(names), *SMALL, "--json", "t.json"])
    assert code == 1
    found = rows(simverify.load("t.json"))
    said = {name: row.verdict or row.state for name, row in found.items()}
    assert said == {
        "right": "PASS",
        "lossy": "FAIL",
        "broken": "not loaded",
        "crash": said["crash"],
    }
    assert said["crash"] in ("not loaded", "crashed")
    assert "of 4: right: PASS" in capsys.readouterr().err
    late = simverify.table(["hang"], limit=3)
    assert rows(late)["hang"].state == "out of time"


SIZED = """
from simverify.engines import Engine

verify = Engine("sized", "sized", "", "rule", "verify", "exact", loader=None, gamma=1, vocab=3,
                note="on a guess")
"""


def test_sizes_and_note_of_an_engine_of_another_distribution_hold_too(
    monkeypatch, tmp_path, documents
):
    asked = []

    def audit(self, words, limit, **_):
        asked.append(words[1:5])
        return Audited("judged", documents[RULE], "", 0, 2.4)

    monkeypatch.setattr(Processes, "audit", audit)
    install(tmp_path, {"sized": SIZED, "plain": RULE, "broken": BROKEN})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = simverify.table(["sized", "plain", "broken"], jobs=1)
    assert [row.note for row in run.rows] == ["on a guess", UNSET, UNSET]
    assert asked == [["--gamma", "1", "--vocab", "3"], *[["--seed", "0"]] * 2]
    simverify.table(["sized"], vocab=2)
    assert asked[-1] == ["--gamma", "1", "--vocab", "2"]
