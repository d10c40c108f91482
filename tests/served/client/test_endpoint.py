"""A real server on loopback: lossless and lossy verifiers behind it, and servers that misbehave."""

import itertools
import json
import re
import socket
import threading

import pytest
from support.false_alarms import ALPHA

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    emitted,
    serving,
)

from simverify.cli import run as command_line  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.faults import FAULTS  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import (  # noqa: E402
    Endpoint,
    OutputSettings,
    RequestSource,
    audit_outputs,
    collect_answers,
)
from simverify.verifiers import VERIFIERS  # noqa: E402

N = 1200


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


class Engine:
    """Answers a prompt by decoding it with ``rule``; its tokens in the form of ``style``.

    Those of ``together`` are decoded in one batch, as a server does that has many users.
    """

    def __init__(self, pair, rule, style="token_ids", together=()):
        self.pair, self.rule, self.style, self.together = pair, rule, style, together
        self.bodies, self._seeds, self._lock = [], itertools.count(), threading.Lock()
        self._ready = {}

    def __call__(self, body):
        prompt = body["prompt"]
        if self.style == "plain" and "return_token_ids" in body:
            return b'{"error": "unknown field return_token_ids"}'
        with self._lock:  # torch has one thread here
            self.bodies.append(body)
            text = prompt if isinstance(prompt, str) else self.pair.tokenizer.decode(prompt)
            answer = self._answer(text, body["max_tokens"])
        ids = [token for token in answer["tokens"] if token not in self.pair.eos]
        spelt = [self.pair.tokenizer.decode([token]) for token in ids]
        choice = {"text": "".join(spelt), "finish_reason": answer["finish_reason"]}
        if self.style == "token_ids":
            return choice | {"token_ids": ids}
        if self.style == "numbered":
            return choice | {"logprobs": {"tokens": [f"token_id:{token}" for token in ids]}}
        return choice | ({"logprobs": {"tokens": spelt}} if self.style == "pieces" else {})

    def _answer(self, text, length):
        if text not in self._ready:
            prompts = self.together if text in self.together else [text]
            # A lane a prompt; a lane that is done early begins again, which nobody reads.
            found = emitted(
                self.pair, self.rule, length * len(prompts), lanes=len(prompts), length=length,
                prompts=prompts, seed=next(self._seeds),
            )  # fmt: skip
            for answer in reversed(found):
                self._ready[self.pair.tokenizer.decode(answer["prompt"])] = answer
        return self._ready.pop(text)


@pytest.mark.distribution
@pytest.mark.parametrize(
    ("rule", "verdict"),
    [(VERIFIERS["token"], "PASS"), (FAULTS["typical-acceptance"].rule, "FAIL")],
    ids=["lossless", "typical-acceptance"],
)
@pytest.mark.thorough
def test_a_server_is_judged_by_its_answers(pair, rule, verdict):
    engine = Engine(pair, rule, together=PROMPTS[:16])
    with serving(engine) as address:
        requests = collect_answers(Endpoint(address, max_tokens=100), PROMPTS, pair, N).requests
    settings = OutputSettings(tokens=N, alpha=ALPHA, detect=0.3)
    run = audit_outputs(requests, pair, RequestSource(address, "simverify audit", True), settings)
    assert run.verdict == verdict
    assert run.tokens == N
    body = engine.bodies[0]
    assert (body["model"], body["temperature"], body["top_p"]) == ("served", 1.0, 1.0)


@pytest.mark.parametrize("style", ["token_ids", "numbered", "pieces", "plain"])
def test_ids_are_taken_as_the_server_gives_them(pair, style):
    engine = Engine(pair, VERIFIERS["token"], style)
    with serving(engine, status=400) as address:
        found = collect_answers(
            Endpoint(address, max_tokens=6), PROMPTS[:1], pair, 10_000, samples=2
        )
    requests = found.requests
    assert len(requests) == 2
    assert {request.from_text for request in requests} == {style == "plain"}
    assert all(r.prompt == tuple(pair.encode(PROMPTS[0])) for r in requests)
    assert ("return_token_ids" in engine.bodies[-1]) == (style != "plain")


