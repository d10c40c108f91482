"""Random programs over draws: the law that is computed against real runs of the same text."""

import pytest
from hypothesis import given, settings
from support.fuzzing.differential import (
    FALSE_ALARM,
    Finding,
    compiled,
    judge,
    plain_runs,
    run_twice,
)
from support.fuzzing.programs import programs

SAME = {
    # Values that were once not what the libraries give.
    "int of a negative": "x = int(rng.integers(-20, 20)); return x % 5",
    "// of a negative": "x = int(rng.integers(-20, 20)) // 8; return x + 3",
    "trunc of a negative": "return int(np.trunc(rng.integers(-20, 20) / 8)) + 3",
    "ceil of an integer": "return math.ceil(rng.integers(0, 40) / 2) % 3",
    "rint, half to even": "return int(np.rint(rng.integers(0, 40) / 2)) % 4",
    "round, half to even": "return round(int(rng.integers(0, 40)) / 2) % 4",
    "sign with zero": "return int(np.sign(rng.integers(-20, 20))) + 1",
    "uint8 wraps": "return int(rng.integers(0, 20, dtype=np.uint8) * 16) // 64",
    "uint8 below zero": "return int(rng.integers(0, 20, dtype=np.uint8) - 10 > 100)",
    "uint8 inverted": "return int(~rng.integers(0, 20, dtype=np.uint8)) // 8 % 4",
    "int8 negated": "return int(-rng.integers(-128, -100, dtype=np.int8) < 0)",
    "int32 doubled": "x = rng.integers(0, 2**31 - 1, dtype=np.int32); return int(x * 2 < 0)",
    "bools added": "a = rng.integers(0, 2, size=2, dtype=bool); return int(a[0] + a[1])",
    "bools inverted": "return int((~rng.integers(0, 2, size=2, dtype=bool)).sum())",
    "tobytes": "return rng.integers(0, 200, size=1, dtype=np.uint8).tobytes()[0] % 3",
    "unpackbits": "return int(np.unpackbits(rng.integers(0, 256, 1, dtype=np.uint8)).sum()) % 5",
    "item": "return rng.integers(0, 100, dtype=np.uint8).item() * 3 // 100",
    "isinstance": "return 2 * isinstance(rng.random(), float) + isinstance(rng.integers(9), int)",
    "~ of numpy's bool": "return int(~(rng.random(2)[0] < 0.3))",
    "equal integers": "return int(rng.integers(20) == rng.integers(20))",
    "an integer plus a float": "return int(rng.integers(20) + rng.random() < 3.5)",
    "falling bounds": "return int(STATE.uniform(2, -1) < 0.5)",
    "rising bounds alone": "return int(rng.uniform(2, -1) < 0.5)",
    # Rounding that moves probability.
    "a snapped coin": "u = rng.random() + 1.5 * 2.0**46 - 1.5 * 2.0**46; return int(u < 0.3)",
    "swamped in float32": "u = np.float32(65536) + rng.random(1).astype(np.float32) - "
    "np.float32(65536); return int(u[0] < 0.3)",
    "a uniform of 16 bits that is 1": "return int(np.float16(rng.random()) == 1)",
    "16 bits and doubles": "x = 1 / (np.float16(STATE.rand(2)[1] * 7) + 1)\n"
    "    return int(np.digitize(x, [0.2, 0.5]))",
    "a grid of its own": "return int(rng.integers(256) / 256 <= 76.5 / 256)",
    # An infinity is no number of a byte, whichever number it becomes.
    "a logarithm in a byte": "x = np.log(rng.random(dtype=np.float32)).astype(np.int8)\n"
    "    return int(np.float32(x + np.int8(1)) > -0.25)",
    "the integer part of noise": "return int(-np.log(-np.log(rng.random()))) % 5",
    "zero over a number of either sign": "x = 0 / (rng.random() - 0.3)\n"
    "    return int(math.copysign(1, x) > 0)",
    "the integer part of an exponential": "return int(rng.standard_exponential() * 2) % 5",
    "zero over zero": "return int(np.isnan(0 / (rng.integers(3) * 1.0)))",
    "types by their names": "x = np.where(rng.random() > -1, rng.random(2), 3)\n"
    "    return len(type(x).__name__ + type(rng.random()).__module__ + x.__class__.__module__)",
    # numpy's own arrays of objects.
    "a list and a logarithm": "a = np.log(np.array([rng.random(), 0.4]) + 2); return a.argmax()",
    "appended": "return int((np.log(np.append(rng.random(2), 0.3) + 2) < 0.9).sum())",
    "clipped": "return int(rng.random(1).astype(np.float32)[0].clip(0.2, 0.6) > 0.5)",
    "an integer that no byte holds": "return int((STATE.tomaxint() + np.uint8(200)) % 3)",
    "an integer that a byte may hold": "x = random.randrange(200, 300)\n"
    "    return int(x + np.uint8(100)) % 27",
    "an integer that is infinite in 16 bits": "x = STATE.tomaxint()\n"
    "    return int(x == np.float16(x))",
    "divided in place, twice": "a = rng.random(2); a //= 1; a //= 1; return int((a < 0.5).sum())",
    # What numpy makes of lists and scalars has a type of its own.
    "16 bits in an array of doubles": "x = np.float16(rng.random())\n"
    "    return int((np.array([x, 1e-3]) < 0.4).sum())",
    "a byte in an array of integers": "x = rng.integers(0, 200, dtype=np.uint8)\n"
    "    return int((np.array([x, 300]) + 100).sum()) % 27",
    "an array full of one draw": "return int(~(np.full(2, rng.random())[0] < 0.3) + 2)",
    "lists joined": "return int(~(np.concatenate([[rng.random()], [1]])[0] < 0.3) + 2)",
    "where, of scalars, in a list": "x = np.float16(rng.random()); x = np.where(x < 1, x, 0.5)\n"
    "    return int(np.argmin(np.array([x, 0.3, 1.0])))",
    "where, of scalars": "x = np.where(rng.random() < 0.4, 0.2, rng.random())\n"
    "    return 2 * int(isinstance(x, float)) + int(math.sqrt(x) < 0.6)",
    "searched among 16 bits": "return int(np.searchsorted(np.float16([0.2, 0.5]), rng.random()))",
    "searched, several": "return int(np.searchsorted([0.2, 0.5], rng.random(2)).sum())",
    # Most types of numpy's have no __trunc__.
    "trunc of 16 bits": "return math.trunc(rng.random(1).astype(np.float16)[0] * -3) + 3",
    "trunc of float32": "return math.trunc(rng.random(2, dtype=np.float32)[1] * 100) % 27",
    "summed as doubles": "x = math.fsum([np.float16(rng.random()), 0.25]); return int(x > 0.3)",
    "summed without rounding": "x = math.fsum([rng.random(), 1e17, -1e17]); return int(x < 0.3)",
    "a logarithm cast": "return int(np.log(rng.random(1))[0].astype(np.int32)) % 3",
    # Where a type ends.
    "beyond 16 bits": "return int(np.isinf(np.float16(rng.random() * 1e5)))",
    "beyond 16 bits, less infinity": "x = np.float16(rng.random() * 1e5) - np.float16(np.inf)\n"
    "    return int(np.isnan(x))",
    "beyond 16 bits, on both sides": "x = np.float16(rng.uniform(-1, 1) * 1e5)\n"
    "    return int(np.isfinite(x)) + 2 * int(x > 0)",
    "beyond float32": "return int(np.isinf(np.float32(rng.random()) * 1e38 * 10))",
    "beyond doubles": "x = np.exp(rng.random() * 1000)\n"
    "    return int(x > 1e300) + 2 * int(np.isinf(x))",
    "exp that raises": "return int(math.exp(rng.random() * 1000) > 1e300)",
    "the logarithm of what is rounded to 0": "x = np.log(np.float16(rng.random() * 1e-7))\n"
    "    return int(np.isinf(x)) + 2 * int(x < -15)",
    "nothing divided by nothing": "return int(np.isnan(rng.integers(0, 40) / np.int64(0)))",
    "the sign of what is rounded to 0": "return int(np.signbit(-np.float16(rng.random() * 1e-8)))",
    # What wraps around, falls where it rose, or has a sign at zero.
    "a square that turns": "x = 3 - random.getrandbits(40); return int(x * x < 2.0**78)",
    "the ends of integers": "x = STATE.randint(0, 2**31 - 1)\n"
    "    return int(x == -x) if x < 2 else 2",
    # What wraps around, computed in two ways or asked for its bits.
    "wrapped, and compared": "x = rng.integers(0, 2**32, dtype=np.uint32) * np.uint32(3)\n"
    "    return int(x + 7 < x)",
    "of Python's and of 32 bits": "x = int(STATE.randint(-2**31, 2**31, dtype=np.int32))\n"
    "    return int(x < x + np.int32(3))",
    "wrapped, and less what is wider": "x = rng.integers(-2**31, 2**31, dtype=np.int32)\n"
    "    return int((x * 2).astype(np.int64) - x.astype(np.int64) * 2 == 0)",
    "twice in 16 bits": "x = rng.integers(-2**15, 2**15, dtype=np.int16)\n"
    "    return int(x == x * 2) + 2 * int(x < x * 3)",
    "the smallest by -1": "x = rng.integers(-2**15, 2**15, dtype=np.int16)\n"
    "    return int(x // -1 < 0)",
    "all bits of a type": "x = rng.integers(0, 2**16, dtype=np.uint16)\n"
    "    return int((x & 65535) < 100)",
    "a ufunc of integers of Python's": "x = int(rng.integers(-2**63, 2**63))\n"
    "    return int(np.multiply(x, 3) < 0)",
    "few of which a byte holds": "x = random.randrange(-32768, 32768) + np.uint8(3)\n"
    "    return int(x < 5)",
    "some of which 64 bits hold": "x = random.randrange(-2**63, 2**64)\n"
    "    return int(x + np.int64(5) < 5)",
    "less a part that 32 bits hold": "x = random.randrange(-2**31, 2**33)\n"
    "    return int(x - (x + np.int32(3)) < 0)",
    "clipped at bounds beyond a type": "x = rng.integers(0, 2**64, dtype=np.uint64)\n"
    "    return int(np.clip(x, -99, 99)) % 27",
    "summed in two dimensions": "x = rng.integers(0, 20, dtype=np.int16)\n"
    "    return int(np.array([[x, 1], [3, x]]).sum()) % 27",
    "words of 32 bits": "x = np.random.SeedSequence().generate_state(2)[0]\n"
    "    return int(x * 2 < 99999)",
    "infinite or no number": "x = rng.random(1).astype(np.float16)[0] * 2.0**60\n"
    "    return int(0.5 < x)",
    "a float beside an infinity of 16 bits": "x = rng.uniform(1e-3, 1e3) * 2.0**60\n"
    "    return int(x == np.float16(x))",
    "a negative zero among others": "x = -math.log(-math.log(random.random()))\n"
    "    return int(np.signbit(np.floor_divide(x, 2)))",
    "a negative zero by a mask": "x = rng.uniform(-1, 2)\n"
    "    return int(np.signbit((x > 1) * x))",
    "a negative zero by a mask, and a float": "x = np.float64(rng.uniform(-1, 2))\n"
    "    return int(np.signbit((x > 1) * x))",
    "a remainder in float32's tail": "x = rng.standard_exponential(2, dtype=np.float32)[1]\n"
    "    return int(x % 0.25 < 0.2)",
    # What numpy adds up in a wider type.
    "a sum of bytes": "return int(rng.integers(0, 200, 1, np.uint8).repeat(2).sum() < 2)",
    "a sum of 16 bits": "x = np.float16(rng.random())\n"
    "    return int(np.array([x, 2000, 0.3, 0.3, 0.3], dtype=np.float16).sum() < 2001.5)",
    # What numpy chooses from has one type, in which it is compared.
    "chosen by select": "a = np.float16(STATE.rand(3)); a = np.select([a < 0.2], [0], a)\n"
    "    return int(a[0] < 0.4) + 3 * a.dtype.itemsize",
    "clipped between two types": "a = np.float16(rng.random(1))\n"
    "    return int(np.clip(a, 0.1, W[:1])[0] > 0.1)",
    # What changes an array that holds numbers by now.
    "added at a place": "a = np.floor(rng.random(2) * 3); np.add.at(a, [0], 1); return int(a[0])",
    # What is asked of the type, by code that does not ask isinstance.
    "type()": "x = rng.random(); return (type(x) is float) + 2 * (type(3) is int)",
    "type() of numpy's": "x = rng.integers(0, 99)\n"
    "    return (type(x) is np.int64) + 2 * (type(W[0]) is np.float64)",
    "type() by name": "return int(type(rng.random()).__name__ == 'float')",
    "a class of classes": "M = type('M', (type,), {}); A = M('A', (), {'y': 4})\n"
    "    return A.y + (type(A) is M) + (type(rng.random()) is float)",
    "no index": "return int(hasattr(rng.random(), '__index__'))",
    "an index that is asked for": "return rng.integers(0, 99).__index__() % 7",
    "a list indexed by a float": "return [3, 4][rng.random()]",
    "__floor__": "x = rng.random() * 9; return x.__floor__() + x.__ceil__() + x.__trunc__()",
    "no __floor__": "return hasattr(np.float32(rng.random()), '__floor__')",
    "~ of a predicate": "return int(~np.isfinite(rng.random()) + 2)",
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
@pytest.mark.thorough
def test_what_was_found_stays_mended(what):
    assert run_twice(f"def program(rng):\n    {SAME[what]}\n", seed=12) == "same"


REFUSED = {
    "an overflow of uint32": "x = rng.integers(2**32, dtype=np.uint32); return int(x * x >> 3 > 0)",
    # Which of equal elements comes first is not torch's to say.
    "topk": "return int(torch.cat([torch.rand(1).expand(3)] * 2).topk(1).indices)",
    "used for more than": "x = rng.integers(-2**31, 2**31, dtype=np.int32) * np.int8(2)\n"
    "    return int(int(x) % 3)",
    # Some of whose values no 64 bits hold, and others do.
    "a shift of a draw": "x = random.randrange(2**64); return int((x << np.int64(-1)) > 0)",
    "mixed with % & or ^": "x = rng.integers(-30000, 50000) ^ 5\n"
    "    return int(x.astype(np.int8) % 3)",
    "two results of one draw": "x = rng.integers(2**40); return int(x - (x >> 1) * 2)",
    "sub of two results of one draw": "x = rng.integers(0, 2**64, dtype=np.uint64) * 1.0\n"
    "    return int(x < x + 1)",
    "beyond numpy's 64 bits": "x = random.getrandbits(70)\n"
    "    return int(np.array([x, x + 1]).argmax())",
    "more than 1,024 bits": "return int(random.getrandbits(40) * 10**400 > 3)",
    "an overflow of int8": "x = rng.integers(-2**31, 2**31, dtype=np.int32)\n"
    "    return int(x.astype(np.int8) < 3)",
    "more than a seed": "return int(np.abs(rng.integers(2**64, dtype=np.uint64) ^ 5) % 3)",
    "np.arctan2 of draws": "a = torch.rand(2); a[0] = 0.3\n"
    "    return int(np.arctan2(a[0], a[1]) < 0.3)",
    "numpy() of bfloat16": "a = torch.rand(2, dtype=torch.bfloat16)\n"
    "    return int(np.argmin([a[0], 0.3]))",
    # Some of whose values raise, and others do not.
    "a power of a draw": "return int(2 ** (3 - rng.integers(-2**40, 2**40)) > 0)",
    # The uniform of an exponential may be 0, at which no logarithm may raise.
    "the remainder of a draw": "x = 0.5 / torch.empty(1).exponential_()\n    x *= x\n"
    "    return int(x[0].item() // 0.3) % 27",
    "scatter of several elements to one place": "a = torch.zeros(2)\n"
    "    a = a.scatter(0, torch.tensor([1, 1]), torch.rand(2)); return int(a[1] < 0.3)",
    "masked_fill_ of an expanded tensor": "a = torch.rand(1).expand(2)\n"
    "    a.masked_fill_(a > 0.5, 0.1)\n    return int(a[0] < 0.25)",
    "np.hypot of draws": "return int(np.hypot(torch.rand(1)[0], torch.rand(1)[0]) < 0.3)",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_nobody_can_follow_is_refused_by_name(what):
    pytest.importorskip("torch")
    found = run_twice(f"def program(rng):\n    {REFUSED[what]}\n", seed=13)
    assert isinstance(found, str)
    assert what in found


@given(programs())
@settings(max_examples=40, derandomize=True, database=None, deadline=None)
def test_random_programs_have_the_law_that_is_computed(text):
    assert not isinstance(run_twice(text, seed=14, few=300), Finding)


def test_another_law_is_told():
    """Negative control: a coin of .3 is no coin of .31."""
    program = compiled("def program(rng):\n    return int(rng.random() < 0.31)\n")
    seen = plain_runs(program, 100_000, 15)
    assert judge({1: 0.31, 0: 0.69}, 0.0, seen, 100_000)[0] > 1e-3
    assert judge({1: 0.3, 0: 0.7}, 0.0, seen, 100_000)[0] < FALSE_ALARM
    assert judge({1: 1.0}, 0.0, seen, 100_000)[0] < FALSE_ALARM
