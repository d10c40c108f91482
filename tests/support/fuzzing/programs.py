"""Small programs over random numbers, as text: what the differential tests run in two ways.

A program draws one to three values of some library, type and bounds, computes with them and
returns a small integer. What is written is what verifiers write, and much that none should.
"""

from typing import Any

from hypothesis import strategies as st

INTEGERS = ("np.int64", "np.int32", "np.int16", "np.int8", "np.uint8", "np.uint32", "int")
BOUNDS = {"np.int8": (-128, 127), "np.uint8": (0, 255), "np.uint32": (0, 2**32 - 1)}
FLOATS = ("np.float32", "np.float16", "np.float64")
THRESHOLDS = ("0.5", "0.3", "1.0", "0.0", "0.125", "1/3", "np.float32(0.3)", "2", "-0.25", "1e-3")
SMALL = ("1", "2", "3", "7", "10", "-1", "-3", "100")


def _one(*choices: str) -> st.SearchStrategy[str]:
    return st.sampled_from(choices)


@st.composite
def integer_draws(draw: Any) -> tuple[str, str]:
    """Return a draw of an integer, and its kind."""
    kind = draw(st.sampled_from(INTEGERS))
    low, high = BOUNDS.get(kind, (-30_000, 30_000))
    count = draw(st.sampled_from((2, 3, 5, 8, 17, 20, 33, 100, 200)))
    start = draw(st.sampled_from((0, 0, 1, -3, -9, 50, low)))
    start = max(low, min(start, high - count))
    python = (
        f"random.randrange({start}, {start + count})",
        f"random.randint({start}, {start + count - 1})",
        f"random.getrandbits({draw(st.integers(1, 7))})",
    )
    numpy = (
        f"rng.integers({start}, {start + count}, dtype={kind})",
        f"rng.integers({start}, {start + count - 1}, dtype={kind}, endpoint=True)",
        f"STATE.randint({start}, {start + count}, dtype={kind})",
        f"rng.integers({start}, {start + count}, size=2, dtype={kind})[1]",
    )
    other = (
        "rng.integers(0, 2, dtype=bool)", f"rng.choice({count})", f"STATE.choice({count})",
        "rng.binomial(2, 0.3)", "rng.integers(2**40)", "rng.integers(2**32, dtype=np.uint32)",
        f"rng.permutation({min(count, 5)})[0]",
    )  # fmt: skip
    made = draw(st.sampled_from((*numpy, *numpy, *python, *other)))
    return made, "python" if made in python else "numpy"


@st.composite
def float_draws(draw: Any) -> tuple[str, str]:
    """Return a draw of a float, and its kind."""
    python = (
        "rng.random()", "random.random()", "STATE.random_sample()", "rng.uniform(-1, 2)",
        "STATE.uniform(2, -1)", "random.uniform(0.5, 3)", "rng.random(dtype=np.float32)",
        "rng.standard_exponential()", "rng.exponential(0.5)", "random.expovariate(2.0)",
        "rng.gumbel()", "STATE.rand()",
    )  # fmt: skip
    numpy = (
        "rng.random(2)[0]", "rng.random(2, dtype=np.float32)[1]", "np.float64(rng.random())",
        "rng.random(1).astype(np.float32)[0]", "rng.random(1).astype(np.float16)[0]",
        "rng.standard_exponential(2, dtype=np.float32)[1]", "STATE.rand(2)[1]",
    )  # fmt: skip
    made = draw(st.sampled_from((*python, *numpy)))
    return made, "python" if made in python else "numpy"


