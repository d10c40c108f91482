"""Where the lines of a translated kernel are written down."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

UNDO = "_undo.append("
"""How a line begins that keeps what a store is about to overwrite."""


@dataclass
class Body:
    """Lines of one block, with the line of the kernel's that each is of, and what they name."""

    lines: list[tuple[int, int, str]] = field(default_factory=list)
    named: dict[Any, Any] = field(default_factory=dict)


class Writer:
    """Writes lines and names what they compute. Every name is given once.

    What was computed before is not computed again where ``named`` still has it: each block has
    such names of its own, since what a branch computes is not there behind it.
    """

    def __init__(self) -> None:
        self.line = 1
        self.constants: dict[str, Any] = {}
        self.stores = self.loops = 0
        self.undoes = False
        self._bodies = [Body()]
        self._count = 0
        self._of_constants: dict[Any, str] = {}

    def new(self, kind: str = "v") -> str:
        """Return a name that nothing has."""
        self._count += 1
        return f"{kind}{self._count}"

    def emit(self, text: str) -> None:
        """Write a line."""
        self._bodies[-1].lines.append((self.line, len(self._bodies), text))

    def name(self, code: str, kind: str = "v") -> str:
        """Write a line that computes ``code`` and return the name of the result."""
        name = self.new(kind)
        self.emit(f"{name} = {code}")
        return name

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what ``make()`` returned for the key where the lines that it wrote have run."""
        for body in self._bodies:
            if key in body.named:
                return body.named[key]
        made = self._bodies[-1].named[key] = make()
        return made

    def named_once(self, code: str, kind: str = "v") -> str:
        """Return the name of what ``code`` computes, which has no effects."""
        return str(self.once(code, lambda: self.name(code, kind)))

    def constant(self, value: Any, key: Any) -> str:
        """Return the name of a constant; equal keys are one."""
        if key not in self._of_constants:
            name = self._of_constants[key] = self.new("C")
            self.constants[name] = value
        return self._of_constants[key]

    @contextmanager
    def captured(self, body: Body | None = None) -> Iterator[Body]:
        """Write into a block that is not there yet, or to the end of one."""
        inner = Body() if body is None else body
        self._bodies.append(inner)
        try:
            yield inner
        finally:
            self._bodies.pop()

    def put(self, head: str, body: Body) -> None:
        """Write a block with its head."""
        self.emit(f"{head}:")
        lines = body.lines or [(self.line, len(self._bodies) + 1, "pass")]
        self._bodies[-1].lines.extend(lines)

    def stored(self, memory: str, place: str) -> None:
        """Note a store that follows: what it overwrites is kept, if a check may come behind it."""
        self.stores += 1
        self.emit(f"{UNDO}({memory}, {place}, {memory}[{place}]))")

    def checked(self) -> None:
        """Note a check, which ends the program where it stands."""
        # In a loop a store that is written below may have run before.
        self.undoes |= self.stores > 0 or self.loops > 0

    def code(self, head: str, file: str) -> CodeType:
        """Return all that was written as a function's code, on the kernel's own lines."""
        lines = [
            (line, f"{'    ' * depth}{text}")
            for line, depth, text in self._bodies[0].lines
            if self.undoes or not text.startswith(UNDO)
        ]
        text = "\n".join([head, *(x for _, x in lines), "    return"])
        told = [self.line, *(line for line, _ in lines), self.line]
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                at: Any = node
                at.lineno = at.end_lineno = told[at.lineno - 1]
                at.col_offset = at.end_col_offset = 0
        return compile(tree, file, "exec")
