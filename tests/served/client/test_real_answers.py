"""Doubles that answer and refuse exactly as real servers did: see docs/reference/servers.md."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    Reply,
    serving,
)

from simverify.models.distribution import Law  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import (  # noqa: E402
    Endpoint,
    collect_answers,
)
from simverify.served.server import law_request_fields  # noqa: E402


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


def error(words, status):
    return Reply(json.dumps(words).encode(), status)


class MlxLm:
    """mlx-lm 0.32.2: ids and log probabilities in its own form, prompts as text alone."""

    def __init__(self, pair, ids):
        self.pair, self.ids, self.bodies = pair, ids, []

    def __call__(self, body):
        self.bodies.append(body)
        if type(body.get("logprobs", False)) is not bool:
            return error({"error": "logprobs must be of type bool"}, 400)
        if not isinstance(body["prompt"], str):
            return error({"error": "text input must be of type `str` (single example)"}, 404)
        content = [{"id": token, "logprob": -1.5544252395629883} for token in self.ids]
        choice = {
            "index": 0,
            "finish_reason": "length",
            "text": self.pair.tokenizer.decode(self.ids),
        }
        if body.get("logprobs"):
            choice["logprobs"] = {"content": content}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        answer = {
            "id": "cmpl-1", "system_fingerprint": "0.32.2-0.32.4-Linux", "usage": usage,
            "object": "text_completion", "model": "default_model", "choices": [choice],
        }  # fmt: skip
        return Reply(json.dumps(answer).encode())


class TransformersServe:
    """transformers serve 5.23.0: text alone, prompts as text, no field that it does not know."""

    fields = ("prompt", "max_tokens", "temperature", "top_p", "seed", "logprobs", "model",
              "frequency_penalty", "generation_config")  # fmt: skip

    def __init__(self, pair, ids):
        self.pair, self.ids, self.bodies = pair, ids, []

    def __call__(self, body):
        self.bodies.append(body)
        if unknown := set(body) - set(self.fields):
            return error({"detail": f"Unexpected fields in the request: {unknown}"}, 422)
        if not isinstance(body["prompt"], str):
            return error({"detail": "prompt must be a string."}, 400)
        choice = {
            "finish_reason": "length",
            "index": 0,
            "text": self.pair.tokenizer.decode(self.ids),
        }
        usage = {"completion_tokens": 2, "prompt_tokens": 3, "total_tokens": 5}
        answer = {"id": "1", "choices": [choice], "model": "m@main", "object": "text_completion",
                  "usage": usage}  # fmt: skip
        return Reply(json.dumps(answer).encode())


class Vllm:
    """vLLM 0.32.0: ids in three places, log probabilities of the row before temperature."""

    def __init__(self, pair, ids):
        self.pair, self.ids, self.bodies = pair, ids, []

    def __call__(self, body):
        self.bodies.append(body)
        told = [f"token_id:{token}" for token in self.ids]
        logprobs = {
            "text_offset": [0, 11], "token_logprobs": [-2.047755002975464, -0.9007983207702637],
            "tokens": told, "top_logprobs": [{token: -0.5} for token in told],
        }  # fmt: skip
        return {
            "index": 0, "text": self.pair.tokenizer.decode(self.ids), "logprobs": logprobs,
            "finish_reason": "length", "stop_reason": None, "token_ids": self.ids,
            "prompt_logprobs": None, "prompt_token_ids": body["prompt"], "routed_experts": None,
        }  # fmt: skip


UNLISTED = {MlxLm: b"", TransformersServe: b"Internal Server Error"}
"""What their lists of models are on a machine without a cache of models."""


def asked(server, pair, **more):
    with serving(server, models=UNLISTED[type(server)]) as address:
        return collect_answers(
            Endpoint(address, max_tokens=2, **more), PROMPTS[:1], pair, 10_000, samples=2
        )


def test_a_server_without_a_list_of_models_is_asked_without_a_name(pair):
    server = MlxLm(pair, [5, 6])
    found = asked(server, pair)
    assert [request.tokens for request in found.requests] == [(5, 6)] * 2
    assert found.requests[0].logprobs == (-1.5544252395629883,) * 2
    assert all("model" not in body for body in server.bodies)


def test_one_that_draws_only_where_it_is_told_to_is_named(pair):
    found = asked(TransformersServe(pair, [5, 6]), pair)
    assert all(request.from_text for request in found.requests)
    assert found.notes[0].startswith("this is transformers serve, which draws only if")
    config = {"generation_config": '{"do_sample": true, "top_k": 0}'}
    server = TransformersServe(pair, [5, 6])
    found = asked(server, pair, extra_body=config)
    assert found.notes[0].startswith("the server does not say what it is")
    assert server.bodies[-1]["generation_config"] == config["generation_config"]


def test_vllm_gives_all_at_once_and_is_told_to_change_nothing(pair):
    server = Vllm(pair, [5, 6])
    with serving(server, owner="vllm") as address:
        found = collect_answers(
            Endpoint(address, max_tokens=2), PROMPTS[:1], pair, 10_000, samples=2
        )
    assert [request.tokens for request in found.requests] == [(5, 6)] * 2
    assert found.requests[0].logprobs == (-2.047755002975464, -0.9007983207702637)
    assert found.requests[0].differs is None
    assert len(server.bodies) == 2
    assert server.bodies[0]["top_k"] == -1
    assert not any("does not say what it is" in note for note in found.notes)


class LlamaCpp:
    """llama.cpp: a token that ends inside a character is missing beside the others."""

    def __init__(self, pair, ids, whole=True):
        self.pair, self.ids, self.whole, self.bodies = pair, ids, whole, []

    def __call__(self, body):
        self.bodies.append(body)
        if not 0 <= body.get("repeat_last_n", 64) <= 2_147_483_647:
            words = "Field 'repeat_last_n': Value must be between 0 <= value <= 2147483647"
            return error({"error": {"code": 400, "message": words}}, 400)
        pieces = [self.pair.tokenizer.decode(self.ids[: i + 1]) for i in range(len(self.ids))]
        content = [
            {"id": token, "token": piece, "logprob": -1.5}
            for token, piece in zip(self.ids, pieces, strict=True)
            if not piece.endswith("\ufffd")
        ]
        choice = {"text": pieces[-1], "index": 0, "logprobs": {"content": content},
                  "finish_reason": "length"}  # fmt: skip
        answer = {"choices": [choice], "object": "text_completion", "usage": {"prompt_tokens": 3}}
        if self.whole and body.get("verbose") and body.get("return_tokens"):
            answer["__verbose"] = {"tokens": self.ids, "content": pieces[-1]}
        return Reply(json.dumps(answer).encode())


def test_llama_cpp_gives_all_tokens_where_it_is_told_to(pair):
    ids = [5, *pair.encode("\u201d"), 6]
    assert len(ids) > 3  # of one character
    for whole in (True, False):
        server = LlamaCpp(pair, ids, whole)
        with serving(server, owner="llamacpp") as address:
            found = collect_answers(
                Endpoint(address, max_tokens=9), PROMPTS[:1], pair, 10_000, samples=2
            )
        request = found.requests[0]
        assert request.from_text is not whole
        assert (request.tokens == tuple(ids)) or not whole
        assert any("do not spell the text" in note for note in found.notes) is not whole


@pytest.mark.parametrize("name", ["repetition_penalty", "presence_penalty", "frequency_penalty"])
def test_llama_cpp_is_asked_to_count_all_tokens_for_every_penalty(name):
    law, endpoint = Law(**{name: 1.5}), Endpoint("http://localhost:1")
    assert law_request_fields(law, endpoint, "llamacpp", None)["repeat_last_n"] == 131_072
    assert "repeat_last_n" not in law_request_fields(Law(), endpoint, "llamacpp", None)
    assert "repeat_last_n" not in law_request_fields(law, endpoint, None, None)
