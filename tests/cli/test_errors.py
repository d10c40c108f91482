"""Every mistake is one line that names it, exit code 2, and no file half written."""

import os

import pytest

from simverify.results import reading


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gamma", "0"], "gamma is 0: expected 1 to 64"),
        (["--gamma", "-3"], "gamma is -3: expected 1 to 64"),
        (["--gamma", "65"], "gamma is 65: expected 1 to 64"),
        (["--gamma", "eight"], "--gamma: 'eight' is not a whole number"),
        (["--gamma", "2.5"], "--gamma: '2.5' is not a whole number"),
        (["--gamma", "8.0"], "--gamma: '8.0' is not a whole number"),
        (["--gamma", ""], "--gamma: '' is not a whole number"),
        (["--blocks", "0"], "blocks is 0: expected 2 to"),
        (["--blocks", "1"], "blocks is 1: expected 2 to"),
        (["--blocks", "1e6"], "--blocks: '1e6' is not a whole number"),
        (["--blocks", "1" + "0" * 30], "expected 2 to"),
        (["--blocks", "9" * 5000], "is not a whole number"),
        (["--calls", "-1"], "calls is -1: expected 0 to 1000"),
        (["--seed", "-1"], "seed is -1: expected 0 to 2^64 - 1"),
        (["--seed", str(2**64)], "expected 0 to 2^64 - 1"),
        (
            ["--calls", "1", "--eos", "-1"],
            "end-of-sequence token -1 is not in the vocabulary of toy",
        ),
        (["--seed", "0.5"], "--seed: '0.5' is not a whole number"),
        (["--eos", "1"], "end-of-sequence token 1 without calls"),
        (
            ["--calls", "1", "--eos", "2"],
            "end-of-sequence token 2 is not in the vocabulary of toy, 0 to 1",
        ),
        (["--cost-ratio", "cheap"], 'unable to convert "cheap" into float'),
        (["--cost-ratio", "nan"], "cost ratio is nan"),
        (["--cost-ratio", "inf"], "cost ratio is inf: expected 0 to 1e+06"),
        (["--draft-distance", "nan"], "draft distance is nan: expected 0 to 1"),
        (["--draft-distance", "-1e-9"], "draft distance is -1e-09: expected 0 to 1"),
        (["--temperature", "nan"], "temperature is nan: expected a finite number"),
        (["--temperature", "inf"], "temperature is inf: expected a finite number"),
        (["--threads", "0"], "threads is 0"),
        (["--threads", "1025"], "threads is 1025"),
        (["--alpha", "2"], "alpha is 2.0"),
        (["--alpha", "1"], "alpha is 1.0"),
        (["--alpha", "nan"], "alpha is nan"),
        (["--alpha", "-0.0"], "alpha is -0.0"),
        (["--alpha", "5e-324"], "alpha is 5e-324: expected 1e-300 or more, below 1"),
        (["--detect", "1e-7"], "detect is 1e-07: expected 1e-06 or more, below 1"),
        (["--detect", "1"], "detect is 1.0: expected 1e-06 or more, below 1"),
        (["--models", "toi"], "unknown model 'toi': did you mean 'toy'?"),
        (["--models", "toy,compakt"], "unknown model 'compakt': did you mean 'compact'?"),
        (["--models", "xyzzy"], "unknown model 'xyzzy': choose from toy, compact, "),
        (["--models", ","], "nothing to compare"),
        (["--models", "toy,"], "--models is 'toy,': expected a name before and after every comma"),
        (["--models", "toy,,compact"], "expected a name before and after every comma"),
        (["--models", "münze"], "unknown model 'münze'"),
        (["--models", "x" * 5000], "unknown model 'xxx"),
        (["--models", "markov-99999999999999"], "expected a vocabulary of 10000000 at most"),
        (["--models", "markov-" + "9" * 5000], "unknown model 'markov-999"),
        (["--models", "markov-08,markov-8"], "two models are called 'markov-8'"),
        (["--models", "toy,toy"], "two models are called 'toy'"),
        (["--models", "markov-1"], "markov-1: the vocabulary needs 2 tokens"),
        (["--models", "none.json"], "none.json: cannot be read (No such file or directory)"),
        (["--models", "a/b"], "a/b: expected a .json or .npz file"),
        (["--models", "new\nline\x1b[31m"], "unknown model"),
        (["--models", "new\nline.json"], "new line.json: cannot be read"),
        (["--models", "red\x1b[31m.json"], "red?[31m.json: cannot be read"),
        (
            ["--verifiers", "blok"],
            "unknown verifier, engine or fault 'blok': did you mean 'block'?",
        ),
        (["--verifiers", "temperature"], "did you mean 'temperature-0'?"),
        (["--verifiers", ""], "nothing to compare"),
        (["--verifiers", "token,block,token"], "verifier 'token' is named twice"),
        (["--gama", "3"], "Did you mean --gamma?"),
        (["--verifier", "token"], "Did you mean --verifiers?"),
        (["--json"], "--json requires an argument"),
        (["--json", ""], '--json is empty: name a file, or "-" for standard output'),
        (["--json", "\udcff.json"], "?.json is not UTF-8"),
        (["--quiet=maybe"], 'unable to convert "maybe" into bool'),
        (["8"], "8"),
    ],
)
def test_a_mistake_in_compare(command, arguments, message):
    assert command.compare(*arguments) == 2
    assert message in command.complaint()
    assert len(command.complaint()) <= 1010


