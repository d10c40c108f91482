"""The lines and branches of one function, and which of them ran, told from its instructions."""

import dis
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType

_ENTRY = frozenset({"RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "CACHE", "NOP"})

_OF_EXCEPTIONS = frozenset({"WITH_EXCEPT_START", "CHECK_EXC_MATCH", "CHECK_EG_MATCH"})
"""What stands before a jump that ``with`` and ``except`` make: no branch that somebody wrote."""


@dataclass(frozen=True)
class Branch:
    """A conditional jump: its place in the source, and where it goes on.

    ``at``: first and last line and column, of the tested expression or the loop's iterable.
    ``straight_on``: offset of the next instruction if it does not jump; ``lines``: the line that
    comes then, and the one that the jump leads to. ``jumps_if``: the outcome that jumps.
    """

    at: tuple[int, int, int, int]
    loop: bool
    straight_on: int
    lines: tuple[int, int]
    jumps_if: bool

    def outcome(self, straight: bool) -> bool:
        """Whether the test was true, or the loop went on, where it did not jump or did."""
        return self.jumps_if != straight


@dataclass
class Instructions:
    """A function's instructions. ``ran``: offsets; ``taken``: branches, and whether straight on."""

    code: CodeType
    lines: dict[int, int]
    branches: dict[int, Branch]
    ran: set[int] = field(default_factory=set)
    taken: set[tuple[int, bool]] = field(default_factory=set)
    _looked_at: int = -1

    @classmethod
    def of(cls, code: CodeType) -> "Instructions":
        """Return those of ``code``, of which nothing has run yet."""
        found = list(dis.get_instructions(code))
        lines = {i.offset: i.positions.lineno for i in found if i.positions and i.positions.lineno}
        entry = {i.offset for i in found if i.opname in _ENTRY}
        body = {offset: line for offset, line in lines.items() if offset not in entry}
        # The line of `def` runs when the function is defined, unless the body stands on it.
        if set(body.values()) - {code.co_firstlineno} and not code.co_name.startswith("<"):
            body = {o: line for o, line in body.items() if line != code.co_firstlineno}
        return cls(code, body, dict(_branches(found, lines)))

    @property
    def known(self) -> int:
        """How much was seen so far."""
        return len(self.ran) + len(self.taken)

    def is_complete(self) -> bool:
        """Whether every line and every branch was seen."""
        if self.known == self._looked_at:
            return False
        self._looked_at = self.known
        return not (self.missed_lines() or self.missed_branches())

    def reached_lines(self) -> set[int]:
        """Lines of which an instruction ran."""
        return {line for offset, line in self.lines.items() if offset in self.ran}

    def missed_lines(self) -> set[int]:
        """Lines of which none ran."""
        return set(self.lines.values()) - self.reached_lines()

    def outcomes(self) -> dict[tuple[Branch, bool], bool]:
        """Return each outcome of each test, and whether it was seen; copies of a test are one."""
        first: dict[tuple[int, int, int, int], Branch] = {}
        seen: dict[tuple[Branch, bool], bool] = {}
        for offset, branch in self.branches.items():
            same = first.setdefault(branch.at, branch)
            for straight in (True, False):
                key = (same, branch.outcome(straight))
                seen[key] = seen.get(key, False) or (offset, straight) in self.taken
        return seen

    def missed_branches(self) -> list[tuple[Branch, bool]]:
        """Return the outcomes that were not seen."""
        return [key for key, was_seen in self.outcomes().items() if not was_seen]


def _branches(found: list[dis.Instruction], lines: dict[int, int]) -> Iterator[tuple[int, Branch]]:
    by_offset = {i.offset: n for n, i in enumerate(found)}
    for n, jump in enumerate(found[:-1]):
        loop = jump.opname == "FOR_ITER"
        if not loop and not ("JUMP" in jump.opname and "IF_" in jump.opname):
            continue
        target = by_offset.get(jump.argval)
        position = jump.positions
        if target is None or position is None or position.lineno is None:
            continue
        straight_on, goal = found[n + 1], found[target]
        if found[n - 1].opname in _OF_EXCEPTIONS or straight_on.opname == "LOAD_ASSERTION_ERROR":
            continue
        at = (
            position.lineno, position.end_lineno or position.lineno,
            position.col_offset or 0, position.end_col_offset or 0,
        )  # fmt: skip
        to = lines.get(straight_on.offset, 0), lines.get(goal.offset, 0)
        yield jump.offset, Branch(at, loop, straight_on.offset, to, not loop and _if_true(jump))


def _if_true(jump: dis.Instruction) -> bool:
    """Whether the jump is taken where its test is true."""
    if jump.opname.endswith("NONE"):
        # `is None` and `is not None` share these; a test at a loop's end jumps back if it holds.
        return "BACKWARD" in jump.opname
    return "IF_TRUE" in jump.opname
