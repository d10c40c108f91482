"""What stands in for types and methods answers as they do: names, ancestors, every argument."""

import pytest
from support.fuzzing.differential import Finding, run_twice

from simverify.symbolic.builtins_patched import IntTwin
from simverify.symbolic.scalar import Draw

INT = "x = int(random.random() * 10**6 / 3)\n    "
FLOAT = "x = float(np.float32(rng.random() * 10))\n    "
SINGLE = "x = np.float32(rng.random() * 10)\n    "
SAME = (
    # Draws of many values, of which int and the like make others: by stand-ins of the same names.
    INT + "return type(x).__name__ > 'g'",
    INT + "return len(str(type(x)) + type(x).__qualname__ + type(x).__module__ + repr(int)) % 27",
    INT + "return (type(x) is int) + 2 * (type(int) is type) + 4 * (type(x).__mro__[0] is int)",
    INT + "return type(x)(7) + (type(x).__base__ is object) + int.from_bytes(b'a', 'big') % 9",
    FLOAT + "return (str(float) == \"<class 'float'>\") + 2 * (type(x).__mro__[0] is float)",
    FLOAT + "return (float.__doc__ == (3.0).__doc__) + 2 * (type(type(x)) is type)",
    SINGLE + "return issubclass(type(x), np.floating) + 2 * (type(x).__mro__[1] is np.floating)",
    SINGLE + "return np.issubdtype(type(x), np.floating) + 2 * (np.finfo(np.float32).bits == 32)",
    SINGLE + "return (np.result_type(type(x), np.float16) == np.float32) + 2 * (x < 5)",
    SINGLE + "y = np.int16(x * 3)\n    return issubclass(type(y), np.integer) + 2 * (y > 5)",
    # The third argument of a power, whether the code is given a number or a draw of few values.
    "return pow(int(rng.standard_exponential(dtype=np.float32).__ceil__()), 2, 7)",
    "x = pow(int(rng.standard_exponential(dtype=np.float32).__ceil__()), 2, 7)\n"
    "    return int(np.minimum(x, (random.random() + .2) * np.float32(.7)) < 1 / 3)",
    "return pow(random.randrange(100), 3, 7)",
    "return rng.integers(100).__pow__(3, 7)",
    "return pow(random.random(), 3, 7)",
    # Where a result goes, and which casts are allowed.
    "x = rng.random(2)[0]; o = np.zeros(()); x.clip(0.2, 0.6, out=o); return int(o < .5)",
    "x = rng.random(2); return int((x.clip(0.2, 0.6, out=x) < .5).sum() + 3 * (x[0] < .5))",
    "x = rng.random(2)[0]; return int(x.astype(np.float32, casting='safe') < .5)",
    "x = rng.random(2); return int((x.astype(np.float32, 'K', 'safe') < .5).sum())",
)


@pytest.mark.parametrize("text", SAME)
def test_stand_ins_answer_as_what_they_stand_for(text):
    assert run_twice(f"def program(rng):\n    {text}\n", seed=41) == "same"


def test_a_stand_in_of_another_name_is_told():
    """Negative control: the code asks it."""
    IntTwin.__name__ = "Int"
    try:
        assert isinstance(run_twice(f"def program(rng):\n    {SAME[0]}\n", seed=41), Finding)
    finally:
        IntTwin.__name__ = "int"


def test_a_power_without_its_modulus_is_told(monkeypatch):
    """Negative control."""
    plain = Draw.__pow__
    monkeypatch.setattr(Draw, "__pow__", lambda x, y, modulo=None: plain(x, y))
    text = next(x for x in SAME if "np.minimum" in x)
    assert isinstance(run_twice(f"def program(rng):\n    {text}\n", seed=41), Finding)
