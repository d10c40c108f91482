"""Numbers, sizes and counts that no memory holds: the code raises as the library does, or says so.

What is followed must not need the memory itself: one draw out of 2**45 is one number.
"""

import pytest
from support.fuzzing import differential
from support.fuzzing.differential import Finding, run_twice

from simverify.symbolic import array_functions, outcomes
from simverify.symbolic.scalar import Draw

SAME = (
    "x = random.randrange(0, 200); return int(x << 2**40) % 7",
    "x = rng.integers(0, 2**16, dtype=np.uint16) << 2**40; return int(x < 5)",
    "x = rng.integers(-2**31, 2**31, dtype=np.int32) << 2**31; return int(x < 5)",
    "return (random.randrange(9) >> 2**40) % 7",
    "return (1 << random.randrange(20)) % 7",
    "return (5 >> rng.integers(-2, 20)) % 7",
    "return (1.5 << rng.integers(0, 20)) % 7",
    "return (np.int64(3) << rng.integers(0, 200, dtype=np.uint8)) % 7",
    "x = rng.integers(0, 9); return len([1] * (int(x) * 2**40)) % 7",
    "x = rng.integers(0, 9); return np.zeros(int(x) * 2**50).size % 7",
    "x = rng.integers(0, 9); return rng.permutation(x * 2**58).size % 7",
    "return np.repeat(rng.random(2), 2**45).size % 7",
    "return np.full(2**45, rng.random()).size % 7",
    # A view needs no memory.
    "return np.broadcast_to(rng.random(2), (2**45, 2)).size % 7",
    "return int(random.randrange(5) * 10**400 > 3)",
)
REFUSED = {
    "a shift of a draw": "x = random.randrange(2**40); return int(x << 2**40) % 7",
    "a shift by a draw": "return (1 << random.randrange(2**40)) % 7",
    "35,184,372,088,832 numbers": "return rng.random(2**45).size % 7",
    "17,592,186,044,416 numbers": "return int(rng.choice(2**44, 2, replace=False)[0]) % 7",
    "1,073,741,824 numbers": "return int(rng.choice(2**30, 3)[0]) % 7",
    "1,099,511,627,776 numbers": "return int(rng.multinomial(2**40, [0.3, 0.7])[0]) % 3",
    "67,108,864 numbers": "return int(torch.rand(2**26)[0] < 0.3)",
    "of 2,000 trials": "return int(rng.binomial(2000, 0.3)) % 3",
    "of 1,048,576 bits": "return random.getrandbits(2**20) % 2",
    "of 3,001 bits": "return random.randrange(2**3000) % 2",
}


@pytest.mark.parametrize("text", SAME)
def test_what_no_memory_holds_raises_as_it_does_without_draws(text):
    assert run_twice(f"def program(rng):\n    {text}\n", seed=31) == "same"


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_followed_for_its_size_is_refused_at_once(what):
    if "torch" in REFUSED[what]:
        pytest.importorskip("torch")
    found = run_twice(f"def program(rng):\n    {REFUSED[what]}\n", seed=32)
    assert isinstance(found, str)
    assert what in found


def test_a_shift_that_is_tried_on_another_number_is_told(monkeypatch):
    """Negative control: 0 has as few digits after a shift, and 1 has 2**40 more."""

    def tried_on_one(draw, op, bits):
        op(1, bits)
        return False

    monkeypatch.setattr(Draw, "_shifts", tried_on_one)
    assert isinstance(run_twice(f"def program(rng):\n    {SAME[0]}\n", seed=31), Finding)


def test_memory_that_only_a_stand_in_needs_is_no_error_of_the_code(monkeypatch):
    """It is refused; where it is not told apart, it is told of the code."""
    text = "def program(rng):\n    return int(np.tensordot(rng.random(2), W[:2], 0)[0, 0] < 0.3)\n"

    def greedy(*_, **__):
        raise MemoryError

    monkeypatch.setattr(array_functions, "run_on_values", greedy)
    monkeypatch.setattr(differential, "RAISED", (ZeroDivisionError,))
    assert run_twice(text, seed=33) == "what needs more memory than there is"
    monkeypatch.setattr(outcomes, "role_of_module", lambda _: "machinery")
    assert isinstance(run_twice(text, seed=33), Finding)