OF_FLOATS = (
    "{x} * {c}", "{c} * {x}", "{x} + {t}", "{t} - {x}", "{x} / {c}", "-{x}", "{x} ** 2",
    "np.sqrt(abs({x}))", "np.log({x} + 2)", "np.exp({x})", "np.log1p({x} * {x})", "math.exp({x})",
    "np.floor({x} * {c})", "np.rint({x} * {c})", "np.round({x}, 1)", "np.trunc({x} * {c})",
    "np.ceil({x} * {c})", "np.sign({x} - {t})", "abs({x} - {t})", "{x} // {t2}", "{x} % {t2}",
    "int({x} * {c})", "round({x} * {c})", "math.floor({x} * {c})", "math.ceil({x} * {c})",
    "math.trunc({x} * {c})", "{f}({x})", "float({x})", "np.clip({x}, 0.1, 0.7)", "min({x}, {t})",
    "max({x}, {t})", "np.minimum({x}, {t})", "np.maximum({x}, {t})", "{x} - int({x})",
    "({x} + {big}) - {big}", "np.float32({x}) + np.float32({big})", "{x} * {x}", "{x} + {x}",
    "divmod({x}, 0.25)[1]", "math.modf({x} * 3)[0]", "math.sqrt(abs({x}))",
    "{x} * np.float32(0.7)", "np.where({x} < {t}, {x}, 0.5)", "np.float16({x} * {c})",
    "round({x}, 1)", "np.abs({x})", "{x} * 2.0 ** 60", "np.array([{x}, 0.5]).astype({f})[0]",
    "np.array([{x}, 0.25]).sum()", "np.square({x})", "np.reciprocal({x} + 1)",
    "np.array([{x}])[0]", "1 / ({x} + 1)", "2 ** {x}",
)  # fmt: skip
OF_NUMPY_FLOATS = (
    "{x}.astype({f})", "{x}.item()", "{x}.round(1)", "{x}.clip(0.2, 0.6)", "{x}.real",
    "{x}.astype(np.int32)", "{x}.dtype.itemsize * {x}",
)  # fmt: skip
OF_INTEGERS = (
    "{x} + {c}", "{x} - {c}", "{x} * {c}", "{c} - {x}", "{x} // {c}", "{x} % {c}", "-{x}", "~{x}",
    "{x} >> 1", "{x} << 2", "{x} & 6", "{x} | 1", "{x} ^ 5", "abs({x})", "np.sign({x})",
    "int({x})", "float({x})", "{x} / {c}", "{x} ** 2", "divmod({x}, {c})[1]",
    "np.uint8({x} % 256)", "np.int32({x})", "{x} * 2", "int({x} / {c})", "round({x} / 2)",
    "np.rint({x} / 2)", "np.trunc({x} / {c})", "math.floor({x} / {c})", "math.ceil({x} / {c})",
    "{x} * {x}", "np.float32({x})", "{x} * 0.5", "np.floor_divide({x}, {c})",
    "np.remainder({x}, {c})", "np.minimum({x}, {c})", "max({x}, {c})", "{x} + True",
    "int(str({x}))", "hash({x}) % 97", "len(repr(int({x})))", "np.array([{x}, 1]).sum()",
    "np.array([{x}, 3]).max()", "{x} - {x}", "[5, 3, 1, 4][{x} % 4]", "np.bitwise_xor({x}, 3)",
    "np.left_shift({x}, 1)", "np.invert({x})", "np.square({x})", "int(f'{{{x}:d}}')",
    "np.array([{x}]).astype(np.int8)[0]", "np.power({x}, 2)", "np.where({x} > {c}, {x}, {c})",
    "{x} * np.float32(0.1)", "(({x} + 1) * 3) // 2", "2 * {x} - 1",
)  # fmt: skip
OF_NUMPY_INTEGERS = (
    "{x}.item()", "{x}.astype(np.float32)", "{x}.astype(np.uint8)", "{x}.tobytes()[0]",
    "int(np.unpackbits(np.array([{x}]).astype(np.uint8)).sum())", "{x}.itemsize",
    "{x}.bit_count()", "{x}.dtype.itemsize + {x}", "int.from_bytes({x}.tobytes(), 'little')",
    "{x}.view(np.uint8)",
)  # fmt: skip
CONDITIONS = (
    "{x} < {t}", "{x} <= {t}", "{x} > {t}", "{x} >= {t}", "{x} == {t}", "{x} != {t}", "bool({x})",
    "{t} < {x}", "0.1 < {x} < {t}", "{x} < {c}", "{x} >= {c}", "{x} == {c}", "not {x}",
    "~({x} < {t}) + 2", "isinstance({x}, float)", "isinstance({x}, (int, np.integer))",
    "np.isfinite({x})", "int({x}) % 3", "np.less({x}, {t})",
    "np.searchsorted([0.1, 0.4, 0.9], {x})", "bisect.bisect([0.1, 0.4, 0.9], {x})",
    "int(np.array([{x}, 0.4]).argmax())", "sorted([{x}, 0.4, 0.6]).index(0.4)",
    "(np.array([{x}, {t}]) < 0.4).sum()", "-{x} < {t}", "{x} * 3 < 1", "hasattr({x}, 'dtype')",
    "np.digitize({x}, [0.2, 0.5])", "{x} in (1, 2, 0.5)",
)  # fmt: skip
ARRAYS = (
    "rng.random(3)", "rng.random(3, dtype=np.float32)", "rng.standard_exponential(3)",
    "rng.gumbel(size=3)", "rng.exponential([1.0, 2.0, 0.5])", "rng.integers(-4, 5, size=3)",
    "rng.integers(0, 256, size=2, dtype=np.uint8)", "rng.integers(0, 2, size=3, dtype=bool)",
    "rng.uniform(-1, 1, size=3)", "STATE.rand(3)", "rng.random((1, 3))[0]",
    "rng.random(3).astype(np.float16)", "np.array([rng.random(), random.random(), 0.4])",
)  # fmt: skip
OF_ARRAYS = (
    "{a} * W[:len({a})]", "{a} / W[:len({a})]", "{a} + 0.5", "np.log({a} + 2)", "-{a}",
    "{a}[::-1]", "{a} * 2", "{a} ** 2", "{a}.astype(np.float32)", "~({a} < 0.4)", "{a} - 1",
    "np.floor({a} * 3)", "np.where({a} > 0.4, {a}, 0.4)", "np.clip({a}, 0.1, 0.9)",
    "np.append({a}, 0.3)", "{a}[1:]", "np.concatenate([{a}, {a}])", "np.sign({a})",
    "{a} * np.float32(1.5)", "np.roll({a}, 1)",
)  # fmt: skip
CONDITIONS_OF_ARRAYS = (
    "{a}.argmax()", "np.argmin({a})", "({a} < 0.3).sum()", "({a} <= 0).any()",
    "({a} > 0.1).all()", "{a}[0] < 0.4", "np.argsort({a})[0]", "np.flatnonzero({a} > 0.3).size",
    "{a}.max() > 0.8", "{a}.min() < 0.2", "int({a}[0] * 3) % 3",
    "np.searchsorted([0.2, 0.6], {a}).sum()", "{a}[1] == 0", "np.count_nonzero({a})",
    "{a}.tolist()[0] < 0.5", "{a}.dtype.itemsize", "{a}[0].item() > 0.7", "np.argmax({a} < 0.5)",
    "({a} == 1).sum()", "np.sort({a})[0] < 0.3", "{a}.tobytes()[0] % 2",
    "int({a}[:2].cumprod()[1] < 0.3)", "np.max({a}) == {a}[0]", "{a}.astype(int)[0] % 3",
)  # fmt: skip
TENSORS = (
    "torch.rand(3)", "torch.rand(3, dtype=torch.float64)", "torch.rand(3, dtype=torch.float16)",
    "torch.rand(3, dtype=torch.bfloat16)", "torch.rand(3).half()", "torch.rand(3).bfloat16()",
    "torch.empty(3).exponential_()", "torch.randint(0, 20, (3,))", "torch.randint(-5, 40, (2,))",
    "torch.empty(3).uniform_(-1, 1)", "torch.from_numpy(rng.random(3))",
    "torch.tensor(rng.random(3))", "torch.randint(0, 200, (2,), dtype=torch.uint8)",
    "torch.rand(3, generator=GENERATOR)",
)  # fmt: skip
OF_TENSORS = (
    "{a} * 0.7", "{a} + 1", "1 - {a}", "{a} / 3", "-torch.log({a} + 1)", "{a}.float()",
    "{a}.double()", "{a}.half()", "{a} * 2", "{a}[1:]", "{a}.long()", "torch.floor({a} * 3)",
    "({a} * 10).int()", "{a}.clamp(0.1, 0.8)", "torch.where({a} > 0.3, {a}, 0.3)",
    "{a} * torch.tensor(0.3)", "{a} // 2", "({a} + 1e5) - 1e5", "torch.round({a} * 4)",
    "{a} ** 2", "{a}.bfloat16()", "{a} - 100", "{a} % 3", "torch.sqrt({a}.abs())", "{a}.flip(0)",
    "torch.cat([{a}, {a}])", "{a}.to(torch.uint8)",
)  # fmt: skip
CONDITIONS_OF_TENSORS = (
    "int({a}.argmax())", "int(({a} < 0.3).sum())", "bool(({a} <= 0).any())",
    "{a}[0].item() < 0.4", "int({a}[0] * 3) % 4", "bool({a}[0] < 0.25)", "int(torch.argmin({a}))",
    "{a}.max().item() > 0.8", "{a}.element_size()", "bool({a}[0] == 0)", "{a}.tolist()[0] > 0.6",
    "int(({a} == 1).sum())", "bool({a}[1] >= 1)", "float({a}[0]) < 0.3",
    "int({a}.numpy()[0] > 0.3)", "int(({a} > 5).sum())",
)  # fmt: skip


