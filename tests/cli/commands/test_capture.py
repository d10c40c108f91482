"""``simverify capture`` and what replays a trace, from the command line."""

import os
import signal

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.traces import record  # noqa: E402
from support.waiting import wait_for  # noqa: E402

from simverify.models.trace import MANIFEST_FILE  # noqa: E402

CAPTURE = ("capture", "--models", "tiny-llama", "--gamma", "2", "--threads", "1", "--out", "t")


@pytest.mark.distribution
@pytest.mark.thorough
def test_record_compare_audit(command, tmp_path):
    assert command(*CAPTURE, "--tokens", "320", "--seed", "5") == 0, command.err
    assert command.out.startswith("t: rows of ")
    replay = ("--trace", "t", "--alpha", "1e-9", "--quiet")
    shown = ("--detect", ".9", "--verbose", *replay)
    assert command("compare", "--gamma", "2", *shown) == 0, command.err
    text = " ".join(command.out.split())
    assert "tiny-llama: V = 1024, gamma = 2" in text
    assert "match" in text
    assert "greedy" not in text
    assert ", seed 5 Rests on:" in text
    assert max(map(len, command.out.splitlines())) <= 80
    assert command("audit", "block", "--detect", ".9", *replay) == 0, command.out
    assert "replayed on recorded rows, the trace t" in " ".join(command.out.split())
    assert command("audit", "inverted-ratio", *replay) == 1
    assert command("audit", "block", "--detect", ".001", *replay) == 3


def test_statistics(command, tmp_path):
    assert command(*CAPTURE, "--tokens", "64", "--statistics", "--max-bytes", "9") == 0
    assert command.out.startswith("t: statistics of ")
    names = sorted(path.name for path in (tmp_path / "t").iterdir())
    assert names == [MANIFEST_FILE, "statistics.safetensors"]
    assert command("compare", "--trace", "t", "--quiet") == 3  # gamma is the trace's
    # Its rules ran while it was recorded, so their speed is not known.
    assert [line.split()[-1] for line in command.out.splitlines()[3:6]] == ["-"] * 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*CAPTURE, "--tokens", "500", "--max-bytes", "1000000"), "tokens fit; take fewer"),
        ((*CAPTURE, "--tokens", "0"), "tokens is 0: expected 1 or more"),
        ((*CAPTURE, "--tokens", "9", "--max-bytes", "0"), "max bytes is 0, expected 1 or more"),
        ((*CAPTURE, "--tokens", "9", "--draft", "x"), "--models is the bundled pair"),
        (("capture", "--gamma", "2", "--tokens", "9", "--out", "t"), "--target is missing"),
        (("capture", "--gamma", "2", "--tokens", "9", "--out", "t", "--target", "a",
          "--draft", "b"), "--prompts is missing"),
        (("compare", "--gamma", "3", "--trace", "none"), "there is no such folder"),
        (("compare", "--gamma", "2", "--trace", "little"), "was drafted with gamma 3"),
        (("compare", "--gamma", "3", "--trace", "little", "--tokens", "9"),
         "--tokens is not for a trace"),
        (("compare", "--gamma", "3", "--trace", "little", "--blocks", "9"),
         "--blocks is not for a trace"),
        (("compare", "--trace", "little", "--temperature", ".5"),
         "--temperature is not for a trace"),
        (("audit", "token", "--trace", "none"), "there is no such folder"),
        (("audit", "token", "--trace", "little", "--batch", "2"), "--batch is not for a trace"),
        (("audit", "--self-test", "--trace", "little"), "--trace is not for the catalogue"),
    ],
)  # fmt: skip
@pytest.mark.thorough
def test_what_cannot_be_done_is_said_in_one_line(command, tmp_path, arguments, says):
    record(tmp_path / "little")
    assert command(*arguments, "--quiet") == 2
    assert says in command.complaint()
    assert not (tmp_path / "t").exists()


@pytest.mark.thorough
def test_an_interrupt_leaves_nothing(start, tmp_path):
    code = "import simverify.models.trace as w; w.SHARD_BYTES = 1; " \
           "from simverify.cli import main; main()"  # fmt: skip
    process = start(*CAPTURE, "--tokens", "20000", code=code)
    wait_for(lambda: list(tmp_path.glob("t/shard-*")))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert os.listdir(tmp_path) == []


@pytest.mark.thorough
def test_one_that_is_killed_is_not_whole(start, command, tmp_path):
    code = "import simverify.models.trace as w; w.SHARD_BYTES = 1; " \
           "from simverify.cli import main; main()"  # fmt: skip
    process = start(*CAPTURE, "--tokens", "20000", code=code)
    wait_for(lambda: list(tmp_path.glob("t/shard-*")))
    process.kill()
    process.communicate()
    assert list(tmp_path.glob("t/shard-*"))
    assert command("compare", "--gamma", "2", "--trace", "t", "--quiet") == 2
    assert "holds no manifest.json: its recording was not finished" in command.complaint()


@pytest.mark.thorough
def test_a_trace_is_replayed_without_torch(start, tmp_path):
    record(tmp_path / "t", tokens=64)
    code = (
        "import atexit, sys; from simverify.cli import main\n"
        "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr)); main()"
    )
    process = start("compare", "--gamma", "3", "--trace", "t", "--quiet", code=code)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (3, "False\n")
    assert "V = 12, gamma = 3" in out


def test_without_safetensors_it_says_what_to_install(command, tmp_path, monkeypatch):
    record(tmp_path / "t", tokens=64)
    monkeypatch.setattr("simverify.models.trace.importlib.util.find_spec", lambda _: None)
    assert command("compare", "--gamma", "3", "--trace", "t", "--quiet") == 2
    assert "pip install 'simverify[models]'" in command.complaint()
