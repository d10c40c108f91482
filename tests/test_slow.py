"""Slow tests run when they are asked for, and only then."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


SELECTED = [([], False, True), (["-m", "distribution"], False, True), (["-m", "slow"], True, False)]
"""Options; whether slow tests are among those that are selected, and whether quick ones are."""

COLLECT = """
import json, sys
import pytest
common, selections = json.loads(sys.argv[1])
for options in selections:
    print("selected by", options)
    assert pytest.main([*common, *options]) == 0
"""


def test_selection():
    """Asked three times in one process: what they import is most of each."""
    target = str(HERE / "stats" / "test_calibration.py")
    common = ["--collect-only", "-q", "-p", "no:cacheprovider", target]
    words = json.dumps([common, [options for options, _, _ in SELECTED]])
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, words], cwd=HERE.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, *told = done.stdout.split("selected by")
    assert len(told) == len(SELECTED)
    for text, (options, slow, quick) in zip(told, SELECTED, strict=True):
        assert ("::test_size_at_length[" in text) == slow, options
        assert ("::test_size[" in text) == quick, options