NOISES = ("rng.exponential(size=3)", "rng.standard_exponential(3)", "-np.log(rng.random(3))")
RACES = (
    "np.argmin({a} / {w})", "np.argmax({w} / {a})", "np.argmax(np.log({w}) - np.log({a}))",
    "np.argsort({a} / {w})[1]", "({a}[0] / {w}[0] < {a}[1] / {w}[1])",
    "min(range(3), key=lambda i: {a}[i] / {w}[i])", "np.argmin({a}[1:] / {w}[1:])",
)  # fmt: skip
RACED = (
    "W[:3]", "W[1:]", "W[::-1][:3]", "np.array([1, 2, 3.])", "np.array([3, 1, 0.2])", "W[[0, 0, 3]]"
)  # fmt: skip


@st.composite
def races(draw: Any) -> str:
    """Return the text of a program that races one noise several times."""
    answers = [
        draw(_one(*RACES)).format(a="e", w=draw(_one(*RACED)))
        for _ in range(draw(st.sampled_from((2, 2, 3))))
    ]
    total = " + ".join(f"{3**i} * int({answer})" for i, answer in enumerate(answers))
    return f"def program(rng):\n    e = {draw(_one(*NOISES))}\n    return {total}\n"


@st.composite
def programs(draw: Any, torch: bool = False) -> str:
    """Return the text of a function ``program(rng)``."""
    lines: list[str] = []
    answers: list[str] = []
    for i in range(draw(st.sampled_from((1, 1, 1, 2)))):
        kind = draw(st.sampled_from(("float", "integer", "array")))
        if torch:
            answers.append(_collection(draw, lines, f"a{i}", TENSORS, OF_TENSORS,
                                       CONDITIONS_OF_TENSORS))  # fmt: skip
        elif kind == "array":
            answers.append(_collection(draw, lines, f"a{i}", ARRAYS, OF_ARRAYS,
                                       CONDITIONS_OF_ARRAYS))  # fmt: skip
        else:
            answers.append(_number(draw, lines, f"x{i}", kind))
    if draw(st.booleans()) and not torch:
        # The same draw again, after what was decided about it.
        name = draw(st.sampled_from(("x0", "a0[0]")))
        if any(line.startswith(name[:2]) for line in lines):
            answers.append(_filled(draw, draw(_one(*CONDITIONS)), name))
    total = " + ".join(f"{3**i} * int({answer})" for i, answer in enumerate(answers))
    body = "\n".join(f"    {line}" for line in [*lines, f"return ({total}) % 27"])
    return f"def program(rng):\n{body}\n"


