"""What the code returns, raises, changes and keeps, path by path."""

import math
import os

import numpy as np
import pytest
from support.one_block import P, Q, X, endless, law_of
from support.whole_laws import enumerate_step

from simverify.auditing.comparison import compare_tokens
from simverify.auditing.enumeration import enumerate_verify
from simverify.symbolic.provenance import CannotEnumerate

BAD = {
    "empty": [],
    "no-tokens": None,
    "too-many": [0, 1, 0, 0],
    "out-of-range": [3],
    "not-integers": [0.0],
    "shape": [[0]],
}


@pytest.mark.parametrize("kind", BAD)
def test_an_unusable_result_is_a_finding(kind):
    law = law_of(lambda p, q, x, rng: BAD[kind])
    assert [(f.kind, f.severity) for f in law.findings] == [(kind, "violation")]
    assert (law.probabilities, law.lost) == ({}, 1.0)


@pytest.mark.parametrize(
    "result", [[-1], np.array([0.0]), [True], "0", 0, np.float64(0), [np.bool_(1)]], ids=repr
)
def test_other_unusable_results(result):
    assert law_of(lambda p, q, x, rng: result).lost == 1.0


@pytest.mark.parametrize(
    "result", [[2], (2,), np.array([2]), np.array([2], dtype=np.uint8), [np.int32(2)]], ids=repr
)
def test_rows_of_integers_are_fine(result):
    law = law_of(lambda p, q, x, rng: result)
    assert (law.probabilities, law.findings) == ({(2,): 1.0}, ())


def test_raising_on_some_paths_is_a_finding_with_its_mass_and_line():
    def rule(p, q, x, rng):
        if rng.random() < 0.25:
            raise RuntimeError("boom")
        return [0]

    law = law_of(rule)
    assert law.probabilities == {(0,): 0.75}
    assert law.lost == 0.25
    assert law.findings[0].kind == "raises"
    assert "boom" in law.findings[0].message
    assert __file__ in law.findings[0].message


def test_system_exit_does_not_end_the_audit():
    def rule(p, q, x, rng):
        raise SystemExit(3)

    assert law_of(rule).findings[0].kind == "raises"


def test_changed_inputs_are_a_finding_and_do_not_leak_into_the_next_path():
    def rule(p, q, x, rng):
        p[0] -= q[0]
        return [0 if rng.random() < 0.5 else 1] if p[0, 0] == P[0, 0] - Q[0, 0] else [2]

    law = law_of(rule)
    assert law.probabilities == {(0,): 0.5, (1,): 0.5}
    assert [f.kind for f in law.findings] == ["inputs-modified"]


def test_tokens_that_are_not_a_prefix_of_the_draft_are_a_finding():
    law = law_of(lambda p, q, x, rng: [1, 1])
    assert [f.kind for f in law.findings] == ["not-a-prefix"]


REAL = [np.random.default_rng(0)]

CANNOT = {
    "cosine": lambda rng: math.cos(float(rng.random())) > 0.7,
    "interpolation": lambda rng: np.interp(rng.random(), [0, 1], [0, 2]) > 0.7,
    "normal": lambda rng: rng.normal() > 0,
    "sum of two": lambda rng: rng.random() + rng.random() < 0.5,
    "format": lambda rng: f"{rng.random():.2f}" < "0.5",
    "hash": lambda rng: hash(rng.random()) % 2,
    "raw bits": lambda rng: rng.bit_generator.random_raw() % 2,
    "raised on symbols": lambda rng: [].index(0) if hasattr(rng.random(), "__iter__") else 1,
    "wrong branch": lambda rng: hasattr(rng.random(), "__iter__"),
    "untracked generator": lambda rng: REAL[0].integers(2),
    "untracked after a draw": lambda rng: rng.random() < 0.5 and REAL[0].random() < 0.5,
    "the system": lambda rng: os.urandom(1)[0] % 2,
    "a mean": lambda rng: np.mean(rng.random(3)) < 0.5,
    "u < v, then u < c": lambda rng: (lambda u: u[0] < u[1] and u[0] < 0.3)(rng.random(2)),
}


@pytest.mark.parametrize("what", CANNOT)
def test_what_cannot_be_followed_is_refused(what):
    with pytest.raises(CannotEnumerate):
        law_of(lambda p, q, x, rng: [int(bool(CANNOT[what](rng)))])


def test_a_refusal_that_the_code_swallows_still_counts():
    def rule(p, q, x, rng):
        try:
            return [int(math.cos(rng.random()) < 0.5)]
        except Exception:
            return [0]

    with pytest.raises(CannotEnumerate, match=r"float\(\) of a draw at .*test_enumerate_contract"):
        law_of(rule)


def put_into_a_matrix(rng):
    matrix = np.eye(2)
    matrix[0, 0] = rng.random()
    return int(matrix[0, 0] < 0.25) + int(matrix[1, 1] < 1)


