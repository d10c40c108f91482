"""Random kernels of Triton's, to be run several ways: what each gives must be the same.

A kernel reads floats and whole numbers, computes with scalars and rows in several types, branches,
loops and calls, and stores all that it has at its end. Not in them is what Triton leaves open, or
where the interpreter is known to differ from a GPU: extremes of NaN and of zeros of two signs, division
by zero, shifts by more than there are bits, floats cast to integers that do not hold them.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEAD = '''"""Random kernels."""

import triton
import triton.language as tl

HALF = tl.constexpr(0.5)


@triton.jit
def clean(x):
    return tl.where(x == x, x, 0.5) + 0.0


@triton.jit
def blended(x, y, more: tl.constexpr = 1):
    if more > 1:
        z = x * more
    else:
        z = x + more
    return z - y * HALF


@triton.jit
def both(x, gate):
    kept = tl.where(gate, x, 1.5)
    return kept, kept * 0.25
'''

FLOATS, WHOLES = ("float32", "float64"), ("int32", "int64", "uint32")
PARAMETERS = "x_ptr, k_ptr, out_ptr, n, a, c, B: tl.constexpr, LAST: tl.constexpr"
OUTPUTS = 12


@dataclass(frozen=True)
class Name:
    """A variable: its type, and whether it is a row."""

    name: str
    kind: str
    row: bool


class Maker:
    """Writes one kernel."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.block = self.pick.choice((4, 8, 64, 256))
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
        ways += ["running", "load"] if row else ["total", "most", "load"]
        way = self.one(*ways)
        if way == "sum":
            other = self.one(self.floats(row, depth - 1), self.floats(False, depth - 1),
                             self.one("0.1", "2", "-1.5", "HALF", "1e-3"))  # fmt: skip
            pair = [self.floats(row, depth - 1), other]
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
            return f"({self.floats(row, depth - 1)}).to(tl.{self.one('float16', *FLOATS)}).to(tl.float32)"
        if way == "extreme":
            name = self.one("minimum", "maximum")
            return f"tl.{name}(clean({self.floats(row, depth - 1)}), {self.one('0.25', '1.0', '3')})"
        if way == "running":
            return f"tl.cumsum({self.floats(True, depth - 1)}, axis=0)"
        if way == "total":
            return f"tl.sum({self.floats(True, depth - 1)}, axis=0)"
        if way == "most":
            return f"tl.{self.one('max', 'min')}(clean({self.floats(True, depth - 1)}), axis=0)"
        return self.loaded("x_ptr", row, depth, self.one("0.5", "float('-inf')", "0", "-0.0"))

    def loaded(self, pointer: str, row: bool, depth: int, other: str) -> str:
        """Return a load, whose places are there where the mask holds."""
        if not row:
            return f"tl.load({pointer} + {self.one('0', 'pid', 'n - 1', 'pid * 2 + 1')})"
        places = self.one("i", "pid + i", "(n - 1) - i", "i * 2 - i", f"(({self.wholes(True, depth - 1)}).to(tl.int32)) % n")
        if "%" in places:
            return f"tl.load({pointer} + tl.where({places} < 0, 0, {places}), mask=i < n, other={other})"
        inside = "i < n - pid" if places == "pid + i" else "i < n"
        gate = self.one(inside, f"({inside}) & {self.truths(self.one(True, False), depth - 1)}")
        return f"tl.load({pointer} + {places}, mask={gate}, other={other})"

    def wholes(self, row: bool, depth: int) -> str:
        """Return a whole number that is a block."""
        known = self.held(None, row, WHOLES) + (["i"] if row else ["n", "pid"])
        if depth <= 0 or self.pick.random() < 0.2:
            return self.one(*known)
        ways = ["sum", "choose", "bits", "truth", "cast", "divided", "load"]
        ways += [] if row else ["place", "total"]
        way = self.one(*ways)
        if way == "sum":
            other = self.one(self.wholes(row, depth - 1), self.wholes(False, 0), self.one("3", "1", "7"))
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
            return f"(({self.wholes(row, depth - 1)}).to(tl.int32) {self.one('//', '%')} {self.one('3', '7')})"
        if way == "place":
            return f"tl.{self.one('argmax', 'argmin')}(clean({self.floats(True, depth - 1)}), axis=0)"
        if way == "total":
            return f"tl.sum(({self.truths(True, depth - 1)}).to(tl.int32), axis=0)"
        return self.loaded("k_ptr", row, depth, self.one("0", "-1", "5"))

    def truths(self, row: bool, depth: int) -> str:
        """Return a truth that is a block."""
        way = self.one("floats", "wholes", "bound", "both") if depth > 0 else "bound"
        sign = self.one("<", "<=", ">", ">=", "==", "!=")
        if way == "floats":
            return f"({self.floats(row, depth - 1)} {sign} {self.one('0.5', self.floats(False, 0))})"
        if way == "wholes":
            return f"({self.wholes(row, depth - 1)} {sign} {self.one('2', 'n')})"
        if way == "both":
            return f"({self.truths(row, depth - 1)} {self.one('&', '|')} {self.truths(self.one(row, False), 0)})"
        if not row:
            return f"(pid {sign} {self.one('1', 'a')})"
        return f"({self.one('i', 'i + pid', 'i - a')} {sign} {self.one('n', 'a', '3', 'pid')})"

    def of(self, kind: str, row: bool, depth: int) -> str:
        """Return a block of a type."""
        made = self.floats(row, depth) if kind in FLOATS else self.wholes(row, depth)
        return f"({made}).to(tl.{kind})"

    # -- statements --

    def assign(self, depth: int = 3) -> None:
        """Write an assignment, to what is there or to a new name."""
        old = self.one(*self.names) if self.names else None
        if old is not None and (self.pick.random() < 0.4 or self.loops or self.depth > 1):
            if old.kind in FLOATS and self.pick.random() < 0.25:
                self.put(f"{old.name} {self.one('+', '-', '*')}= {self.one('0.5', 'HALF', '1')}")
                return
            self.put(f"{old.name} = {self.of(old.kind, old.row, depth)}")
            return
        name = Name(self.new(), self.one(*FLOATS, *WHOLES), self.pick.random() < 0.6)
        self.put(f"{name.name} = {self.of(name.kind, name.row, depth)}")
        self.names.append(name)

    def pair(self) -> None:
        """Write a call that returns two rows."""
        one, two = self.new(), self.new()
        value = self.of("float32", True, 2)
        self.put(f"{one}, {two} = both({value}, {self.truths(True, 1)})")
        if self.depth == 1:
            self.names += [Name(one, "float32", True), Name(two, "float32", True)]

    def table(self) -> None:
        """Write a sum over one side of a table of two rows."""
        if self.block > 8:
            return
        name = self.new()
        x, y = self.of("float32", True, 1), self.of("float32", True, 1)
        sign = self.one("+", "*")
        self.put(f"{name} = tl.{self.one('sum', 'sum')}(({x})[:, None] {sign} ({y})[None, :], axis={self.one(0, 1)})")
        if self.depth == 1:
            self.names.append(Name(name, "float32", True))

    def several(self, most: int) -> None:
        """Write some statements one step further in."""
        self.depth += 1
        for _ in range(self.pick.randint(1, most)):
            self.statement()
        self.put("pass")
        self.depth -= 1

    def statement(self) -> None:
        """Write a statement."""
        roll = self.pick.random()
        if roll < 0.62 or self.depth > 3 or not self.names:
            self.assign()
        elif roll < 0.68:
            self.pair()
        elif roll < 0.72:
            self.table()
        elif roll < 0.78:
            gate = self.one("i < n", "(i < n) & (i != 1)", "i >= 1")
            self.put(f"tl.store(x_ptr + (n + 3) + i, {self.floats(True, 2)}, mask=({gate}) & (i < n))")
        elif roll < 0.88:
            test = self.truths(False, 2)
            self.put(f"if {self.one(test, f'not {test}', f'{test} and pid < 2', f'{test} or n == 1')}:")
            self.several(2)
            if self.pick.random() < 0.6:
                self.put("else:")
                self.several(2)
        else:
            counter = self.new()
            self.loops += 1
            head = self.one("range(0, 3)", "range(n - (n - 2))", "tl.static_range(2)", "range(1, 6, 2)")
            self.put(f"for {counter} in {head}:")
            self.put(f"    s += {counter} * HALF")
            self.several(2)
            self.loops -= 1

    def kernel(self, name: str) -> str:
        """Return the source of a kernel."""
        self.put("pid = tl.program_id(0)")
        self.put("i = tl.arange(0, B)")
        self.put("x = tl.load(x_ptr + pid + i, mask=i < n, other=0.25).to(tl.float32)")
        self.put("s = tl.load(x_ptr + n).to(tl.float64) + c")
        self.names += [Name("s", "float64", False), Name("x", "float32", True)]
        for _ in range(self.pick.randint(3, 7)):
            self.statement()
        if self.pick.random() < 0.3:
            self.put(f"if {self.truths(False, 1)}:")
            self.put("    return")
        for place, x in enumerate(self.names[-OUTPUTS:]):
            at = f"out_ptr + (pid * {OUTPUTS} + {place}) * B"
            value = f"({x.name}).to(tl.float64)"
            self.put(f"tl.store({at} + i, {value}, i < B)" if x.row else f"tl.store({at}, {value})")
        return "\n".join(["", "", "@triton.jit", f"def {name}({PARAMETERS}):", *self.lines, ""])


def write_kernels(path: Path, seeds: range) -> list[tuple[str, int]]:
    """Write a file of random kernels; return their names and blocks' sizes."""
    made, text = [], [HEAD]
    for seed in seeds:
        maker = Maker(seed)
        text.append(maker.kernel(f"kernel_{seed}"))
        made.append((f"kernel_{seed}", maker.block))
    path.write_text("".join(text))
    return made
