"""A file system of some kilobytes, for tests that fill one."""

import shutil
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def mounted(place, size):
    """Mount a file system of ``size`` at ``place``; the test is skipped where nobody may."""
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