@pytest.mark.parametrize(
    "arguments",
    [
        ["--blocks", "2"],
        ["--alpha", "1e-300"],
        ["--alpha", "0.9999999999999999"],
        ["--detect", "1e-6"],
        ["--detect", "0.9999999999999999"],
        ["--cost-ratio", "-0.0"],
        ["--cost-ratio", "5e-324"],
        ["--models", "markov-2", "--temperature", "5e-324"],
        ["--models", "markov-2", "--temperature", "1e308"],
        ["--models", "markov-2", "--temperature", "-0.0", "--draft-distance", "1"],
        ["--gamma", "64"],
        ["--seed", str(2**64 - 1), "--threads", "64"],
        ["--calls", "1000", "--eos", "1"],
    ],
)
@pytest.mark.thorough
def test_the_ends_of_the_ranges_run(command, arguments):
    """Not a test of the verdict: at an alpha near 1 a correct rule may well fail."""
    assert command.compare(*arguments) in (0, 1, 3), command.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare"], "--gamma requires an argument"),
        (["compare", "--gamma"], "--gamma requires an argument"),
        (["comprae"], 'Did you mean "compare"?'),
        (["--bogus"], "--bogus"),
        (["verifiers", "token"], "token"),
        (["schema", "--json", "x"], "--json"),
    ],
)
def test_a_mistake_in_the_command(command, arguments, message):
    assert command(*arguments) == 2
    assert message in command.complaint()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gamma", "5"], "gamma is 5: expected 1 to 4"),
        (["--vocab", "1"], "vocab is 1: expected 2 to"),
        (["--tolerance", "nan"], "tolerance is nan: expected 0 or more, below 1"),
        (["--max-paths", "0"], "max paths is 0: expected 1 or more"),
        (["--max-samples", "0"], "max samples is 0: expected 1 or more"),
        (["--seconds", "inf"], "seconds is inf: expected more than 0, 1e+06 at most"),
        (["--seconds", "nan"], "seconds is nan"),
        (["--seconds", "-0.0"], "seconds is -0.0"),
        (["--alpha", "5e-324"], "alpha is 5e-324: expected 1e-300 or more, below 1"),
        (["--alpha", "nan"], "alpha is nan"),
        (["--detect", "1e-300"], "detect is 1e-300: expected 1e-06 or more, below 1"),
        (["--batch", "1"], "batch is 1: expected 2 to 1024"),
        (["--batch", "2"], "token judges one block a call: leave --batch out"),
        (["--batch-mix", "greedy"], "token judges one block a call: leave --batch-mix out"),
        (["--seed", "-1"], "seed is -1: expected 0 to 2^64 - 1"),
        (["--contract", ""], 'Choose from: "verify", "step"'),
        (["--json", ""], "--json is empty"),
        (["block"], "block"),
    ],
)
def test_a_mistake_in_audit(command, arguments, message):
    assert command("audit", "token", *arguments) == 2
    assert message in command.complaint()


