"""How it is seen which instructions of some functions run.

Python 3.12 and later are asked to report them; their trace functions see no instructions on all
versions. Before that, a trace function sees them.
"""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from simverify.auditing.coverage.places import Instructions

_TOOLS = range(3, 5)
"""Places that the interpreter keeps for tools without one of their own (debuggers, coverage and
profilers have): two, so that an audit inside an audit is seen as well."""


class Traced:
    """Sees what the calling thread runs between ``begin`` and ``end``, by a trace function.

    Of the functions ``seen`` it notes there what ran. It is not cheap, and slows every line down.
    """

    is_cheap = False

    def __init__(self, seen: dict[CodeType, Instructions], _codes: list[CodeType]) -> None:
        self._seen = seen

    def begin(self) -> bool:
        """Return whether it looks: another's trace function, as a debugger's, is left alone."""
        if sys.gettrace() is not None:
            return False
        sys.settrace(self._entered)
        return True

    def end(self) -> None:
        """Look no more."""
        if sys.gettrace() == self._entered:
            sys.settrace(None)

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        seen = self._seen.get(frame.f_code)
        if seen is None:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        ran, branches, taken = seen.ran, seen.branches, seen.taken
        last = -1

        def at_instruction(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal last
            if event == "opcode":
                now = frame.f_lasti
                ran.add(now)
                if last in branches:
                    taken.add((last, now == branches[last].straight_on))
                last = now
            return at_instruction

        return at_instruction


if sys.version_info >= (3, 12):
    from sys import monitoring

    class Monitored:
        """Sees what runs of ``codes`` between ``begin`` and ``end``, on every thread.

        Of those in ``seen`` it notes there what ran. It is cheap: an instruction reports itself
        once, a branch until both its ways were taken. Functions are known by their very code
        objects: of two that are equal, both are to be given.
        """

        is_cheap = True

        def __init__(self, seen: dict[CodeType, Instructions], codes: list[CodeType]) -> None:
            self._seen = seen
            self._codes = codes
            self._tool: int | None = None

        def begin(self) -> bool:
            """Return whether it looks: not where other tools have got all places."""
            if self._tool is not None:
                return True
            free = (tool for tool in _TOOLS if monitoring.get_tool(tool) is None)
            if (tool := next(free, None)) is None:
                return False
            monitoring.use_tool_id(tool, "simverify")
            events = monitoring.events
            monitoring.register_callback(tool, events.INSTRUCTION, self._ran)
            monitoring.register_callback(tool, events.BRANCH, self._went)
            for code in self._codes:
                monitoring.set_local_events(tool, code, events.INSTRUCTION | events.BRANCH)
            # What an earlier look in this place has seen would report itself no more.
            monitoring.restart_events()
            self._tool = tool
            return True

        def end(self) -> None:
            """Look no more, and let the place go."""
            if self._tool is None:
                return
            tool, self._tool = self._tool, None
            for code in self._codes:
                monitoring.set_local_events(tool, code, monitoring.events.NO_EVENTS)
            for event in (monitoring.events.INSTRUCTION, monitoring.events.BRANCH):
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

        def _ran(self, code: CodeType, offset: int) -> Any:
            if (seen := self._seen.get(code)) is not None:
                seen.ran.add(offset)
            return monitoring.DISABLE

        def _went(self, code: CodeType, offset: int, destination: int) -> Any:
            seen = self._seen.get(code)
            if seen is None or (branch := seen.branches.get(offset)) is None:
                return monitoring.DISABLE
            straight = destination == branch.straight_on
            seen.taken.add((offset, straight))
            return monitoring.DISABLE if (offset, not straight) in seen.taken else None

    Sight = Monitored
else:
    Sight = Traced
