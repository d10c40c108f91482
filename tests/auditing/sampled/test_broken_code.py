"""Code that breaks its contract while it is sampled, and what the tier leaves as it was."""

import itertools
import random
import sys

import pytest
from support.sampled_audits import SMALL, audit, token

from simverify.verifiers import VERIFIERS

# -- code that misbehaves ------------------------------------------------------------------


def hangs(*arguments):
    while True:
        pass


def raises(*arguments):
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("rule", "finding"),
    [
        (raises, "raises: ZeroDivisionError: division by zero"),
        (lambda *a: None, "no-tokens"),
        (lambda *a: [], "empty"),
        (lambda *a: [0.5], "not-integers"),
        (lambda *a: [99], "out-of-range"),
        (lambda *a: [*a[2], 0, 0], "too-many"),
        (lambda *a: [(a[2][0] + 1) % 3, 0], "not-a-prefix"),
        (lambda *a: sys.exit(3), "raises: SystemExit"),
    ],
)
def test_garbage_is_a_finding(rule, finding):
    result = audit(rule, instances=SMALL)
    assert result.verdict == "FAIL"
    assert finding in result.tier.findings[0].text


def test_a_hanging_call_is_a_finding():
    result = audit(hangs, seconds=1.0)
    assert result.verdict == "FAIL"
    assert "hangs" in result.tier.findings[0].text


def test_a_batch_of_the_wrong_length_is_a_finding():
    result = audit(lambda p, q, x, rng: [[0]], batch=4, instances=SMALL)
    assert "a call of 4 rows" in result.tier.findings[0].text


def test_interruption_passes_through_and_global_generators_are_put_back():
    calls = itertools.count()

    def interrupted(p, q, x, rng):
        random.seed(1)
        if next(calls) == 100:
            raise KeyboardInterrupt
        return token(p, q, x, rng)

    before = random.getstate()
    with pytest.raises(KeyboardInterrupt):
        audit(interrupted)
    assert random.getstate() == before


def test_inputs_written_to_do_not_reach_the_next_call():
    def writes(p, q, x, rng):
        emitted = token(p, q, x, rng)
        p[:], q[:], x[:] = 0.0, 0.0, 0
        return emitted

    assert not audit(writes, instances=SMALL, detect=0.1).tier.findings


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="contract is 'other'"):
        audit(token, "other")
    with pytest.raises(ValueError, match="instances are empty"):
        audit(token, instances=())
    with pytest.raises(ValueError, match="detect is 0"):
        audit(token, detect=0)
    with pytest.raises(ValueError, match="batch is 2 under step"):
        audit(VERIFIERS["greedy"].rule, "step", batch=2)
    with pytest.raises(ValueError, match="neither step"):
        audit(token, "step")
