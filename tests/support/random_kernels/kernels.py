"""Random kernels, statement by statement."""

from pathlib import Path

from support.random_kernels.expressions import FLOATS, WHOLES, Expressions, Name

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

PARAMETERS = "x_ptr, k_ptr, out_ptr, n, a, c, big, B: tl.constexpr"
OUTPUTS = 12


class Maker(Expressions):
    """Writes one kernel."""

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
        self.put(f"{name} = tl.sum(({x})[:, None] {sign} ({y})[None, :], axis={self.one(0, 1)})")
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
            self.put(
                f"tl.store(x_ptr + (n + 3) + i, {self.floats(True, 2)}, mask=({gate}) & (i < n))"
            )
        elif roll < 0.88:
            test = self.truths(False, 2)
            self.put(
                f"if {self.one(test, f'not {test}', f'{test} and pid < 2', f'{test} or n == 1')}:"
            )
            self.several(2)
            if self.pick.random() < 0.6:
                self.put("else:")
                self.several(2)
        else:
            counter = self.new()
            self.loops += 1
            head = self.one(
                "range(0, 3)", "range(n - (n - 2))", "tl.static_range(2)", "range(1, 6, 2)"
            )
            if self.pick.random() < 0.2:
                self.put(f"{counter} = 0")
                self.put(f"while {counter} < 2 and {self.truths(False, 1)}:")
                self.put(f"    {counter} += 1")
            else:
                self.put(f"for {counter} in {head}:")
                self.put(f"    s += {counter} * 0.5")
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