FOLLOWED = {
    "into a matrix": (put_into_a_matrix, [0.75, 0.25, 0]),
    "the very type": (lambda rng: int(type(rng.random()) is float), [0, 1, 0]),
    "floor": (lambda rng: math.floor(rng.random() * 3), [1 / 3, 1 / 3, 1 / 3]),
    "int": (lambda rng: int(3 * (1 - rng.random())), [1 / 3, 1 / 3, 1 / 3]),
    "integers": (lambda rng: rng.integers(0, 2, endpoint=True), [1 / 3, 1 / 3, 1 / 3]),
    "permutation": (lambda rng: rng.permutation(3)[0], [1 / 3, 1 / 3, 1 / 3]),
    "order of keys": (lambda rng: np.argsort(rng.random(3))[1], [1 / 3, 1 / 3, 1 / 3]),
    "square": (lambda rng: int(rng.random() ** 2 < 0.25), [0.5, 0.5, 0]),
    "square root": (lambda rng: int(np.sqrt(rng.random()) < 0.5), [0.75, 0.25, 0]),
    "distance": (lambda rng: int(abs(rng.random() - 0.5) < 0.1), [0.8, 0.2, 0]),
    "cell": (lambda rng: ["a", "b"].index("ab"[int(rng.random() * 2)]), [0.5, 0.5, 0]),
    "rounds": (lambda rng: round(2 * rng.random()), [0.25, 0.5, 0.25]),
    "remainder": (lambda rng: int((rng.random() * 4) % 2 < 0.5), [0.75, 0.25, 0]),
    "exponential": (lambda rng: int(rng.exponential(2.0) < 2 * math.log(2)), [0.5, 0.5, 0]),
    "same race twice": (
        lambda rng: (lambda e: 2 * int(np.argmin(e / [1, 3]) == np.argmin(e / [2, 6])))(
            rng.exponential(size=2)
        ),
        [0, 0, 1],
    ),
    "coin": (lambda rng: rng.binomial(2, 0.5), [0.25, 0.5, 0.25]),
}


@pytest.mark.parametrize("what", FOLLOWED)
def test_functions_of_draws_have_their_law(what):
    function, due = FOLLOWED[what]
    law = law_of(lambda p, q, x, rng: [function(rng)]).probabilities
    assert [law.get((i,), 0.0) for i in range(3)] == pytest.approx(due, abs=1e-14)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ((P, Q, []), "gamma at least 1"),
        ((P[:2], Q, X), r"\(gamma\+1, V\)"),
        ((P, Q[:1], X), "draft_probs has shape"),
        ((P, Q, [0, 3]), "ids in 0..2"),
    ],
)
def test_bad_blocks_are_named(arrays, match):
    with pytest.raises(ValueError, match=match):
        enumerate_verify(endless, *arrays)


# -- step contract --


def target(prefix):
    return np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])[sum(prefix) % 3]


def draft(prefix):
    return np.array([[0.6, 0.2, 0.2], [0.3, 0.3, 0.4], [0.2, 0.7, 0.1]])[sum(prefix) % 3]


def step(prefix, target, draft, gamma, rng):
    out = ()
    for _ in range(gamma):
        p, q = target(prefix + out), draft(prefix + out)
        y = int(rng.choice(3, p=q))
        if rng.random() >= p[y] / q[y]:
            rest = np.maximum(p - q, 0)
            return [*out, int(rng.choice(3, p=rest / rest.sum()))]
        out += (y,)
    return [*out, int(rng.choice(3, p=target(prefix + out)))]


class Stateful:
    """Wrong from the second call on: it remembers that it was called."""

    def __init__(self, wrong=True):
        self.calls = None
        self.wrong = wrong

    def reset(self):
        self.calls = 0

    def step(self, prefix, target, draft, gamma, rng):
        self.calls += 1
        row = draft(prefix) if self.calls > 1 and self.wrong else target(prefix)
        return [int(rng.choice(3, p=row))]


def compare(rule, length=3, gamma=2):
    law = enumerate_step(rule, target, draft, gamma=gamma, length=length)
    return compare_tokens(law, target)


def test_a_step_function_over_several_calls():
    assert compare(step).max_abs_deviation < 1e-14
    wrong = compare(lambda prefix, target, draft, gamma, rng: [int(rng.choice(3, p=draft(prefix)))])
    assert wrong.place.position == 0
    assert wrong.tv > 0.1


def test_a_stateful_rule_is_built_anew_for_every_path():
    assert compare(lambda: Stateful(wrong=False)).max_abs_deviation < 1e-14
    wrong = compare(Stateful)
    assert wrong.place.position == 1


def test_a_seed_set_when_a_rule_is_built_is_no_finding():
    class Seeded:
        def __init__(self):
            self.rng = np.random.default_rng(0)

        def step(self, prefix, target, draft, gamma, rng):
            return step(prefix, target, draft, gamma, self.rng)

    result = compare(Seeded)
    assert result.findings == ()
    assert result.max_abs_deviation < 1e-14


def test_a_step_rule_must_be_callable_the_right_way():
    with pytest.raises(ValueError, match="neither step"):
        compare(lambda prefix, target: [0])
    with pytest.raises(ValueError, match="an instance cannot be built anew"):
        compare(Stateful())
