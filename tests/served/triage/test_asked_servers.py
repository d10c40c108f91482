"""Servers that triage asks: each is asked at temperature 0, with the fields that were named."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    serving,
)

import simverify  # noqa: E402
from simverify.errors import UsageError  # noqa: E402


def test_servers_are_asked_with_the_fields_that_were_named(tmp_path):
    bodies = []

    def answer(body):
        bodies.append(body)
        return {"text": "", "token_ids": [5, 6], "finish_reason": "length"}

    prompts = tmp_path / "p.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS[:2]))
    with serving(answer) as address:
        run = simverify.triage(
            address, address, target="tiny-llama", threads=1, prompts=prompts, max_tokens=2,
            extra_body={"draft_model": "small"},
        )  # fmt: skip
    assert {(body["temperature"], body["draft_model"]) for body in bodies} == {(0.0, "small")}
    assert """--extra-body '{"draft_model": "small"}'""" in run.reproduce
    with pytest.raises(UsageError, match="is for servers"):
        simverify.triage("a", "b", target="tiny-llama", extra_body={"draft_model": "small"})
