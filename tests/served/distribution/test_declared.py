"""Parameters declared for a plain audit: by options, by keywords, by lines; with a mask."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    write_lines,
)
from support.processed_engine import (  # noqa: E402
    answers,
    everywhere,
)

import simverify  # noqa: E402
from simverify.cli import run as command_line  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.models.distribution import Law  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402

pytestmark = pytest.mark.usefixtures("shallow_target")

LAW = Law(1.0, min_p=0.02, repetition_penalty=1.4, frequency_penalty=0.5)
GIVEN = ["--min-p", "0.02", "--repetition-penalty", "1.4", "--frequency-penalty", "0.5"]


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def lines(pair):
    ids = [tuple(pair.encode(text)) for text in PROMPTS[:24]]
    return [
        {"prompt": list(r.prompt), "tokens": list(r.tokens), "finish_reason": "length"}
        for r in answers(pair, ids, everywhere(LAW), length=40)
    ]


def audited(capfd, path, *words, tokens="900", detect=".5"):
    code = command_line(
        ["audit", "--outputs", str(path), "--target", "tiny-llama", "--threads", "1", "--tokens",
         tokens, "--detect", detect, "--alpha", "1e-9", "--json", "-", "--quiet", *words]
    )  # fmt: skip
    captured = capfd.readouterr()
    return code, json.loads(captured.out) if captured.out else captured.err


@pytest.mark.distribution
@pytest.mark.thorough
def test_what_was_asked_for_is_judged_by(pair, lines, tmp_path, capfd):
    path = write_lines(tmp_path / "o.jsonl", lines)
    code, run = audited(capfd, path, *GIVEN)
    assert (code, run["verdict"]) == (0, "PASS")
    assert run["processing"]["repetition_penalty"] == 1.4
    assert "--repetition-penalty 1.4" in run["reproduce"]
    assert audited(capfd, path)[1]["verdict"] == "FAIL"
    asked = {"min_p": 0.02, "repetition_penalty": 1.4, "frequency_penalty": 0.5}
    told = write_lines(tmp_path / "told.jsonl", [line | asked for line in lines])
    code, run = audited(capfd, told, "--min-p", "0.3")
    assert (code, run["verdict"]) == (0, "PASS")
    assert any("--min-p 0.3 contradicts the file" in note for note in run["notes"])


@pytest.mark.distribution
@pytest.mark.thorough
def test_structured_output_is_a_mask(pair, tmp_path, capfd):
    (tmp_path / "m.py").write_text(
        "def eighth(prompt, tokens):\n    return range(len(tokens) % 8, 1024, 8)\n"
        "def none(prompt, tokens):\n    return []\n"
    )
    names = {}
    exec((tmp_path / "m.py").read_text(), names)
    from simverify.models.distribution import Mask

    law = Law(mask=Mask("eighth", names["eighth"]))
    ids = [tuple(pair.encode(text)) for text in PROMPTS[:8]]
    found = answers(pair, ids, everywhere(law), length=20)
    path = write_lines(
        tmp_path / "o.jsonl",
        [{"prompt": list(r.prompt), "tokens": list(r.tokens), "finish_reason": "length"}
         for r in found],
    )  # fmt: skip
    spec = f"{tmp_path / 'm.py'}:eighth"
    code, run = audited(capfd, path, "--mask", spec, tokens="150", detect=".95")
    assert (run["verdict"], run["processing"]["mask"]) == ("PASS", spec)
    assert code == 0
    by_keyword = simverify.audit_outputs(
        path, target="tiny-llama", tokens=150, detect=0.95, alpha=1e-9, mask=names["eighth"]
    )
    assert by_keyword.verdict == "PASS"
    free = simverify.audit_outputs(path, target="tiny-llama", tokens=150, detect=0.95, alpha=1e-9)
    assert free.verdict == "FAIL"
    code, said = audited(capfd, path, "--mask", f"{tmp_path / 'm.py'}:none")
    assert (code, "allows nothing" in said) == (2, True)
    code, said = audited(capfd, path, "--mask", "m.py")
    assert (code, "expected path/file.py:attr" in said) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--min-p", "2"], "min-p is 2, expected 0 to 1"),
        (["--logit-bias", "5"], "logit-bias is '5': expected JSON such as {\"5\": -100}"),
        (["--bad-words", "TODO"], "bad-words is 'TODO': expected JSON"),
        (["--order", "sideways"], "order is 'sideways': expected one of"),
        (["--logit-bias", '{"5000": 1}'], 'logit_bias of "5000"'),
        (["--extra-body", "{}"], "--extra-body is for --endpoint"),
    ],
)
def test_what_is_no_value_is_one_line(tmp_path, capfd, words, told):
    path = write_lines(tmp_path / "o.jsonl", [{"prompt": [5], "tokens": [6]}])
    code, said = audited(capfd, path, *words)
    assert code == 2
    assert told in " ".join(said.split())


def test_a_bias_is_for_emitted_tokens(capfd):
    assert command_line(["audit", "token", "--logit-bias", '{"5": 1}']) == 2
    assert "it is for tokens already emitted (--outputs or --endpoint)" in capfd.readouterr().err


def test_python_objects_are_checked():
    with pytest.raises(UsageError, match="extra_body is"):
        simverify.audit_outputs(
            endpoint="http://x", target="t", prompts="p", extra_body={1: object}
        )
