"""Notes what code does in one sampled call: the draws it makes, the branches it takes.

Such code cannot be followed, so it runs on numbers: a generator that notes what it hands out,
and Python's own tracing, which sees the lines of the code's file.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from simverify.symbolic.whose import users_line

_MOST = 60
"""Characters of an argument or a result that are shown."""


@dataclass(frozen=True)
class Event:
    """One thing that the code did, in words, and its line."""

    text: str
    where: str = ""


class RecordingGenerator(np.random.Generator):
    """The generator of a trial, which notes every draw in ``log``."""

    def __init__(self, bits: np.random.BitGenerator, log: list[Event]) -> None:
        super().__init__(bits)
        self.log = log
        self.inside = False


def _noted(name: str) -> Callable[..., Any]:
    method = getattr(np.random.Generator, name)

    @wraps(method)
    def draw(self: RecordingGenerator, *given: Any, **named: Any) -> Any:
        if self.inside:  # numpy's methods call one another
            return method(self, *given, **named)
        self.inside = True
        try:
            result = method(self, *given, **named)
        finally:
            self.inside = False
        words = [short(x) for x in given] + [f"{key}={short(x)}" for key, x in named.items()]
        self.log.append(Event(f"draw: {name}({', '.join(words)}) = {short(result)}", users_line()))
        return result

    return draw


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        setattr(RecordingGenerator, _name, _noted(_name))


def short(value: Any) -> str:
    """Return ``value`` on one line, cut where it is long."""
    return short_text(_number(value.tolist() if hasattr(value, "tolist") else value))


def short_text(text: str) -> str:
    """Return ``text`` on one line, cut where it is long."""
    text = " ".join(text.split())
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.17g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(f'{x:.6g}' if isinstance(x, float) else _number(x) for x in value)}]"
    return repr(value)


@contextmanager
def branches_noted(rule: Callable[..., Any], log: list[Event]) -> Iterator[None]:
    """Note in ``log`` which way every ``if`` and ``while`` of the rule's file goes.

    Where a debugger or a coverage run is tracing already, nothing is noted.
    """
    file = inspect.getsourcefile(inspect.unwrap(rule)) if hasattr(rule, "__code__") else None
    if file is None or sys.gettrace() is not None:
        yield
        return
    tests = _tests(file)

    def begin(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code.co_filename != file:
            return None
        asked: _Test | None = None

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal asked
            line = frame.f_lineno
            if asked is not None and not (event == "line" and line in asked.lines):
                if event != "exception":
                    taken = event == "line" and line in asked.body
                    way = "true" if taken else "false"
                    log.append(Event(f"branch: {asked.text} is {way}", f"{file}:{asked.lines[0]}"))
                asked = None
            if event == "line":
                asked = tests.get(line, asked)
            return step

        return step

    sys.settrace(begin)
    try:
        yield
    finally:
        sys.settrace(None)


@dataclass(frozen=True)
class _Test:
    """A test in the source: its words, its lines, and those of what it guards."""

    text: str
    lines: range
    body: range


def _tests(file: str) -> dict[int, _Test]:
    """Return every ``if`` and ``while`` of a file by its first line, but for one-line ones."""
    try:
        source = Path(file).read_text()
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While):
            lines = range(node.lineno, (node.test.end_lineno or node.lineno) + 1)
            body = range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
            if body.start not in lines:
                text = short_text(ast.get_source_segment(source, node.test) or "the test")
                found[node.lineno] = _Test(text, lines, body)
    return found
