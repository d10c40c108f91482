"""Code that ends, kills, interrupts or blocks its process: a finding, and the audit goes on."""

import copyreg
import ctypes
import itertools
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from simverify.auditing.coverage.watch import watched
from simverify.auditing.process.child import GRACE, Died, Patience, _processor_seconds, in_child
from simverify.auditing.process.supervised import supervised_audit
from simverify.auditing.run import audit
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Subject
from simverify.errors import SimverifyError, UsageError
from simverify.symbolic.guards.containment import Interrupted, contained, from_user
from simverify.symbolic.guards.watchdog import Board, deadline

pytestmark = pytest.mark.usefixtures("unsearched")

SMALL = AuditSettings(gamma=1, vocab_size=3, seconds=2)
_exit = os._exit
raise_in_c = ctypes.CDLL(None)["raise"]  # past the functions that contained() replaces


def token(p, q, x, rng):
    for i, t in enumerate(x):
        if not rng.random() < p[i][t] / q[i][t]:
            r = np.maximum(p[i] - q[i], 0)
            return [*x[:i].tolist(), int(rng.choice(len(r), p=r / r.sum()))]
    return [*x.tolist(), int(rng.choice(p.shape[1], p=p[-1]))]


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
    monkeypatch.setattr("simverify.auditing.process.child.GRACE", 0.5)
    monkeypatch.setattr("simverify.auditing.probes.run.WARM_UP", 0.2)
    run = supervised(lambda p, q, x, rng: [sum(itertools.repeat(0))])
    assert run.verdict == "FAIL"
    assert [str(finding) for finding in run.findings] == [
        "hangs: a call did not return, and nothing could interrupt it, in the probe 'output'"
    ]


def test_a_call_that_gets_no_processor_is_not_called_a_hang():
    shown = Board()
    shown.write((100.0, 3.0), "the probe 'u = 0'")
    busy, starved, waiting, unknown = (Patience() for _ in range(4))
    for patience, first in ((busy, 3.0), (starved, 0.4), (waiting, 0.4), (unknown, None)):
        assert patience.ended(shown, 99.0, first) is None
        assert patience.ended(shown, 101.0, first) is None
    late = 101.0 + 2 * GRACE
    assert "nothing could interrupt it" in busy.ended(shown, late, 3.0 + GRACE)
    # It runs, an eighth of the time, and has not had its seconds.
    assert starved.ended(shown, late, 0.4 + GRACE / 4) is None
    assert "waits for something" in waiting.ended(shown, late, 0.4)
    assert unknown.ended(shown, late, None) == (
        f"no answer within {GRACE:g} s of wall clock after its limit"
    )
    # A call that ended meanwhile, and another that began, start anew.
    shown.write((late + 50, 9.0), "the probe 'u = 1'")
    assert waiting.ended(shown, late + 1, 0.4) is None
    assert waiting.ended(shown, late + 51, 0.4) is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_the_processor_seconds_of_a_process_are_its_own():
    assert _processor_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.5)
    assert _processor_seconds(2**30) is None


def test_a_child_gives_the_same_document():
    ours, childs = audit(Subject("mine", token, None), "verify", SMALL), supervised(token)
    assert childs.verdict == "PASS"
    for field in set(ours.__struct_fields__) - {"meta"}:
        assert getattr(ours, field) == getattr(childs, field)


def test_what_a_child_says_raises_and_returns_comes_back():
    said = []
    assert in_child(lambda say: [say("one"), say("two" * 100_000), 3][-1], said.append) == 3
    assert said == ["one", "two" * 100_000]
    with pytest.raises(UsageError, match="wrong option"):
        in_child(lambda say: (_ for _ in ()).throw(UsageError("wrong option")), said.append)
    with pytest.raises(ZeroDivisionError) as caught:
        in_child(lambda say: 1 // 0, said.append)
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
        in_child(work, print)


def test_a_child_uses_torch_after_its_parent_did(two_threads):
    torch = pytest.importorskip("torch")
    many = 1 << 20
    torch.zeros(many).exp()  # starts threads, which no fork takes along

    def work(_say):
        with deadline(5):
            return float(torch.zeros(many).exp().sum())

    assert in_child(work, print) == many


WORDS = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, ...",
    "CUDA error: initialization error\nSearch for `cudaErrorInitializationError' in ...",
)


