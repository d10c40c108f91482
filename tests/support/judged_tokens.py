"""Requests of an engine, judged."""

import pytest
from support.false_alarms import ALPHA

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


from simverify.emitted import (  # noqa: E402
    OutputSettings,
    Source,
    audit_outputs,
    request_iv,
)

HERE = Source("outputs.jsonl", "simverify audit --outputs outputs.jsonl --target tiny-llama")
N = 2000


def judged(pair, objects, tokens=N, *, proxy=False, detect=0.2, **settings):
    requests = tuple(request_iv(value, "outputs", pair) for value in objects)
    asked = OutputSettings(tokens=tokens, alpha=ALPHA, detect=detect, **settings)
    return audit_outputs(requests, pair, HERE, asked, proxy=proxy)
