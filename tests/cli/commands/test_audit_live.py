"""``simverify audit SPEC --target``: exit codes, the command that repeats it, bad options."""

import json
import shlex

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

SMALL = ("--target", "tiny-llama", "--gamma", "2", "--tokens", "48", "--detect", ".99")

RULES = """
def target_alone(prefix, target, draft, gamma, rng):
    row = target(prefix)
    return [int(rng.choice(len(row), p=row))]


def leaving(p, q, x, rng):
    import ctypes
    if len(p[0]) == 1024 and len(x) == 2:
        ctypes.string_at(0)
    return [int(rng.choice(len(p[0]), p=p[0]))]
"""


def document(path):
    run = json.loads(path.read_text())
    del run["meta"]
    return run


@pytest.fixture
def rules(tmp_path):
    (tmp_path / "rules.py").write_text(RULES)


@pytest.mark.thorough
def test_its_command_gives_the_same_document(command, tmp_path, rules):
    (tmp_path / "my prompts.txt").write_text("def f(\n\nimport os")
    law = ("--temperature", "0.8", "--top-k", "20", "--top-p", "0.9", "--threads", "1")
    more = ("--prompts", "my prompts.txt", "--draft", "tiny-llama-deep", "--seed", "5")
    code = command("audit", "rules.py:target_alone", "--contract", "step", *SMALL, *law, *more,
                   "--json", "first.json")  # fmt: skip
    assert code == 0, command.out + command.err
    assert "tiny-llama-deep: power .9 against TV" in " ".join(command.err.split())
    first = document(tmp_path / "first.json")
    assert first["not_enumerable"].startswith("called in the decoding loop of real models")
    assert first["sampled"]["samples"] == 48
    _, *words = shlex.split(first["reproduce"])
    assert command(*words, "--json", "again.json", "--quiet") == 0
    assert document(tmp_path / "again.json") == first
    assert command(*words[:-2], "--detect", ".01", "--quiet") == 3


def test_a_process_that_dies_is_a_finding(command, tmp_path, rules):
    assert command("audit", "rules.py:leaving", *SMALL, "--json", "run.json", "--quiet") == 1
    run = document(tmp_path / "run.json")
    (finding,) = run["findings"]
    assert finding["kind"] == "process"
    assert "segmentation fault" in finding["text"]
    assert finding["text"].endswith("in a block of real models")
    assert run["reproduce"].startswith("simverify audit rules.py:leaving --target tiny-llama")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["token", "--target", "t"], "--draft is missing"),
        (["token", "--target", "t", "--draft", "d"], "--prompts is missing"),
        (["token", "--draft", "d"],
         "real models (--target)"),
        (["token", "--tokens", "9"], "--tokens is not for code on small instances"),
        (["--target", "tiny-llama"], "name what to audit"),
        (["token", "--target", "tiny-llama", "--gamma", "65"], "gamma is 65: expected 1 to 64"),
        (["token", "--target", "tiny-llama", "--tokens", "0"], "tokens is 0: expected 1 or more"),
        (["token", "--target", "tiny-llama", "--top-p", "2"], "top-p is 2.0"),
        (["token", "--target", "tiny-llama", "--threads", "0"], "threads is 0"),
        (["token", "--target", "tiny-llama", "--contract", "step"], "has the verify contract"),
        (["token", "--target", "tiny-llama", "--tree", "2"], "--tree 2 is for draft trees"),
        (["gbv", "--target", "tiny-llama", "--tree", "2,2"], "gbv does not take the tree 2,2"),
        (["gbv", "--target", "tiny-llama", "--tree", "2,x"], "expected children per level"),
        (["gbv", "--target", "tiny-llama", "--tree", "2,1", "--gamma", "1"], "above gamma 1"),
        (["token", "--contract", "draft", "--target", "tiny-llama"],
         "--contract is 'draft': expected verify, step or tree for real models"),
        (["token", "--trace", "t", "--tree", "2"], "--tree is not for a trace"),
        (["swapped-requests", "--target", "tiny-llama"], "takes whole batches"),
        *(
            (["token", "--target", "tiny-llama", f"--{name}", "2"],
             f"--{name} is not for real models")
            for name in ("vocab", "seconds", "max-paths", "max-samples", "batch", "eos")
        ),
        (["token", "--target", "tiny-llama", "--row-tolerance", ".1"],
         "it is for tokens already emitted (--outputs or --endpoint)"),
        (["token", "--target", "tiny-llama", "--trace", "t"], "--target is not for a trace"),
        (["--self-test", "--target", "tiny-llama"], "--target is not for the catalogue"),
        *(
            (["--outputs", "o", "--target", "t", f"--{name}", "2"],
             f"--{name} is not for tokens already emitted")
            for name in ("gamma", "vocab", "seconds")
        ),
        *(
            (["token", "--trace", "t", f"--{name}", "2"], f"--{name} is not for a trace")
            for name in ("gamma", "vocab", "seconds")
        ),
    ],
)  # fmt: skip
@pytest.mark.thorough
def test_what_cannot_be_done_is_said_in_one_line(command, options, says):
    assert command("audit", *options, "--quiet") == 2
    assert says in command.complaint()
