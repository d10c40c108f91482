"""pytest in a process of its own."""

import os
import subprocess
import sys
from types import SimpleNamespace


def run_pytest(folder, *arguments, environment=()):
    """Run pytest in ``folder``; returns its exit code and output."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "SIMVERIFY_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *arguments],
        cwd=folder,
        env={**inherited, "COLUMNS": "100", **dict(environment)},
        capture_output=True,
        text=True,
        check=False,
    )
    return SimpleNamespace(code=done.returncode, text=done.stdout + done.stderr)
