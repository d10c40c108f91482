"""Small programs over random numbers, as text: what the differential tests run in two ways.

A program draws one to three values of some library, type and bounds, computes with them and
returns a small integer. What is written is what verifiers write, and much that none should.
"""

from typing import Any

from hypothesis import strategies as st
from support.fuzzing.arrays import (
    ARRAYS,
    CONDITIONS_OF_ARRAYS,
    CONDITIONS_OF_TENSORS,
    OF_ARRAYS,
    OF_TENSORS,
    TENSORS,
    TYPES_OF_TENSORS,
)
from support.fuzzing.joins import (
    ARRAYS_JOINED,
    NUMBERS_JOINED,
    TENSOR_VALUES,
    TENSORS_JOINED,
    TYPES_ASKED,
    TYPES_OF_TENSORS_ASKED,
    VALUES,
)
from support.fuzzing.numbers import (
    CONDITIONS,
    INTEGERS,
    OF_FLOATS,
    OF_INTEGERS,
    OF_NUMPY_FLOATS,
    OF_NUMPY_INTEGERS,
    OF_TWO,
    float_draws,
    integer_draws,
)
from support.fuzzing.wide import CONDITIONS_OF_WIDE, CONSTANTS, OF_WIDE, wide_draws

FLOATS = ("np.float32", "np.float16", "np.float64")
THRESHOLDS = ("0.5", "0.3", "1.0", "0.0", "0.125", "1/3", "np.float32(0.3)", "2", "-0.25", "1e-3")
SMALL = ("1", "2", "3", "7", "10", "-1", "-3", "100")
STEPS = ("0.25", "0.3", "2", "-0.5", "1.0")
SWAMPING = ("1e5", "2.0**50", "1.5 * 2.0**46", "2**24", "1000.0")

NOISES = ("rng.exponential(size=3)", "rng.standard_exponential(3)", "-np.log(rng.random(3))")
RACES = (
    "np.argmin({a} / {w})", "np.argmax({w} / {a})", "np.argmax(np.log({w}) - np.log({a}))",
    "np.argsort({a} / {w})[1]", "({a}[0] / {w}[0] < {a}[1] / {w}[1])",
    "min(range(3), key=lambda i: {a}[i] / {w}[i])", "np.argmin({a}[1:] / {w}[1:])",
)  # fmt: skip
RACED = (
    "W[:3]", "W[1:]", "W[::-1][:3]", "np.array([1, 2, 3.])", "np.array([3, 1, 0.2])", "W[[0, 0, 3]]"
)  # fmt: skip


def _one(*choices: str) -> st.SearchStrategy[str]:
    return st.sampled_from(choices)


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
def programs(draw: Any, torch: bool = False, wide: bool = False) -> str:
    """Return the text of a function ``program(rng)``.

    ``torch``: over tensors; ``wide``: over integers of a type's whole range, which wrap around.
    """
    lines: list[str] = []
    answers: list[str] = []
    numbers: list[str] = []
    for i in range(draw(st.sampled_from((1, 1, 1, 2)))):
        kind = draw(st.sampled_from(("wide",) if wide else ("float", "integer", "array", "wide")))
        if torch:
            name = f"a{i}"
            answers.append(_collection(draw, lines, name, TENSORS, (OF_TENSORS, TENSORS_JOINED),
                                       CONDITIONS_OF_TENSORS + TYPES_OF_TENSORS_ASKED))  # fmt: skip
            numbers.append(draw(st.sampled_from((f"{name}[0]", f"{name}[1].item()"))))
        elif kind == "array":
            answers.append(_collection(draw, lines, f"a{i}", ARRAYS, (OF_ARRAYS, ARRAYS_JOINED),
                                       CONDITIONS_OF_ARRAYS + TYPES_ASKED))  # fmt: skip
            numbers.append(f"a{i}[0]")
        else:
            answers.append(_number(draw, lines, f"x{i}", kind))
            numbers.append(f"x{i}")
    if draw(st.booleans()) and not (torch or wide):
        # The same draw again, after what was decided about it.
        answers.append(_filled(draw, draw(_one(*CONDITIONS)), numbers[0]))
    elif torch and draw(st.integers(0, 3)) == 0:
        # A tensor's element as a number of Python's.
        lines.append("x = a0[0].item()")
        lines.append(f"x = {_filled(draw, draw(_one(*OF_FLOATS, *OF_INTEGERS)), 'x')}")
        answers.append(_filled(draw, draw(_one(*CONDITIONS)), "x"))
    if len(numbers) > 1 and draw(st.booleans()):
        answers.append(_filled(draw, draw(_one(*OF_TWO)), *numbers))
    total = " + ".join(f"{3**i} * int({answer})" for i, answer in enumerate(answers))
    body = "\n".join(f"    {line}" for line in [*lines, f"return ({total}) % 27"])
    return f"def program(rng):\n{body}\n"


def _number(draw: Any, lines: list[str], name: str, kind: str) -> str:
    if kind == "wide":
        lines.append(f"{name} = {draw(wide_draws())}")
        for _ in range(draw(st.sampled_from((0, 1, 1, 1, 2)))):
            lines.append(f"{name} = {_filled(draw, draw(_one(*OF_WIDE)), name)}")
        return _filled(draw, draw(_one(*CONDITIONS_OF_WIDE)), name)
    made, library = draw(float_draws() if kind == "float" else integer_draws())
    lines.append(f"{name} = {made}")
    if kind == "float":
        rules = OF_FLOATS + (OF_NUMPY_FLOATS if library == "numpy" else ())
    else:
        rules = OF_INTEGERS + (OF_NUMPY_INTEGERS if library == "numpy" else ())
    for step in range(draw(st.sampled_from((0, 1, 1, 2, 3)))):
        # After one step nobody knows which type it has; most fit both.
        pool = (rules if step == 0 else OF_FLOATS + OF_INTEGERS) + NUMBERS_JOINED
        lines.append(f"{name} = {_filled(draw, draw(_one(*pool)), name)}")
    return _filled(draw, draw(_one(*CONDITIONS)), name)


def _collection(
    draw: Any, lines: list[str], name: str, draws: Any, rules: Any, conditions: Any
) -> str:
    lines.append(f"{name} = {draw(_one(*draws))}")
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
        # What joins values of several types is a third.
        pool = rules[draw(st.sampled_from((0, 0, 1)))]
        text = _filled(draw, draw(_one(*pool)), name)
        lines.append(text[1:] if text.startswith("!") else f"{name} = {text}")
    return _filled(draw, draw(_one(*conditions)), name)


def _filled(draw: Any, text: str, name: str, other: str = "") -> str:
    """Fill in names and numbers; draws only those that the text has a place for."""
    places = {
        "c": SMALL, "t": THRESHOLDS, "t2": STEPS, "f": FLOATS, "big": SWAMPING,
        "i": INTEGERS[:-1], "tt": TYPES_OF_TENSORS,
    }  # fmt: skip
    for place, choices in (("{k}", CONSTANTS), ("{v}", VALUES), ("{tv}", TENSOR_VALUES)):
        if place in text:
            text = text.replace(place, draw(_one(*choices)))
    filled = {key: draw(_one(*choices)) for key, choices in places.items() if f"{{{key}}}" in text}
    return text.format(x=name, a=name, y=other, **filled)