@pytest.mark.parametrize("words", WORDS)
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
        in_child(lambda say: 1 // (os.getpid() - os.getpid()), said.append)
    assert sum(line.startswith("again in this process") for line in said) == 1


def test_a_child_ends_with_its_parents_interest():
    def interrupt(line):
        raise KeyboardInterrupt(line)

    with pytest.raises(KeyboardInterrupt) as caught:
        in_child(lambda say: (say(str(os.getpid())), signal.pause()), interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(caught.value.args[0]), 0)


def test_code_that_dies_while_it_loads_is_no_verdict():
    with pytest.raises(SimverifyError, match="mine fails to load: the process was ended"):
        supervised_audit(lambda: ctypes.string_at(0), "verify", SMALL, spec="mine")
    assert in_child(lambda say: _exit(3), print) == Died(
        "the process ended itself with exit code 3", ""
    )


ENDING = {
    "sys.exit": lambda: sys.exit(0),
    "os._exit": lambda: os._exit(0),
    "os.abort": lambda: os.abort(),
    "os.kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "signal.raise_signal": lambda: signal.raise_signal(signal.SIGTERM),
    "KeyboardInterrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt),
    "MemoryError": lambda: (_ for _ in ()).throw(MemoryError),
    "RecursionError": lambda: recursion(),
}


def recursion():
    return recursion()


@pytest.mark.parametrize("name", ENDING)
def test_what_ends_a_process_in_python_is_a_finding_in_the_same_process(name):
    def rule(p, q, x, rng):
        ENDING[name]()

    run = audit(Subject("mine", rule, None), "verify", SMALL)
    assert run.verdict == "FAIL"
    assert run.findings[0].kind in ("probe", "contract")


def test_the_users_interrupt_is_told_from_the_codes():
    assert from_user(KeyboardInterrupt())
    with contained():
        assert not from_user(KeyboardInterrupt())
        assert from_user(Interrupted())
        with contained(), pytest.raises(Interrupted):
            raise_in_c(signal.SIGINT)
        assert not from_user(KeyboardInterrupt())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def press(p, q, x, rng):
        raise_in_c(signal.SIGINT)
        return token(p, q, x, rng)

    with pytest.raises(Interrupted):
        audit(Subject("mine", press, None), "verify", SMALL)


def test_other_processes_may_be_sent_signals():
    with contained():
        os.kill(os.getpid(), 0)
        child = os.fork()
        if child == 0:
            signal.pause()
        os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_forked_processes_may_end():
    with contained(), contained():
        child = os.fork()
        if child == 0:
            try:
                os._exit(3)
            finally:
                _exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        with pytest.raises(SystemExit):
            os._exit(3)


@pytest.mark.parametrize("how", [lambda: None, lambda: sys.exit(0), lambda: [].pop()])
def test_a_forked_process_does_not_come_back(how):
    own = os.getpid()

    def rule():
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return how()

    try:
        assert watched(rule) == 1
    finally:
        if os.getpid() != own:
            _exit(2)


def test_interrupts_in_other_threads_are_the_codes():
    found = []

    def look():
        with contained():
            found.append(from_user(KeyboardInterrupt()))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [False]


def test_prints_are_counted_and_not_shown(capfd):
    def loud(p, q, x, rng):
        print("first line\nmore")
        sys.stdout.buffer.write(b"bytes")
        return token(p, q, x, rng)

    run = audit(Subject("mine", loud, None), "verify", SMALL)
    assert run.verdict == "PASS"
    (note,) = [note for note in run.notes if note.startswith("prints")]
    assert "the first are 'first line'" in note
    assert capfd.readouterr().out == ""
