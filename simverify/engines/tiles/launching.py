"""Kernels launched in vLLM's way: by a decorator."""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def dispatcher(kernel: Any, warmup_inputs: Any = None) -> Callable[..., Any]:
    """Return the decorator that launches ``kernel`` as the decorated function says.

    The function returns grid and constants. The kernel's other arguments are the call's, whose
    names lack the kernel's ``_ptr``. Nothing is warmed up.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(function)
        def launch(*args: Any, **named: Any) -> None:
            grid, constants = function(*args, **named)
            given = {**inspect.signature(function).bind(*args, **named).arguments, **constants}
            kernel[grid](**{n: given[n.removesuffix("_ptr")] for n in kernel.arg_names})

        return launch

    return decorate