@pytest.mark.parametrize(
    "spec",
    [
        "",
        ":",
        ":verify",
        "mod:",
        "no/such:x",
        "a:b:c",
        "x.py:",
        "none.py:f",
        "os:path",
        "é",
        "a\nb:c",
    ],
)
def test_a_spec_that_names_nothing(command, spec):
    assert command("audit", spec) == 2, command.err
    assert command.complaint()


@pytest.mark.parametrize(
    "run", ["", "#", "#0", "x", "x#", "x#-1", "x#1e3", "x#²", "x#" + "9" * 5000, "none.json#0"]
)
def test_a_run_that_names_nothing(command, run):
    assert command("replay", run) == 2
    assert command.complaint()


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"start": [0.5, 0.4], "rows": [[1, 0], [1, 0]]}, "target_start sums to 0.9"),
        ({"start": [1.5, -0.5], "rows": [[1, 0], [1, 0]]}, "target_start is negative at token 1"),
        ({"start": [float("nan"), 1], "rows": [[1, 0], [1, 0]]}, "not a finite number"),
        ({"start": ["1/0", 1], "rows": [[1, 0], [1, 0]]}, "target_start is not a rectangle"),
        ({"start": [1, 0], "rows": [[1, 0], [1]]}, "target_rows is not a rectangle"),
        ({"start": [1, 0, 0], "rows": [[1, 0, 0]] * 3}, "the target has V = 3 and the draft V = 2"),
        ({"start": [1, 0]}, 'no "target"."rows"'),
    ],
)
def test_a_mistake_in_a_file(command, pair, side, message):
    assert command.compare("--models", f"toy,{pair(target=side)}") == 2
    assert command.complaint().startswith("pair.json: ")
    assert message in command.complaint()


def test_files_that_are_none(command, tmp_path):
    (tmp_path / "text.json").write_text("not JSON")
    (tmp_path / "junk.npz").write_bytes(b"PK\x03\x04 but no more")
    (tmp_path / "folder.json").mkdir()
    for name, message in (
        ("text.json", "text.json: not JSON"),
        ("junk.npz", "junk.npz: not an NPZ archive"),
        ("folder.json", "folder.json: cannot be read (Is a directory)"),
    ):
        assert command.compare("--models", name) == 2
        assert message in command.complaint()


def test_two_files_of_one_name(command, pair):
    assert command.compare("--models", f"{pair('a.json')},{pair('b.json')}") == 2
    assert "two models are called 'mine'" in command.complaint()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "folder is a folder: name a file"),
        ("none/run.json", "none/run.json cannot be written: No such file or directory"),
        ("file/run.json", "file/run.json cannot be written: Not a directory"),
        ("x" * 300, "cannot be written: File name too long"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_run(
    command, tmp_path, name, message
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    assert command.compare("--json", name) == 2
    assert message in command.complaint()
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_write_that_fails_keeps_the_old_file_and_leaves_nothing(command, tmp_path, monkeypatch):
    """The folder fills up, or goes away, between the check and the end of the run."""
    (tmp_path / "run.json").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reading.Path, "replace", full)
    assert command.compare("--json", "run.json", "--quiet") == 2
    assert "run.json cannot be written: No space left on device" in command.complaint()
    assert (tmp_path / "run.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]


def test_an_internal_error_is_4_with_what_a_report_needs(command, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("simverify.comparing.comparison.compare", broken)
    assert command.compare() == 4
    assert "Traceback" in command.err
    assert command.err.endswith("simverify: internal error: ZeroDivisionError: a bug\n")


def test_out_of_memory_is_4(command, monkeypatch):
    def broken(*_, **__):
        raise MemoryError

    monkeypatch.setattr("simverify.comparing.comparison.compare", broken)
    assert command.compare() == 4
    assert "out of memory" in command.complaint()
