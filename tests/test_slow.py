"""Slow tests run when they are asked for, and only then."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("options", "slow", "quick"),
    [([], False, True), (["-m", "distribution"], False, True), (["-m", "slow"], True, False)],
)
def test_selection(options, slow, quick):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    target = str(HERE / "stats" / "test_calibration.py")
    done = subprocess.run(
        [*command, *options, target], cwd=HERE.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert ("::test_size_at_length[" in done.stdout) == slow
    assert ("::test_size[" in done.stdout) == quick
