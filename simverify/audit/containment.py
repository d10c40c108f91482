"""What code under audit may not do to the process that audits it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn


@contextmanager
def contained() -> Iterator[None]:
    """Let code under audit neither end the process nor write where results go."""

    def leave(*_: Any) -> NoReturn:
        raise SystemExit("ended the process")

    kept = os._exit, os.abort
    os._exit = os.abort = leave  # type: ignore[assignment]
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os._exit, os.abort = kept
