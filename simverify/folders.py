"""Where simverify keeps what it can make again: compiled kernels and the trained n-grams."""

import os
import tempfile
from pathlib import Path

import platformdirs


def cache_folder(name: str) -> Path | None:
    """Return a writable folder for ``name``, or None if there is none (then nothing is kept).

    ``SIMVERIFY_CACHE_DIR`` names the root; otherwise it is the user's cache folder, or a
    folder of the user's own in the temporary one where the home is read-only.
    """
    if root := os.environ.get("SIMVERIFY_CACHE_DIR"):
        roots = [Path(root)]
    else:
        spare = Path(tempfile.gettempdir()) / f"simverify-{os.getuid()}"
        roots = [platformdirs.user_cache_path("simverify"), spare]
    return next((root / name for root in roots if _writable(root / name)), None)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid()
