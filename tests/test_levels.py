"""Slow tests run when asked for, and only then; thorough ones with their file or --thorough."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

STATS = Path(__file__).parent / "stats"
FILE, FOLDER = str(STATS / "test_calibration.py"), str(STATS)

FIRST, SPACED, BY_NIGHT = (
    f"::test_binomial[{case}]" for case in ("1500-0.0001-20", "5000-0.3-270", "1500-0.0001-3000")
)

SELECTED = [
    ([FILE], ("::test_size[",), ("::test_size_at_length[",)),
    ([FILE, "-m", "distribution"], ("::test_size[",), ("::test_size_at_length[",)),
    ([FILE, "-m", "slow"], ("::test_size_at_length[",), ("::test_size[",)),
    ([FOLDER], (FIRST, "::test_gamma["), (SPACED,)),
    ([FOLDER, "--thorough"], (FIRST, SPACED), (BY_NIGHT,)),
    ([f"{FOLDER}/test_tails.py"], (FIRST, SPACED), (BY_NIGHT,)),
    ([FOLDER, "-m", "not gpu"], (FIRST, SPACED), (BY_NIGHT,)),
    ([FOLDER, "-m", "slow"], (BY_NIGHT,), (FIRST, SPACED)),
]
"""What is asked for; what is among the tests that are selected, and what is not."""

COLLECT = """
import json, sys
import pytest
common, selections = json.loads(sys.argv[1])
for options in selections:
    print("selected by", options)
    assert pytest.main([*common, *options]) == 0
"""


@pytest.mark.thorough
def test_selection():
    """Asked several times in one process: what they import is most of each."""
    common = ["--collect-only", "-q", "-p", "no:cacheprovider"]
    words = json.dumps([common, [options for options, _, _ in SELECTED]])
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, words],
        cwd=STATS.parents[1], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    _, *told = done.stdout.split("selected by")
    for text, (options, there, left_out) in zip(told, SELECTED, strict=True):
        assert all(name in text for name in there), options
        assert not any(name in text for name in left_out), options
