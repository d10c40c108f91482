"""Errors of an engine that are its adapter's: what it raised, and what it gave and does not fit."""

import ast
import linecache
from contextlib import suppress
from types import TracebackType
from typing import Any

from simverify.roles import role_of_file, role_of_module
from simverify.symbolic.whose import is_library, unwrapped


def misfit(error: BaseException) -> str:
    """Return where an adapter, not the engine behind it, raised ``error``; "" where it did not.

    That is an error whose innermost line, libraries aside, is an adapter's; one about an
    attribute that an object of an adapter lacks; and one about the arguments of a call of what
    an adapter gave.
    """
    place, owner = "", type(getattr(error, "obj", None)).__module__
    trace = last = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_library(trace.tb_frame.f_globals.get("__name__", "")):
            place = f"{file}:{trace.tb_lineno}" if role_of_file(file) == "adapter" else ""
        trace, last = trace.tb_next, trace
    if isinstance(error, AttributeError) and role_of_module(owner) == "adapter":
        return f"{owner} has no {error.name}"
    if isinstance(error, TypeError) and last is not None:
        code = getattr(unwrapped(_called(last)), "__code__", None)
        # A call that has begun stands in the traceback itself.
        if code is not None and role_of_file(code.co_filename) == "adapter":
            return f"{code.co_filename}:{code.co_firstlineno}"
    return place


def _called(trace: TracebackType) -> Any:
    """Return the function whose call is what a traceback ends with; None where it is no call.

    It is read from the source: a name, or attributes of one, that the frame still knows.
    """
    code = trace.tb_frame.f_code
    first, last, start, end = list(code.co_positions())[trace.tb_lasti // 2]
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return None
    found = _value(call.func, trace) if isinstance(call, ast.Call) else None
    if isinstance(found, type):
        return vars(found).get("__init__")
    is_function = any(hasattr(found, name) for name in ("__code__", "__func__", "func"))
    return found if is_function or not callable(found) else type(found).__call__


def _value(node: ast.expr, trace: TracebackType) -> Any:
    """Return what a name, or an attribute of one, is in the frame; None of anything else."""
    frame = trace.tb_frame
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        with suppress(Exception):  # a property may raise anything
            return getattr(_value(node.value, trace), node.attr)
    return None
