"""Integers of the whole range of their type, and what wraps around or asks for their bits, as text.

``{x}`` is the number, ``{k}`` a constant of some type, ``{i}`` a type of integers.
"""

from typing import Any

from hypothesis import strategies as st

ENDS = {
    "np.int8": (-(2**7), 2**7), "np.int16": (-(2**15), 2**15), "np.int32": (-(2**31), 2**31),
    "np.int64": (-(2**63), 2**63), "np.uint8": (0, 2**8), "np.uint16": (0, 2**16),
    "np.uint32": (0, 2**32), "np.uint64": (0, 2**64),
}  # fmt: skip

CONSTANTS = (
    "2", "3", "5", "7", "100", "-1", "-3", "np.int8(2)", "np.int8(-3)", "np.int8(100)",
    "np.uint8(200)", "np.uint8(3)", "np.int16(9)", "np.uint16(9)", "np.int32(3)", "np.uint32(7)",
    "np.int64(5)", "np.int64(-1)", "np.uint64(2)", "{x}.dtype.type(3)", "2**15", "2**31", "2**40",
)  # fmt: skip


@st.composite
def wide_draws(draw: Any) -> str:
    """Return a draw of all integers of a type, or of a large part of them."""
    kind = draw(st.sampled_from(tuple(ENDS)))
    low, high = ENDS[kind]
    a, b = draw(st.sampled_from((
        (low, high), (low, high), (low + 1, high), (low, high - 1), (high // 2, high),
        (low, low + (high - low) // 3), (max(low, -30_000), min(high, 50_000)),
    )))  # fmt: skip
    return draw(st.sampled_from((  # type: ignore[no-any-return]
        f"rng.integers({a}, {b}, dtype={kind})", f"STATE.randint({a}, {b}, dtype={kind})",
        f"rng.integers({a}, {b - 1}, dtype={kind}, endpoint=True)",
        f"rng.integers({a}, {b}, size=1, dtype={kind})[0]", f"random.randrange({a}, {b})",
        f"rng.integers({a}, {b}, dtype={kind}).item()",
    )))  # fmt: skip


OF_WIDE = (
    "{x} * {k}", "{k} * {x}", "{x} + {k}", "{k} + {x}", "{x} - {k}", "{k} - {x}", "-{x}",
    "abs({x})", "{x} << 1", "{x} << 3", "{x} << {k}", "{x} * {x}", "{x} + {x}", "{x} - {x}",
    "{x} ** 2", "np.square({x})", "~{x}", "np.abs({x})", "np.negative({x})", "2 * {x} - 1",
    "np.multiply({x}, {k})", "np.add({x}, {k})", "np.subtract({k}, {x})", "np.left_shift({x}, 1)",
    "np.power({x}, 2)", "{i}({x})", "np.array([{x}]).astype({i})[0]", "np.array([{x}])[0] * {k}",
    "np.array([{x}, {x}]).sum()", "(np.array([{x}, 1]) * {k})[0]", "{x} * {i}(3)", "int({x})",
    "{x} >> 1", "{x} // {k}", "{x} // 2**4", "{x} % {k}", "{x} % 2**4", "{x} & 255", "{x} ^ 5",
    "{x} & {k}", "int({x}) * {k}", "np.floor_divide({x}, {k})", "-(-{x})", "{x} + {x} // 2",
    "{x} * 2 - {x}", "3 * {x} - 2 * {x}", "({x} << 2) >> 2", "({x} + {k}) - {k}", "{x} // -1",
    "np.clip({x}, -99, 99)", "np.minimum({x}, {k})", "{x} * 2 // 2", "{x} % 1001 * 3",
)  # fmt: skip
CONDITIONS_OF_WIDE = (
    "int({x}) % 3", "{x} % {k}", "int({x}) % 2**8", "{x} // 3 % 5", "int({x} // {k}) % 5",
    "int({x}) // 2**29 % 7", "{x} < 0", "{x} > 5", "{x} == 0", "{x} >= {k}", "{x} & 1", "{x} & 6",
    "int({x}) & 1", "({x} | 1) < 9", "({x} ^ 5) < 9", "{x} >> 5 < 3", "int({x} >> 29) % 9",
    "({x} >> 3) & 7", "~{x} < 3", "-{x} < {k}", "abs({x}) < 100", "{x} % 7 == 2", "{x} < {x} + {k}",
    "int({x}) % 7 == 2", "divmod(int({x}), 10)[1]", "divmod({x}, 3)[0] > 2", "{x} * {k} < 100",
    "np.remainder({x}, 3)", "int({x} / 3) % 5", "{x} * 1.0 < 1e4", "np.bitwise_and({x}, 3)",
    "hash({x}) % 7", "{x} != -{x}", "{x} + {k} < {x}", "np.sign({x})", "int({x}) * 3 % 5",
    "np.fmod({x}, 3)", "{i}({x}) > 4", "int({x}).bit_length()", "{x} == {x} * {k}", "{x} <= -{x}",
    "{x} - ({x} + {k}) < 0", "{x} * 2 > {x}", "({x} >> 1 << 1) < {x}", "{x} // 2 * 2 == {x}",
    "{i}({x}) == {x}", "abs({x}) < 0", "np.max([{x}, {k}]) == {x}", "-{x} > {x}", "{x} // -1 < 0",
    "np.array([{x}, {x} + 1]).argmax()", "np.less({x}, {k})", "{x} * {k} == {k} * {x}",
    "isinstance({x} % 1001, np.integer)", "type({x} & 255) is int", "hasattr({x} ^ 5, 'astype')",
)  # fmt: skip