class Picky:
    """Refuses all but one way of asking; answers as ``form`` says."""

    def __init__(self, form, takes, text):
        self.form, self.takes, self.text = form, takes, text
        self.asked, self._lock = [], threading.Lock()

    def __call__(self, body):
        with self._lock:
            self.asked.append(body)
        if not self.takes(body):
            return b'{"error": "unknown field"}'
        return {"text": self.text, "finish_reason": "length", "logprobs": self.form}


@pytest.mark.parametrize(
    ("form", "takes"),
    [
        ({"content": [{"id": 5, "token": "a"}, {"id": 6}]}, lambda b: "return_token_ids" not in b),
        ({"tokens": [5, 6]}, lambda b: b.get("logprobs") is True and type(b["prompt"]) is str),
    ],
    ids=["llama.cpp", "mlx-lm"],
)
def test_ids_are_asked_for_each_by_itself(pair, form, takes):
    text = pair.tokenizer.decode([5, 6])
    with serving(Picky(form, takes, text), status=400) as address:
        found = collect_answers(
            Endpoint(address, max_tokens=2), PROMPTS[:1], pair, 10_000, samples=2
        )
    assert [request.tokens for request in found.requests] == [(5, 6)] * 2
    with serving(Picky({"tokens": [None]}, takes, text), status=400) as address:
        found = collect_answers(
            Endpoint(address, max_tokens=2), PROMPTS[:1], pair, 10_000, samples=2
        )
    assert all(request.from_text for request in found.requests)


def test_ways_of_asking_are_tried_once(pair):
    text, told = pair.tokenizer.decode([5, 6]), []
    picky = Picky({"tokens": [5, 6]}, lambda b: b.get("logprobs") is True, text)
    with serving(picky, status=400) as address:
        collect_answers(Endpoint(address, max_tokens=2), PROMPTS[:1], pair, 10_000, samples=20,
            text_alone=told.append)  # fmt: skip
    assert len(picky.asked) == 4 + 20
    assert all(body["logprobs"] is True for body in picky.asked[4:])
    assert told == []
    wordy = Picky(None, lambda b: "return_token_ids" not in b, text)
    with serving(wordy, status=400) as address:
        collect_answers(Endpoint(address, max_tokens=2), PROMPTS[:1], pair, 10_000, samples=20,
            text_alone=lambda request: told.append(len(wordy.asked)))  # fmt: skip
    assert len(wordy.asked) == 8 + 19
    assert told == [8]


@pytest.mark.parametrize(
    ("ids", "taken"), [([5, 6, 7], True), ([5, 6, 8], False), ([4, 5, 6], False), ([5, 6], False)]
)
def test_ids_that_do_not_spell_the_text_are_not_taken(pair, ids, taken):
    answer = {
        "token_ids": ids, "text": f" {pair.tokenizer.decode([5, 6, 7])}", "finish_reason": "length"
    }  # fmt: skip
    with serving(lambda _: answer) as address:
        found = collect_answers(
            Endpoint(address, max_tokens=3), PROMPTS[:1], pair, 10_000, samples=2
        )
    assert [request.from_text for request in found.requests] == [not taken] * 2
    assert any("2 answers have token ids that do not spell" in n for n in found.notes) != taken


@pytest.mark.thorough
def test_the_text_alone_says_beforehand_what_it_can_tell(pair, tmp_path, capfd):
    (tmp_path / "p.txt").write_text("def f(")
    answer = {"text": pair.tokenizer.decode([5, 6]), "finish_reason": "length"}
    command = ["audit", "--target", "tiny-llama", "--prompts", str(tmp_path / "p.txt"),
               "--samples", "9", "--threads", "1"]  # fmt: skip
    with serving(lambda _: answer) as address:
        assert command_line([*command, "--endpoint", address]) == 1  # one text, nine times
    said = " ".join(capfd.readouterr().err.split())
    assert "of 1,984 tokens that the target wrote" in said
    assert "and not 0.04: this run will be INCONCLUSIVE or FAIL. A PASS takes token ids" in said
    assert said.index("text alone") < said.index("rescored")


