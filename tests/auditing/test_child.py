"""Code that kills or blocks the process that it is audited in: a finding, and the audit goes on."""

import copyreg
import ctypes
import itertools
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from support.rules import token

from simverify.auditing.run import audit, supervised_audit
from simverify.auditing.sandbox import (
    KILL_GRACE_SECONDS,
    ChildDeath,
    StallDetector,
    _processor_seconds,
    has_threads_of_libraries,
    run_in_child,
)
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import SimverifyError, UsageError
from simverify.symbolic.watchdog import ProgressBoard, deadline

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=1, vocab=3, seconds=2)
# Past the functions that are replaced while code is audited.
_exit = os._exit
raise_in_c = ctypes.CDLL(None)["raise"]


def supervised(rule, settings=SMALL):
    return supervised_audit(lambda: Subject("mine", rule, None), "verify", settings, spec="mine")


def crashing(p, q, x, rng):
    ctypes.string_at(0)


def crashing_on_three_tokens(p, q, x, rng):
    if p.shape[1] == 2 and len(x) == 1:
        ctypes.string_at(0)
    return token(p, q, x, rng)


def leaving(p, q, x, rng):
    _exit(0)


def killing(p, q, x, rng):
    raise_in_c(signal.SIGKILL)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (crashing, "SIGSEGV (a segmentation fault) at {file}:{line}, in the probe 'output'"),
        (crashing_on_three_tokens, ", in the exact tier on"),
        (leaving, "the process ended itself with exit code 0"),
        (killing, "ended by the signal SIGKILL"),
    ],
)
def test_a_death_is_a_finding_that_says_how_and_where(rule, words):
    run = supervised(rule)
    assert run.verdict == "FAIL"
    (finding,) = run.findings
    assert finding.kind == "process"
    assert finding.text.startswith("ends the process: ")
    line = rule.__code__.co_firstlineno + 1
    assert words.format(file=__file__, line=line) in finding.text


def test_a_call_that_nothing_can_interrupt_is_a_hang(monkeypatch):
    monkeypatch.setattr("simverify.auditing.sandbox.KILL_GRACE_SECONDS", 0.5)
    monkeypatch.setattr("simverify.auditing.probes.WARM_UP_FACTOR", 0.2)
    run = supervised(lambda p, q, x, rng: [sum(itertools.repeat(0))])
    assert run.verdict == "FAIL"
    assert [str(finding) for finding in run.findings] == [
        "hangs: a call did not return, and nothing could interrupt it, in the probe 'output'"
    ]


def waiting_on_zeros(p, q, x, rng):
    """The token rule; on rows of zeros, which no contract has, it looks for a token for ever."""
    if not p.any():
        sum(itertools.repeat(0))
    return token(p, q, x, rng)


def test_a_call_that_nothing_can_interrupt_on_invalid_rows_is_no_fault(monkeypatch):
    monkeypatch.setattr("simverify.auditing.sandbox.KILL_GRACE_SECONDS", 0.5)
    run = supervised(waiting_on_zeros)
    assert run.verdict == "PASS"
    (probe,) = [probe for probe in run.probes if probe.name == "zero rows"]
    assert probe.outcome == "warning"
    assert probe.message == "a call did not return, and nothing could interrupt it"


def test_a_call_that_gets_no_processor_is_not_called_a_hang():
    shown = ProgressBoard()
    shown.write((100.0, 3.0), "the probe 'u = 0'")
    busy, starved, waiting, unknown = (StallDetector() for _ in range(4))
    for patience, first in ((busy, 3.0), (starved, 0.4), (waiting, 0.4), (unknown, None)):
        assert patience.ended(shown, 99.0, first) is None
        assert patience.ended(shown, 101.0, first) is None
    late = 101.0 + 2 * KILL_GRACE_SECONDS
    assert "nothing could interrupt it" in busy.ended(shown, late, 3.0 + KILL_GRACE_SECONDS)
    # It runs, an eighth of the time, and has not had its seconds.
    assert starved.ended(shown, late, 0.4 + KILL_GRACE_SECONDS / 4) is None
    assert "waits for something" in waiting.ended(shown, late, 0.4)
    assert unknown.ended(shown, late, None) == (
        f"no answer within {KILL_GRACE_SECONDS:g} s of wall clock after its limit"
    )
    # A call that ended meanwhile, and another that began, start anew.
    shown.write((late + 50, 9.0), "the probe 'u = 1'")
    assert waiting.ended(shown, late + 1, 0.4) is None
    assert waiting.ended(shown, late + 51, 0.4) is None


def test_the_processor_seconds_of_a_process_are_its_own():
    assert _processor_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.5)
    assert _processor_seconds(2**30) is None


