"""Requests of an engine, judged."""

import pytest
from support.false_alarms import ALPHA

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


from simverify.served import (  # noqa: E402
    OutputSettings,
    RequestSource,
    audit_outputs,
    check_request,
)

HERE = RequestSource("outputs.jsonl", "simverify audit --outputs outputs.jsonl --target tiny-llama")
N = 2000


def judged(pair, objects, tokens=N, *, proxy=False, detect=0.2, **settings):
    requests = tuple(check_request(value, "outputs", pair) for value in objects)
    asked = OutputSettings(tokens=tokens, alpha=ALPHA, detect=detect, **settings)
    return audit_outputs(requests, pair, HERE, asked, proxy=proxy)
