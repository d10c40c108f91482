"""What programs draw one number at a time, and what they do with it, as text.

``{x}`` is the number, ``{c}`` a small integer, ``{t}`` a threshold, ``{f}`` a type of floats.
"""

from typing import Any

from hypothesis import strategies as st

INTEGERS = (
    "np.int64", "np.int32", "np.int16", "np.int8", "np.uint8", "np.uint16", "np.uint32",
    "np.uint64", "int",
)  # fmt: skip
BOUNDS = {
    "np.int8": (-128, 127), "np.uint8": (0, 255), "np.uint16": (0, 2**16 - 1),
    "np.uint32": (0, 2**32 - 1), "np.uint64": (0, 2**64 - 1),
}  # fmt: skip


@st.composite
def integer_draws(draw: Any) -> tuple[str, str]:
    """Return a draw of an integer, and its kind."""
    kind = draw(st.sampled_from(INTEGERS))
    low, high = BOUNDS.get(kind, (-30_000, 30_000))
    count = draw(st.sampled_from((2, 3, 5, 8, 17, 20, 33, 100)))
    start = draw(st.sampled_from((0, 0, 1, -3, -9, 50, low, high - count)))
    start = max(low, min(start, high - count))
    python = (
        f"random.randrange({start}, {start + count})",
        f"random.randint({start}, {start + count - 1})",
        f"random.getrandbits({draw(st.integers(1, 7))})",
        f"random.choice(range({start}, {start + count}))",
        "random.choices((-1, 0, 4), weights=(2, 3, 5))[0]", "random.sample(range(-3, 4), 2)[1]",
        "rng.choice([3, -2, 7]).item()", "rng.permutation(4).tolist()[1]", "secrets.randbelow(9)",
    )  # fmt: skip
    numpy = (
        f"rng.integers({start}, {start + count}, dtype={kind})",
        f"rng.integers({start}, {start + count - 1}, dtype={kind}, endpoint=True)",
        f"STATE.randint({start}, {start + count}, dtype={kind})",
        f"rng.integers({start}, {start + count}, size=2, dtype={kind})[1]",
    )
    other = (
        "rng.integers(0, 2, dtype=bool)", f"rng.choice({count})", f"STATE.choice({count})",
        "rng.binomial(2, 0.3)", "rng.integers(2**40)", "rng.integers(2**32, dtype=np.uint32)",
        f"rng.permutation({min(count, 5)})[0]", "rng.choice(4, p=[0.1, 0.2, 0.3, 0.4])",
        "rng.choice(np.array([3, -2, 7], dtype=np.int8), p=[0.5, 0.25, 0.25])",
        "rng.multinomial(2, [0.2, 0.3, 0.5])[1]", "rng.multinomial(1, W[:3] / 1.0).argmax()",
        "rng.choice(5, size=2, replace=False)[1]", "STATE.randint(0, 2**31 - 1)",
        "rng.integers(-2**62, 2**62)", "rng.integers(2**64, dtype=np.uint64)",
        "rng.integers(-2**31, 2**31, dtype=np.int32)", "STATE.tomaxint()",
        "STATE.random_integers(3, 9)", "rng.bytes(1)[0]", "rng.integers(0, 256, dtype=np.uint8)",
        "rng.integers(-128, 128, dtype=np.int8)", "rng.integers(0, 2**16, dtype=np.uint16)",
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
        "rng.gumbel()", "STATE.rand()", "rng.gumbel(-0.5, 0.25)", "-math.log(rng.random())",
        "-math.log(-math.log(random.random()))", "random.paretovariate(2)",
        "rng.standard_exponential(dtype=np.float32)", "rng.random(2).tolist()[1]",
        "rng.standard_normal()", "random.gauss(0, 1)", "rng.uniform(1e-3, 1e3)",
    )  # fmt: skip
    numpy = (
        "rng.random(2)[0]", "rng.random(2, dtype=np.float32)[1]", "np.float64(rng.random())",
        "rng.random(1).astype(np.float32)[0]", "rng.random(1).astype(np.float16)[0]",
        "rng.standard_exponential(2, dtype=np.float32)[1]", "STATE.rand(2)[1]",
        "rng.gumbel(size=2)[1]", "rng.gumbel(size=1).astype(np.float16)[0]",
        "rng.uniform(-3, 3, 2).astype(np.float32)[0]", "-np.log(rng.random(2))[0]",
        "rng.exponential(size=1).astype(np.float16)[0]", "np.float32(rng.random())",
        "np.log(rng.random())", "np.float16(rng.uniform(-300, 300))", "rng.normal(size=2)[0]",
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
    # 16 bits, remainders and signs, after one another.
    "np.float16({x}) * np.float16(0.3)", "np.float16({x}) + np.float16(2048)", "{x} % -0.3",
    "np.mod({x} * {c}, {t2})", "np.floor_divide({x}, {t2})", "np.fmod({x}, 0.3)",
    "math.fmod({x}, 0.3)", "np.copysign(0.5, {x} - {t})", "math.copysign({x}, -1)",
    "np.fabs({x} - {t})", "math.fabs({x})", "np.heaviside({x} - {t}, 0.5)", "np.exp2({x})",
    "np.expm1({x})", "np.cbrt({x})", "np.tanh({x})", "np.float16({x}) // np.float16(0.1)",
    "np.array([{x} * {c}]).astype({i})[0]", "{i}(abs({x}) * 20)", "abs({x}) ** 0.5",
    "({x} > {t}) * {x}", "np.where({x} > {t}, 1 - {x}, {x})", "math.log(abs({x}) + {t2} ** 2)",
    "sum(({x}, 0.5))", "math.fsum([{x}, 0.25])", "np.nan_to_num({x})", "np.divmod({x}, 0.3)[1]",
    "np.modf({x} * 2)[1]", "np.ldexp({x}, 3)", "np.frexp({x})[1]", "np.nextafter({x}, 2)",
    "np.spacing({x})", "{x} - np.floor({x})", "np.array([{x}, 0.2, 0.9]).cumsum()[1]",
    "np.maximum({x}, 0) - np.minimum({x}, 0)", "int({x} * 1000) / 1000", "-(-{x} // 0.25)",
    "np.add({x}, {big}) - {big}", "np.sum([{x}, {x}])", "np.array([{x}, 0.6]).mean()",
    "np.array({x})", "np.array([{x}, 2], dtype={f})[0]", "np.round({x} * 20) / 20",
    "np.floor({x} * 2.0**24) / 2.0**24", "pow({x}, 3)", "{x}.__floor__()", "{x}.__trunc__()",
    "{x}.__ceil__()", "{x}.__index__()", "type({x})({x} * 2)", "type({x})(0.5) + {x}",
)  # fmt: skip
OF_NUMPY_FLOATS = (
    "{x}.astype({f})", "{x}.item()", "{x}.round(1)", "{x}.clip(0.2, 0.6)", "{x}.real",
    "{x}.astype(np.int32)", "{x}.dtype.itemsize * {x}", "{x}.astype({i})", "{x}.round()",
    "{x}.astype(bool)", "{x}.clip(max={t})", "{x}.sum()", "{x}.dtype.type({x} * 3)",
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
    "{i}({x})", "np.array([{x}]).astype({i})[0]", "{i}({c}) * {x}", "{x} * np.int8(2)",
    "{x} + np.uint8(200)", "np.uint8({x}) - np.uint8(3)", "{x} >> {c}", "1 << ({x} % 5)",
    "{x} * 2.0**-8", "({x} + 0.5) / 2.0**8", "np.float16({x})", "np.float16({x}) * {c}",
    "{x} // -3", "{x} % -3", "np.fmod({x}, 3)", "math.trunc({x} / {c})", "divmod({x}, -3)[0]",
    "np.clip({x}, 1, 9)", "np.abs({x})", "np.bitwise_count({x})", "int({x}).bit_length()",
    "bin({x}).count('1')", "math.gcd({x}, 6)", "pow(int({x}), 2, 7)", "math.isqrt(abs({x}))",
    "np.add({x}, 100, dtype=np.int8)", "np.array([{x}, 3, 5])[1:].sum() + {x}", "range(50)[{x}]",
    "np.arange(40)[{x}]", "W[{x} % 4]", "np.array([{x}, {x}]).sum()", "{x} * 2**40",
    "np.array([{x}] * 3, dtype=np.uint8).sum()", "(~{x}) & 7", "-{x} // 4", "{x} ** 3",
    "np.isin({x}, [1, 2])", "float({x}) / 2.0**53", "({x} > {c}) + ({x} > 1)", "{c} ** ({x} % 3)",
    "{x} / 7 * 7", "np.log(abs({x}) + 1)", "np.sqrt(abs({x}))", "{x}.__index__()",
    "{x}.__floor__()", "type({x})({x} + 1)",
)  # fmt: skip
OF_NUMPY_INTEGERS = (
    "{x}.item()", "{x}.astype(np.float32)", "{x}.astype(np.uint8)", "{x}.tobytes()[0]",
    "int(np.unpackbits(np.array([{x}]).astype(np.uint8)).sum())", "{x}.itemsize",
    "{x}.bit_count()", "{x}.dtype.itemsize + {x}", "int.from_bytes({x}.tobytes(), 'little')",
    "{x}.view(np.uint8)", "{x}.astype({i})", "{x}.astype(np.float16)", "{x}.clip(2, 5)",
    "{x}.view(np.int8)", "{x}.byteswap()", "{x}.dtype.type(3) - {x}", "{x}.round(-1)",
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
    "np.searchsorted(np.cumsum(W), {x} * W.sum())", "(np.cumsum(W / W.sum()) <= {x}).sum()",
    "bisect.bisect_left(list(itertools.accumulate([0.2, 0.3, 0.5])), {x})",
    "np.searchsorted(np.cumsum(np.float32([0.2, 0.3, 0.5])), {x}, side='right')",
    "np.searchsorted(np.float16([0.2, 0.5, 0.9]), {x})", "np.signbit({x})", "{x} == int({x})",
    "np.isclose({x}, {t}, atol=0.1)", "math.isclose({x}, {t}, rel_tol=0.5)",
    "{x} < np.float16(0.3)", "np.float32(0.1) >= {x}", "{x} == np.float16({x})", "{x} - 1 < {t}",
    "[{x} < c for c in (0.2, 0.5, 0.8)].count(True)", "np.argmin(np.array([{x}, 0.3, {t}]))",
    "min((0.2, 'a'), ({x}, 'b'))[1] == 'a'", "max([{x}, 0.3]) == 0.3", "{x} == -{x}",
    "next((i for i, c in enumerate((0.2, 0.5)) if {x} < c), 2)", "np.greater_equal({x}, {c})",
    "int({x} < {t}) ^ 1", "np.array([0.1, 0.4, 0.9])[{x} > 0.3].size",
    "type({x}) is float", "type({x}) in (int, np.int64, np.float32)", "type({x}).__name__ > 'g'",
    "hasattr({x}, '__index__')", "hasattr({x}, '__trunc__')", "{x}.__class__.__name__ < 'g'",
    "isinstance({x}, np.floating)", "math.isfinite({x})", "np.isnan({x})", "{x} is None",
    "np.where(np.array([0.1, 0.4]) < {x})[0].size", "any(c > {x} for c in (0.1, 0.2))",
)  # fmt: skip
OF_TWO = (
    "{x} < {y}", "{x} <= {y}", "{x} == {y}", "{x} > {y}", "{x} + {y} < {t}", "{x} - {y} > {t}",
    "{x} * {y} < {t}", "max({x}, {y}) < {t}", "np.minimum({x}, {y}) < {t}", "{x} * 2 < {y}",
    "np.where({x} < {y}, {x}, {y}) < {t}", "sorted([{x}, {y}, 0.5]).index(0.5)",
    "np.argmax(np.array([{x}, {y}]))", "np.argmin([{x}, {y}, 0.3])", "{x} / ({y} + 1) < {t}",
    "({x} < {t}) == ({y} < {t})", "int({x}) == int({y})", "{x} % 1 < {y} % 1",
    "abs({x}) < abs({y})", "np.float16({x}) == np.float16({y})",
    "np.float32({x}) < np.float32({y})", "{x} // 1 < {y}",
    "np.searchsorted([0.2, {y}], {x})", "max(({x}, 0), ({y}, 1))[1]", "{x} < {y} < {t}",
    "np.hypot({x}, {y}) < {t}", "{x} if {y} < {t} else 0", "np.array([{x}, {y}]).max() > {t}",
    "np.less({x}, {y}) + np.less_equal({y}, {x})", "int({x} * 4) + int({y} * 4)",
    "{x} >= {y} + {t}",
)  # fmt: skip
"""Of two draws, numbers both."""
