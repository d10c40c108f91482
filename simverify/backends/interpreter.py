"""Triton with a GPU or without: compiled kernels there, its interpreter here."""

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from simverify.errors import SimverifyError


def load_triton(load: Callable[[], Any]) -> tuple[Any, str]:
    """Return what ``load()`` imports, and the device that its kernels run on.

    Without a GPU they run in Triton's interpreter, which has to be chosen before Triton is
    imported: raises ``SimverifyError`` if it is too late.
    """
    torch = importlib.import_module("torch")
    if torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        return load(), "cuda"
    with interpreter():
        standard = importlib.import_module("triton.language.standard")
        if type(standard.cdiv).__name__ != "InterpretedFunction":
            raise SimverifyError(
                "Triton was imported to compile and there is no GPU: set TRITON_INTERPRET=1 "
                "before starting"
            )
        return load(), "cpu"


@contextmanager
def interpreter() -> Iterator[None]:
    """Triton asks for this variable when it loads, decorates and runs; others should not see it."""
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before
