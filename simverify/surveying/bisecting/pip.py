"""pip, called for a survey: what it found, or what it complains of."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from simverify.checks import clean
from simverify.errors import UsageError

PATIENCE = 600.0
"""Seconds for pip: a release may be large, or may have to be built."""


def pip(
    *words: str, python: Path | None = None, folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run pip for this Python, or for that of an environment; pip's own settings hold.

    ``folder``: where relative paths begin.
    """
    command = [*_pip_command(python), *words, "--disable-pip-version-check", "--no-input"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=folder
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"not done within {PATIENCE:g} s")


def _pip_command(python: Path | None) -> Sequence[str]:
    if importlib.util.find_spec("pip") is not None:
        here = [sys.executable, "-m", "pip"]
        return here if python is None else [*here, "--python", str(python)]
    if (found := shutil.which("pip")) is not None:
        return [found, "--python", str(python or sys.executable)]
    raise UsageError("releases are listed and installed by pip, which is missing: install pip")


def complaint(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the line of pip's that says what went wrong."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return clean(errors[-1].removeprefix("ERROR:").strip()) if errors else "it does not say why"