def test_no_list_of_models_is_needed(pair):
    answer = {"token_ids": [5, 6], "finish_reason": "length"}
    with serving(lambda _: answer, models=b"<html>") as address:
        for name in ("mine", None):
            endpoint = Endpoint(address, name, max_tokens=2)
            assert (
                len(collect_answers(endpoint, PROMPTS[:1], pair, 10_000, samples=2).requests) == 2
            )
    with (
        serving(lambda _: b"<html>", models=b"<html>") as address,
        pytest.raises(UsageError, match="completions answers '<html>', which is no JSON"),
    ):
        collect_answers(Endpoint(address), PROMPTS[:1], pair, 10)


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (b"<html>", 200, "answers '<html>', which is no JSON"),
        (b"[]", 200, "has no choices"),
        (b'{"choices": []}', 200, "has no choices"),
        (b'{"choices": [{"text": 5}]}', 200, "neither tokens"),
        (b'{"choices": [{"token_ids": [5000], "text": ""}]}', 200, r"tokens\[0\] is 5000"),
        (b"out of\nmemory", 500, "/v1/completions answers 500: out of memory"),
        (b"no such model", 404, "answers 404: no such model"),
        (b"bad", 400, "answers 400: bad"),
    ],
)
def test_a_wrong_answer_costs_a_line(pair, content, status, says):
    server, refusal = serving(lambda _: content, status=status), pytest.raises(UsageError)
    with server as address, refusal as error:
        collect_answers(Endpoint(address), PROMPTS, pair, 10)
    assert re.search(says, str(error.value))
    assert "\n" not in str(error.value)


def test_a_server_that_is_not_there(pair):
    with socket.socket() as taken:  # by somebody who does not listen
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=r"cannot be reached: .*refused"):
            collect_answers(Endpoint(f"http://127.0.0.1:{port}"), PROMPTS, pair, 10)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://a", "http://", "http://a:b"])
def test_what_is_no_address(url):
    with pytest.raises(UsageError, match="expected http://HOST:PORT"):
        Endpoint(url)


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/", "/v1/completions"])
def test_an_address_may_have_its_path(tail):
    assert Endpoint(f"http://a:1{tail}").at("models") == "http://a:1/v1/models"


def test_the_command_line_asks_and_exits_by_the_verdict(pair, tmp_path, capfd):
    prompts = tmp_path / "p.txt"
    prompts.write_text("def f(\n\nclass A:")
    with serving(Engine(pair, VERIFIERS["token"])) as address:
        code = command_line(
            ["audit", "--endpoint", address, "--target", "tiny-llama", "--prompts", str(prompts),
             "--samples", "2", "--max-tokens", "8", "--threads", "1", "--json", "-"]
        )  # fmt: skip
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert (code, found["verdict"], found["requests"]) == (3, "INCONCLUSIVE", 4)
    assert found["endpoint"] is True
    assert "plan: the first 20,000 tokens" in " ".join(err.split())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--endpoint", "http://a"], "--target is missing"),
        (["--endpoint", "http://a", "--target", "t"], "--prompts is missing"),
        (["--outputs", "o", "--endpoint", "http://a"], "two sources"),
        (["--outputs", "o", "--target", "t", "--samples", "2"], "--samples is for --endpoint"),
        (["--outputs", "o", "--target", "t", "--timeout", "9"], "--timeout is for --endpoint"),
        (["--outputs", "o", "--target", "t", "--self-test"], "--outputs is not for the catalogue"),
        (["--outputs", "o", "--target", "t", "--trace", "d"], "--trace is not for"),
        (["token", "--outputs", "o", "--target", "t"], "SPEC is not for"),
        (["--outputs", "o", "--target", "t", "--row-tolerance", "1"], "row tolerance is 1.0"),
    ],
)
def test_options_that_do_not_go_together(given, says, capfd):
    assert command_line(["audit", *given]) == 2
    assert says in capfd.readouterr().err
