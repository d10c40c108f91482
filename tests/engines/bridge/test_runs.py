"""Whole runs of programs: options, the sampled tier, result files, replays, the command line."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import simverify
from simverify.api.audit import bridge_loader
from simverify.auditing.sampled_runs import ContractMisuse, TrialRunner, default_sampled_instances
from simverify.cli import run
from simverify.engines.bridge import CallRequest, CommandVerify, parse_request
from simverify.errors import UsageError
from simverify.results import Bridge

HARNESS = Path(__file__).parent / "harness.py"


def program(way):
    return f"{sys.executable} -S -E {HARNESS} '{way}'"


def test_a_line_gives_the_same_numbers_again():
    rng = np.random.default_rng(5)
    coins = np.array([0.0, 2.0**-53, 1 - 2.0**-53, 1 / 3, 5e-324])
    request = CallRequest(rng.random((3, 4)), rng.random((2, 4)) * 1e-300, np.array([3, 0]), coins)
    again = parse_request(request.text())
    for name in ("target_probs", "draft_probs", "draft_tokens", "coins"):
        assert getattr(again, name).tobytes() == getattr(request, name).tobytes()


def test_the_numbers_of_a_line_in_their_order_are_the_call():
    """A program without a JSON library reads no more than these."""
    request = CallRequest(np.eye(2), np.full((1, 2), 0.5), np.array([1]), np.array([0.25, 1e-9]))
    words = "".join(c if c in "0123456789+-.eE" else " " for c in request.line(7).decode()).split()
    numbers = [float(word) for word in words if word not in ("e", "E") and word[0] in "0123456789"]
    assert numbers == [7, 1, 2, 1, 0, 0, 1, 0.5, 0.5, 1, 0.25, 1e-9]


def runner(way, seconds=20.0):
    subject = bridge_loader(Bridge(program(way), None), seconds)()
    instance = default_sampled_instances(4, 12, eos=None, resets=False)[0]
    return subject, TrialRunner(
        subject.generator_rule(), "verify", instance, seed=3, number=0, pilot=False, rows=None,
        seconds=seconds,
    )  # fmt: skip


def test_a_stream_gives_what_single_calls_give():
    """Each trial has its own address, however many are asked at once."""
    subject, streamed = runner("fine")
    streamed.run(300)
    subject.close()
    subject, single = runner("fine")
    for trial in (0, 1, 2, 17, 299):
        fresh = runner_like(single)
        emitted = fresh.replay(trial)
        assert tuple(streamed.emissions.tokens[trial][: len(emitted)]) == emitted
        assert streamed.emissions.lengths[trial] == len(emitted)
    subject.close()


def runner_like(runner):
    return TrialRunner(
        runner._rule, "verify", runner.instance, seed=3, number=0, pilot=False, rows=None,
        seconds=20.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("draws itself", "own-randomness: returned"),
        ("two lines", "answer: answered call 0, expected call 1|answer: wrote"),
        ("hangs", "hangs: did not answer within 1 s"),
        ("segfaults", "crashes: was ended by the signal SIGSEGV"),
        ("ids beyond V", "out-of-range: returned token 3"),
    ],
)
def test_what_breaks_in_a_stream_has_an_address(way, said):
    subject, streamed = runner(way, seconds=2.0 if way == "hangs" else 600.0)
    with pytest.raises(ContractMisuse, match=said) as raised:
        streamed.run(500)
    subject.close()
    assert 0 <= raised.value.trial < 500


def test_the_trial_that_broke_in_a_stream_is_the_one_that_is_replayed():
    """Far into a stream, with hundreds of calls asked behind it."""
    subject, streamed = runner("fine")
    rule = streamed._rule
    answer, seen = rule.answer, []

    def bad(asked):
        seen.append(asked)
        tokens = answer(asked)
        return [9] if len(seen) == 700 else tokens

    vars(rule)["answer"] = bad
    with pytest.raises(ContractMisuse, match=r"returned token 9|own-randomness") as raised:
        streamed.run(2_000)
    subject.close()
    assert raised.value.trial == 699


@pytest.mark.slow
@pytest.mark.parametrize(("way", "verdict"), [("fine", "PASS"), ("wrong row", "FAIL")])
def test_the_sampled_tier_judges_a_program(monkeypatch, way, verdict):
    """With no coins to bisect the exact tier is left out."""
    monkeypatch.setattr("simverify.auditing.run.run_exact_tier", lambda *_, **__: simverify_tier())
    run = simverify.audit(command=program(way), seconds=120.0, detect=0.05)
    assert (run.verdict, run.tier) == (verdict, "sampled")
    if verdict == "FAIL":
        assert "the trial" in simverify.replay(run) or "emits" in simverify.replay(run)


def simverify_tier():
    from simverify.auditing.exact_tier import ExactTier

    return ExactTier()


@pytest.fixture
def simverify_command(capsys):
    """Return what runs a command in this process: its exit code, and its output on one line."""

    def command(*words):
        capsys.readouterr()
        # Not main(), after which this process would ignore Ctrl-C, as one that is about to leave.
        code = run(list(words))
        return code, " ".join(capsys.readouterr().out.split())

    return command


def test_a_run_is_replayed_from_its_file(tmp_path, simverify_command, unsearched):
    file = str(tmp_path / "run.json")
    options = ["--gamma", "1", "--vocab", "2", "--max-paths", "4000", "--json", file]
    code, text = simverify_command("audit", "--command", program("wrong row"), *options)
    assert code == 1
    assert "simverify replay" in text
    assert simverify.load(file).bridge == Bridge(program("wrong row"), None)
    code, text = simverify_command("replay", f"{file}#0")
    assert code == 0
    assert "emitted with probability" in text
    assert "draw 1: " in text or "decided nothing: draw 1" in text


def test_a_call_that_broke_is_asked_again_by_a_replay(tmp_path, simverify_command):
    file = str(tmp_path / "run.json")
    way = program("segfaults on one input")
    options = ["--gamma", "1", "--vocab", "2", "--json", file]
    code, text = simverify_command("audit", "--command", way, *options)
    assert code == 1
    assert "crashes: was ended by the signal SIGSEGV" in text
    code, text = simverify_command("replay", f"{file}#0")
    assert code == 0
    assert '"draft_tokens":[1]' in text
    assert "ends: crashes: was ended by the signal SIGSEGV" in text


@pytest.mark.parametrize(
    ("command", "code"), [("./nowhere", 2), (program("needs more coins"), 2), ("/bin/false", 4)]
)
def test_what_is_no_verdict_has_its_exit_code(simverify_command, command, code):
    assert simverify_command("audit", "--command", command)[0] == code


def test_tokens_that_break_the_contract_are_replayed(unsearched):
    run = simverify.audit(command=program("ids beyond V"), gamma=1, vocab=2, max_paths=2000)
    assert run.breach is not None
    assert "ends: out-of-range: returned token" in simverify.replay(run)


@pytest.mark.thorough
def test_the_command_that_repeats_a_run_names_the_program(unsearched):
    run = simverify.audit(command=program("fine"), coins=3, gamma=1, vocab=2, max_paths=2000)
    words = shlex.split(run.reproduce)
    assert words[:4] == ["simverify", "audit", "--command", program("fine")]
    assert words[4:6] == ["--coins", "3"]
    assert run.bridge == Bridge(program("fine"), None, 3)
    assert run.verdict == "PASS"


@pytest.mark.thorough
def test_more_coins_than_are_read_cost_nothing(unsearched):
    """All 2^40 corners of forty coins could not be asked."""
    run = simverify.audit(command=program("fine"), coins=40, gamma=1, vocab=2, max_paths=2000)
    few = simverify.audit(command=program("fine"), gamma=1, vocab=2, max_paths=2000)
    assert run.verdict == few.verdict == "PASS"
    assert run.paths == few.paths


REFUSED = [
    ({"command": "a", "library": "b.so:c"}, "command and library are two ways"),
    ({"coins": 3, "rule": "token"}, "it is for a program or a library .command, library"),
    ({"command": "a", "rule": "token"}, "rule is not for a program or a library"),
    ({"command": "a", "batch": 4}, "batch is not for a program or a library"),
    ({"command": "a", "eos": 0}, "eos is not for a program"),
    ({"library": "b.so:c", "tree": "2,1"}, "tree is not for a program"),
    ({"command": "a", "contract": "step"}, "contract is 'step': expected verify for a program"),
    ({"command": "a", "coins": 65}, "coins is 65: expected 1 to 64 with command"),
    ({"library": "b.so:c", "coins": 17}, "coins is 17: expected 1 to 16 with library"),
    ({"command": "a", "trace": "t"}, "command is not for a trace"),
    ({"command": "a", "target": "tiny-llama"}, "command is not for real models"),
    ({"command": "a", "engine_path": "e"}, "engine_path is not for a program"),
    ({"command": "a", "drafter": "d.py:d"}, "drafter is not for a program"),
    ({"command": "a", "strict_coverage": True}, "strict_coverage is not for a program"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_options_that_do_not_belong_are_refused_by_name(options, said):
    with pytest.raises(UsageError, match=said):
        simverify.audit(**options)


def test_a_program_is_started_once_and_gone_after(tmp_path):
    rule = CommandVerify(program("fine"))
    process = rule._program._process
    tokens = rule(np.array([[0.5, 0.5]] * 2), np.array([[0.5, 0.5]]), np.array([0]), np.zeros(2))
    assert tokens == [0, 0]
    assert rule.used == 2
    assert rule._program._process is process
    rule.close()
    assert process.returncode is not None