def test_a_child_gives_the_same_document(monkeypatch):
    # A child of a process of gigabytes is slow at first, and probes of slow code make fewer calls.
    monkeypatch.setattr("simverify.auditing.invocation.SLOW_PROBE_SECONDS", 60.0)
    ours, childs = audit(Subject("mine", token, None), "verify", SMALL), supervised(token)
    assert childs.verdict == "PASS"
    for field in set(ours.__struct_fields__) - {"meta"}:
        assert getattr(ours, field) == getattr(childs, field)


@pytest.mark.parametrize("started", [False, True])
def test_once_jax_has_started_its_threads_there_is_no_child(monkeypatch, started):
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    bridge = SimpleNamespace(backends_are_initialized=lambda: started)
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    monkeypatch.setattr(
        "simverify.auditing.sandbox.has_threads_of_libraries", has_threads_of_libraries
    )
    assert (run_in_child(lambda say: os.getpid(), print) == os.getpid()) is started


def test_what_a_child_says_raises_and_returns_comes_back():
    said = []
    assert run_in_child(lambda say: [say("one"), say("two" * 100_000), 3][-1], said.append) == 3
    assert said == ["one", "two" * 100_000]
    with pytest.raises(UsageError, match="wrong option"):
        run_in_child(lambda say: (_ for _ in ()).throw(UsageError("wrong option")), said.append)
    with pytest.raises(ZeroDivisionError) as caught:
        run_in_child(lambda say: 1 // 0, said.append)
    assert "in <lambda>" in caught.value.__notes__[0]


def rebuilt(kind, given, *_led_to):
    return kind(*given)


def test_what_a_child_raises_comes_back_where_errors_are_pickled_with_those_that_they_came_of():
    """As they are once tblib, which Dask loads, has seen to it."""

    class OfNoModule(Exception):
        """Cannot be pickled."""

    def work(_say):
        copyreg.pickle(UsageError, lambda e: (rebuilt, (type(e), e.args, e.__context__)))
        try:
            raise OfNoModule
        except OfNoModule:
            raise UsageError("wrong option") from None

    with pytest.raises(UsageError, match="wrong option"):
        run_in_child(work, print)


def test_a_child_uses_torch_after_its_parent_did(two_threads):
    torch = pytest.importorskip("torch")
    many = 1 << 20
    torch.zeros(many).exp()  # starts threads, which no fork takes along

    def work(_say):
        with deadline(5):
            return float(torch.zeros(many).exp().sum())

    assert run_in_child(work, print) == many


WORDS = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, ...",
    "CUDA error: initialization error\nSearch for `cudaErrorInitializationError' in ...",
)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.thorough
def test_code_on_a_gpu_that_this_process_uses_is_audited_in_it(monkeypatch, words):
    """torch raises so in a child; without a GPU the code does it."""
    torch = pytest.importorskip("torch")
    here, said = os.getpid(), []

    def on_gpu(p, q, x, rng):
        if os.getpid() != here:
            raise RuntimeError(words)
        return token(p, q, x, rng)

    def audited():
        mine = Subject("mine", on_gpu, None)
        return supervised_audit(
            lambda: mine, "verify", SMALL, spec="mine", progress=said.append
        ).verdict

    # Where no GPU is in use those words are a raise as any other.
    assert audited() == "FAIL"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert audited() == "PASS"
    assert sum(line.startswith("again in this process") for line in said) == 1
    with pytest.raises(ZeroDivisionError):  # of other errors nothing is done twice
        run_in_child(lambda say: 1 // (os.getpid() - os.getpid()), said.append)
    assert sum(line.startswith("again in this process") for line in said) == 1


def test_a_child_ends_with_its_parents_interest():
    def interrupt(line):
        raise KeyboardInterrupt(line)

    with pytest.raises(KeyboardInterrupt) as caught:
        run_in_child(lambda say: (say(str(os.getpid())), signal.pause()), interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(caught.value.args[0]), 0)


def test_code_that_dies_while_it_loads_is_no_verdict():
    with pytest.raises(SimverifyError, match="mine fails to load: the process was ended"):
        supervised_audit(lambda: ctypes.string_at(0), "verify", SMALL, spec="mine")
    assert run_in_child(lambda say: _exit(3), print) == ChildDeath(
        "the process ended itself with exit code 3", ""
    )


JAX_IN_USE = """
import jax
jax.numpy.ones(3).sum()
from simverify.auditing.sandbox import run_in_child
product = jax.jit(lambda x: (x @ x).sum())
print(run_in_child(lambda _say: float(product(jax.numpy.ones((99, 99)))), print))
"""


@pytest.mark.thorough
def test_work_is_not_forked_from_a_process_that_computes_with_jax():
    """In a fork, which lacks JAX's threads, the call would never return."""
    done = subprocess.run(
        [sys.executable, "-c", JAX_IN_USE], capture_output=True, text=True, timeout=100
    )
    assert (done.stdout, done.stderr) == ("970299.0\n", "")
