"""Little room for files: a file system of some kilobytes, and a limit on the size of each file."""

import resource
import shutil
import signal
import subprocess
import sys
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


@contextmanager
def no_file_beyond(size):
    """Have the system refuse writes of this process beyond ``size`` bytes, as on a full disk.

    The bytecode of a module that is imported meanwhile would be cut off as well, and Python would
    read it from then on: none is written.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handled)