def _number(draw: Any, lines: list[str], name: str, kind: str) -> str:
    made, library = draw(float_draws() if kind == "float" else integer_draws())
    lines.append(f"{name} = {made}")
    if kind == "float":
        rules = OF_FLOATS + (OF_NUMPY_FLOATS if library == "numpy" else ())
    else:
        rules = OF_INTEGERS + (OF_NUMPY_INTEGERS if library == "numpy" else ())
    for step in range(draw(st.sampled_from((0, 1, 1, 2, 3)))):
        # After one step nobody knows which type it has; most fit both.
        pool = rules if step == 0 else OF_FLOATS + OF_INTEGERS
        lines.append(f"{name} = {_filled(draw, draw(_one(*pool)), name)}")
    return _filled(draw, draw(_one(*CONDITIONS)), name)


def _collection(
    draw: Any, lines: list[str], name: str, draws: Any, rules: Any, conditions: Any
) -> str:
    lines.append(f"{name} = {draw(_one(*draws))}")
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
        lines.append(f"{name} = {_filled(draw, draw(_one(*rules)), name)}")
    return _filled(draw, draw(_one(*conditions)), name)


def _filled(draw: Any, text: str, name: str) -> str:
    return text.format(
        x=name,
        a=name,
        c=draw(_one(*SMALL)),
        t=draw(_one(*THRESHOLDS)),
        t2=draw(_one("0.25", "0.3", "2", "-0.5", "1.0")),
        f=draw(_one(*FLOATS)),
        big=draw(_one("1e5", "2.0**50", "1.5 * 2.0**46", "2**24", "1000.0")),
    )
