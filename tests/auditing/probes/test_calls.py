"""Probes of what a call does to its inputs, of what it returns, and of how long it takes."""

import threading
import time
from contextlib import nullcontext

import pytest
from support.probing import by_name

from simverify.auditing import probes
from simverify.auditing.invocation import CallOutcome, EnoughCalls, ProbeRecorder
from simverify.auditing.probes import run_probes
from simverify.verifiers import VERIFIERS

torch = pytest.importorskip("torch")

TOKEN = VERIFIERS["token"].rule


def with_table(change):
    """The token rule behind a change to its inputs."""

    def rule(p, q, x, rng):
        change(p, q, x)
        return TOKEN(p, q, x, rng)

    return rule


def sharpen(p, q, x):
    p *= 1.0  # writes the same bytes


def clear(p, q, x):
    q[-1] = 0.0


@pytest.mark.parametrize("change", [sharpen, clear])
def test_changed_inputs_are_a_violation(change):
    found = by_name(with_table(change))["inputs"]
    assert found.outcome == "violation"
    assert "changes its inputs" in found.message


def test_asking_for_writable_inputs_is_a_warning():
    def rule(p, q, x, rng):
        if not p.flags.writeable:
            raise ValueError("buffer source array is read-only")
        return TOKEN(p, q, x, rng)

    assert by_name(rule)["inputs"].outcome == "warning"


BROKEN = {
    "raises": (lambda p, q, x, rng: 1 / 0, "ZeroDivisionError"),
    "exits": (lambda p, q, x, rng: exec("raise SystemExit(3)"), "SystemExit"),
    "none": (lambda p, q, x, rng: None, "returned None"),
    "empty": (lambda p, q, x, rng: [], "no tokens"),
    "too many": (lambda p, q, x, rng: [*x, *TOKEN(p, q, x, rng), 0], "tokens, gamma + 1"),
    "out of range": (lambda p, q, x, rng: [len(p[0])], "vocabulary 0.."),
    "padded": (lambda p, q, x, rng: [-1], "token -1"),
    "floats": (lambda p, q, x, rng: [0.0], "float"),
    "booleans": (lambda p, q, x, rng: [True], "bool"),
    "nested": (lambda p, q, x, rng: [TOKEN(p, q, x, rng)], "nested"),
    "scalar": (lambda p, q, x, rng: 1, "returned an int, expected a list"),
    "no prefix": (lambda p, q, x, rng: [(x[0] + 1) % 3, 0], "no prefix"),
    "elsewhere": (lambda p, q, x, rng: torch.zeros(1, dtype=int, device="meta"), "device meta"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.thorough
def test_broken_output_is_a_violation_that_says_so(name):
    rule, text = BROKEN[name]
    found = by_name(rule)
    assert found["output"].outcome == "violation"
    assert text in found["output"].message
    assert "Traceback" not in found["output"].message
    assert found["u = 0"].outcome != "ok"


@pytest.mark.parametrize(
    "loop", [lambda: [None for _ in iter(int, 1)], lambda: time.sleep(600)], ids=["busy", "asleep"]
)
def test_a_hang_is_a_violation_and_ends_the_probes(loop):
    waited_for = []
    found = by_name(lambda p, q, x, rng: waited_for.append(loop()), seconds=0.1)
    assert waited_for == []
    assert found["output"].outcome == "violation"
    assert "did not return" in found["output"].message
    assert {p.outcome for n, p in found.items() if n != "output"} == {"not run"}


@pytest.fixture
def few(monkeypatch):
    """Two probes alone between the first and those of forced draws: each waits its whole time."""
    every = probes._seeded_probes
    kept = ("gamma = 1", "NaN rows")
    chosen = lambda *given: {name: every(*given)[name] for name in kept}  # noqa: E731
    monkeypatch.setattr(probes, "_seeded_probes", chosen)


@pytest.mark.usefixtures("few")
@pytest.mark.thorough
def test_slow_code_is_no_hang():
    def rule(p, q, x, rng):
        time.sleep(0.02)  # hardly any of it is the processor's, so the wall clock counts
        return TOKEN(p, q, x, rng)

    found = run_probes(rule, "verify", seconds=0.45)
    assert {p.outcome for p in found} <= {"ok", "not run"}
    assert "in the calls that time allowed" in found[1].message


@pytest.mark.usefixtures("few")
@pytest.mark.thorough
def test_a_call_as_slow_as_the_others_is_no_hang():
    def rule(p, q, x, rng):
        time.sleep(0.3)
        return TOKEN(p, q, x, rng)

    found = by_name(rule, seconds=0.4)
    assert not any(probe.hung for probe in found.values())
    assert found["NaN rows"].outcome == "not run"
    assert "no call ended within" in found["NaN rows"].message


@pytest.mark.parametrize(("call", "calls"), [(1e-3, 600), (1e-2, 24)])
def test_slow_code_alone_loses_calls(call, calls, monkeypatch):
    """What a slow machine makes of quick code takes all of its calls."""
    line = ProbeRecorder()
    monkeypatch.setattr(line._watch, "seconds", lambda: call * line.calls)
    with pytest.raises(EnoughCalls) if calls < 600 else nullcontext():
        for _ in range(600):
            line.call(lambda: CallOutcome((0,), ""))
    assert line.calls == calls


def test_probes_run_outside_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(by_name(TOKEN)))
    thread.start()
    thread.join(30)
    assert found[0]["output"].outcome == "ok"
