"""``simverify compare`` on real models: options, errors in one line, exit codes."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import little_pair  # noqa: E402

from simverify.models.transformer import BUNDLED  # noqa: E402
from simverify.reports.formats import html_report  # noqa: E402
from simverify.results.reading import read_document  # noqa: E402


@pytest.fixture
def folders(tmp_path):
    """Two little models saved as Transformers saves them, with the bundled tokenizer."""
    pair = little_pair()
    for name, model in (("big", pair.target_model), ("small", pair.draft_model)):
        model.save_pretrained(tmp_path / name)
        for file in (BUNDLED / "tokenizer").iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
    (tmp_path / "prompts.txt").write_text("def f():\n\nimport os")
    return tmp_path


def test_the_bundled_pair_from_the_command_line(command, tmp_path):
    code = command("compare", "--gamma", "4", "--models", "tiny-llama", "--verifiers",
                   "token,block", "--tokens", "320", "--detect", ".9", "--threads", "1",
                   "--lanes", "16", "--json", "run.json", "--verbose")  # fmt: skip
    assert code == 0, command.err
    text = " ".join(command.out.split())
    assert "tiny-llama: V = 1024, gamma = 4" in text
    assert "E[tau] on the same drafted blocks, less another rule's" in text
    assert "Measured speed-up: time a token without a draft" in text
    assert max(map(len, command.out.splitlines())) <= 80
    assert command.err.splitlines() == [
        "tiny-llama: the target alone", "tiny-llama: token", "tiny-llama: block"
    ]  # fmt: skip
    decoding = json.loads((tmp_path / "run.json").read_text())["decoding"]
    assert (decoding["tokens"], decoding["lanes"]) == (320, 16)
    again = " ".join(html_report(read_document(tmp_path / "run.json")).split())
    assert "--tokens 320 --lanes 16" in again


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--target", "big"], "--draft is missing"),
        (["--draft", "small"], "--target is missing"),
        (["--target", "big", "--draft", "small"], "--prompts is missing"),
        (["--target", ".", "--draft", "small", "--prompts", "prompts.txt"],
         ". holds no config.json"),
        (["--target", "big", "--draft", "small", "--prompts", "no.txt"], "cannot read no.txt"),
        (["--models", "tiny-llama", "--blocks", "9"], "--blocks is not for real models"),
        (["--models", "tiny-llama", "--draft-distance", ".2"], "--draft-distance is not for real"),
        (["--models", "tiny-llama", "--alpha", "5"], "alpha is 5.0: expected 1e-300 or more"),
        (["--models", "tiny-llama", "--seed", "-1"], "seed is -1: expected 0 to 2^64 - 1"),
        (["--models", "toy", "--tokens", "9"], "--tokens is not for simulated models"),
        (["--models", "tiny-llama", "--top-p", "2"], "top-p is 2.0, expected"),
        (["--models", "tiny-llama", "--device", "tpu9"], "device is 'tpu9', expected"),
        (["--target", "big", "--draft", "tiny-llama", "--prompts", "prompts.txt"],
         "big has 12 tokens and tiny-llama 1024"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(command, folders, options, says):
    assert command("compare", "--gamma", "4", "--quiet", *options) == 2
    assert says in command.complaint()


def test_tokenizers_that_differ_are_refused(command, folders):
    path = folders / "small" / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    words = tokenizer["model"]["vocab"]
    one, other = list(words)[-2:]
    words[one], words[other] = words[other], words[one]
    path.write_text(json.dumps(tokenizer))
    code = command("compare", "--gamma", "4", "--quiet", "--target", "big", "--draft", "small",
                   "--prompts", "prompts.txt")  # fmt: skip
    assert code == 2
    assert "the tokenizers of big and small differ in 2 words" in command.complaint()


def test_without_torch_it_says_what_to_install(start, tmp_path):
    code = """
import sys
import importlib.util as util
found = util.find_spec
util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
from simverify.cli import main
main()
"""
    process = start("compare", "--gamma", "4", "--models", "tiny-llama", code=code)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "real models need torch: pip install 'simverify[models]'" in err
