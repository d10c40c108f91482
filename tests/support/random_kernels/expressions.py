"""Random expressions of a kernel: floats, whole numbers and truths, scalars and rows."""

import random
from dataclasses import dataclass
from typing import Any

FLOATS, WHOLES = ("float32", "float64"), ("int32", "int64", "uint32")


@dataclass(frozen=True)
class Name:
    """A variable: its type, and whether it is a row."""

    name: str
    kind: str
    row: bool


class Expressions:
    """Writes expressions of what a kernel has by then."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.block = self.pick.choice((4, 8, 64, 256, 256))
        self.names: list[Name] = []
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.loops = 0

    def one(self, *ways: Any) -> Any:
        """Return one of these."""
        return self.pick.choice(ways)

    def new(self) -> str:
        """Return a name that nothing has."""
        self.count += 1
        return f"v{self.count}"

    def put(self, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + text)

    # -- expressions: code of a float, a whole number or a truth --

    def held(self, kind: str | None, row: bool, sort: tuple[str, ...]) -> list[str]:
        """Return variables of a type, or of a sort of types."""
        return [
            x.name for x in self.names
            if x.row == row and (x.kind == kind if kind else x.kind in sort)
        ]  # fmt: skip

    def floats(self, row: bool, depth: int) -> str:
        """Return a float that is a block."""
        known = self.held(None, row, FLOATS)
        if depth <= 0 or self.pick.random() < 0.15:
            return self.one(*known) if known else ("x" if row else "s")
        ways = ["sum", "choose", "unary", "cast", "call", "rounded", "extreme"]
        ways += ["running", "load", "filled"] if row else ["total", "most", "load", "either"]
        ways += ["drawn"]
        way = self.one(*ways)
        if way == "sum":
            other = self.one(self.floats(row, depth - 1), self.floats(False, depth - 1),
                             self.one("0.1", "2", "-1.5", "HALF", "1e-3"))  # fmt: skip
            pair = [self.floats(row, depth - 1), other]
            if other != "HALF":  # the interpreter knows no constant before an operator
                self.pick.shuffle(pair)
            return f"({pair[0]} {self.one('+', '-', '*', '/')} {pair[1]})"
        if way == "choose":
            gate = self.truths(row, depth - 1)
            return f"tl.where({gate}, {self.floats(row, depth - 1)}, {self.floats(False, 0)})"
        if way == "unary":
            return f"{self.one('tl.abs', '-', 'tl.exp', 'tl.sqrt')}({self.floats(row, depth - 1)})"
        if way == "cast":
            return f"({self.wholes(row, depth - 1)}).to(tl.{self.one(*FLOATS)})"
        if way == "call":
            more = self.one("", ", more=2")
            return f"blended({self.floats(row, depth - 1)}, {self.floats(False, 0)}{more})"
        if way == "rounded":
            kind = self.one("float16", *FLOATS)
            return f"({self.floats(row, depth - 1)}).to(tl.{kind}).to(tl.float32)"
        if way == "extreme":
            name = self.one("minimum", "maximum")
            return (
                f"tl.{name}(clean({self.floats(row, depth - 1)}), {self.one('0.25', '1.0', '3')})"
            )
        if way == "running":
            return f"tl.cumsum({self.floats(True, depth - 1)}, axis=0)"
        if way == "filled":
            number = self.one("0.75", "3", "-0.0")
            return f"(tl.full((B,), {number}, tl.float32) + {self.floats(False, 0)})"
        if way == "either":
            one, other = (self.of("float64", False, deep) for deep in (1, 0))
            return f"({one} if {self.truths(False, 1)} else {other})"
        if way == "drawn":
            place = (
                self.one("i + pid", "i + big", "i.to(tl.int64) * 77777777777") if row else "pid + 3"
            )
            return f"tl.rand({self.one('n', '77', 'n.to(tl.int64) * 77777777777')}, {place})"
        if way == "total":
            return f"tl.sum({self.floats(True, depth - 1)}, axis=0)"
        if way == "most":
            return f"tl.{self.one('max', 'min')}(clean({self.floats(True, depth - 1)}), axis=0)"
        return self.loaded("x_ptr", row, depth, self.one("0.5", "float('-inf')", "0", "-0.0"))

    def loaded(self, pointer: str, row: bool, depth: int, other: str) -> str:
        """Return a load, whose places are there where the mask holds."""
        if not row:
            return f"tl.load({pointer} + {self.one('0', 'pid', 'n - 1', 'pid * 2 + 1')})"
        places = self.one(
            "i",
            "pid + i",
            "(n - 1) - i",
            "i * 2 - i",
            f"(({self.wholes(True, depth - 1)}).to(tl.int32)) % n",
        )
        if "%" in places:
            places = f"tl.where({places} < 0, 0, {places})"
            return f"tl.load({pointer} + {places}, mask=i < n, other={other})"
        inside = "i < n - pid" if places == "pid + i" else "i < n"
        gate = self.one(inside, f"({inside}) & {self.truths(self.one(True, False), depth - 1)}")
        return f"tl.load({pointer} + {places}, mask={gate}, other={other})"

    def wholes(self, row: bool, depth: int) -> str:
        """Return a whole number that is a block."""
        known = self.held(None, row, WHOLES) + (["i", "i + big"] if row else ["n", "pid", "big"])
        if depth <= 0 or self.pick.random() < 0.2:
            return self.one(*known)
        ways = ["sum", "choose", "bits", "truth", "cast", "divided", "load"]
        ways += [] if row else ["place", "total"]
        way = self.one(*ways)
        if way == "sum":
            other = self.one(
                self.wholes(row, depth - 1), self.wholes(False, 0), self.one("3", "1", "7")
            )
            return f"({self.wholes(row, depth - 1)} {self.one('+', '-', '*')} {other})"
        if way == "choose":
            gate = self.truths(row, depth - 1)
            return f"tl.where({gate}, {self.wholes(row, depth - 1)}, {self.one('n', 'pid', '2')})"
        if way == "bits":
            sign, other = self.one(("&", "255"), ("|", "3"), ("^", "21"), ("<<", "2"), (">>", "1"))
            return f"({self.wholes(row, depth - 1)} {sign} {other})"
        if way == "truth":
            return f"({self.truths(row, depth - 1)}).to(tl.{self.one('int32', 'int64')})"
        if way == "cast":
            return f"({self.wholes(row, depth - 1)}).to(tl.{self.one(*WHOLES)})"
        if way == "divided":
            sign, other = self.one("//", "%"), self.one("3", "7")
            return f"(({self.wholes(row, depth - 1)}).to(tl.int32) {sign} {other})"
        if way == "place":
            return (
                f"tl.{self.one('argmax', 'argmin')}(clean({self.floats(True, depth - 1)}), axis=0)"
            )
        if way == "total":
            return f"tl.sum(({self.truths(True, depth - 1)}).to(tl.int32), axis=0)"
        return self.loaded("k_ptr", row, depth, self.one("0", "-1", "5"))

    def truths(self, row: bool, depth: int) -> str:
        """Return a truth that is a block."""
        way = self.one("floats", "wholes", "bound", "both") if depth > 0 else "bound"
        sign = self.one("<", "<=", ">", ">=", "==", "!=")
        if way == "floats":
            return (
                f"({self.floats(row, depth - 1)} {sign} {self.one('0.5', self.floats(False, 0))})"
            )
        if way == "wholes":
            return f"({self.wholes(row, depth - 1)} {sign} {self.one('2', 'n')})"
        if way == "both":
            other = self.truths(self.one(row, False), 0)
            return f"({self.truths(row, depth - 1)} {self.one('&', '|')} {other})"
        if not row:
            return f"(pid {sign} {self.one('1', 'a')})"
        line = self.one("i", "i + pid", "i - a", "i + big")
        return f"({line} {sign} {self.one('n', 'a', '3', 'pid')})"

    def of(self, kind: str, row: bool, depth: int) -> str:
        """Return a block of a type."""
        made = self.floats(row, depth) if kind in FLOATS else self.wholes(row, depth)
        return f"({made}).to(tl.{kind})"
