"""Two servers asked at temperature 0: the greedy answers of both, told apart."""

import json
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    Reply,
    serving,
)
from support.greedy_engines import (  # noqa: E402
    PROMPTS,
    SHORT,
    loaded,
)

import simverify  # noqa: E402
from simverify.errors import UsageError  # noqa: E402

LENGTH = 10


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return loaded()


class Greedy:
    """Answers with the target's choices; ``skips``: after the text without its last token."""

    def __init__(self, pair, most=LENGTH, skips=False):
        self.pair, self.most, self.skips, self.lock = pair, most, skips, threading.Lock()

    def __call__(self, body):
        assert body["temperature"] == 0
        out = []
        with self.lock:
            for step in range(min(self.most, body["max_tokens"])):
                text = [*body["prompt"], *out]
                out.append(
                    int(self.pair.target(text[: -1 if self.skips and step > 2 else None]).argmax())
                )
                if out[-1] in self.pair.eos:
                    break
        reason = "stop" if out[-1] in self.pair.eos else "length"
        return {"text": "", "token_ids": out, "finish_reason": reason}


def told(pair, tmp_path, first, second, keep=None):
    prompts = tmp_path / "prompts.jsonl"
    texts = [pair.tokenizer.decode(pair.encode(text)[-SHORT:]) for text in PROMPTS[:6]]
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    with serving(first) as a, serving(second) as b:
        return simverify.triage(
            a, b, target="tiny-llama", dtype="float32", threads=1, prompts=prompts,
            max_tokens=LENGTH, keep=keep,
        )  # fmt: skip


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.thorough
def test_a_server_with_a_lower_limit_is_no_fault(pair, tmp_path, kept):
    """Whether answers are kept or not, how they ended is known."""
    keep = tmp_path / "kept" if kept else None
    run = told(pair, tmp_path, Greedy(pair), Greedy(pair, most=6), keep)
    assert run.verdict == "PASS"
    assert {one.kind for one in run.counts if one.requests} <= {"same", "early stop"}
    assert any("--keep" in note for note in run.notes) != kept
    if kept:
        assert len((keep / "a.jsonl").read_text().splitlines()) == 6


@pytest.mark.thorough
def test_a_server_that_is_off_is_named(pair, tmp_path):
    run = told(pair, tmp_path, Greedy(pair), Greedy(pair, skips=True))
    assert run.verdict == "FAIL"
    assert {case.side for case in run.cases if case.fault} == {"b"}
    assert "the row before" in run.causes[0].name


def test_a_server_that_dies_is_one_line(pair, tmp_path):
    with pytest.raises(UsageError, match="answers 500") as error:
        told(pair, tmp_path, Greedy(pair), lambda _: Reply(b"out of memory", 500))
    assert "\n" not in str(error.value)
