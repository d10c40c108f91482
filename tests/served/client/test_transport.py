"""Calls to a server on loopback: what is tried again, and what a server says."""

import email.utils
import itertools
import json
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import PROMPTS, Reply, asked, serving
from support.waiting import PATIENCE, wait_for

from simverify.errors import UsageError
from simverify.models.transformer import Sampling, load_pair
from simverify.served import Endpoint, client, collect_answers
from simverify.served.client import run_in_order

GOOD = {"token_ids": [5, 6, 7], "finish_reason": "length"}


@pytest.fixture(scope="module")
def pair():
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client, "RETRY_WAITS", (0.01, 0.02))


@pytest.fixture
def alone(monkeypatch):
    """One request at a time."""
    monkeypatch.setattr("simverify.served.client.DEFAULT_CONCURRENCY", 1)


def in_turn(*replies):
    """Answer with these, then with the last of them for ever."""
    left = itertools.chain(replies, itertools.repeat(replies[-1]))
    return lambda _body: next(left)


@pytest.mark.parametrize(
    "first",
    [Reply(b"busy", 429), Reply(b"loading", 503), Reply(), Reply(b'{"error": {"code": 429}}')],
    ids=["429", "503", "dropped", "429-inside-200"],
)
def test_what_says_nothing_of_the_answer_is_tried_again(pair, first):
    assert len(asked(pair, in_turn(first, first, GOOD)).requests) == 2


@pytest.mark.parametrize(
    ("reply", "says"),
    [(Reply(b"busy", 429), "answers 429: busy"), (Reply(), "breaks off"),
     (Reply(b"crashed", 500), "answers 500: crashed")],
)  # fmt: skip
def test_in_the_end_a_line_says_what_is_lost(pair, alone, reply, says):
    calls = itertools.count()

    def complete(body):
        return GOOD if next(calls) < 8 else reply

    with pytest.raises(UsageError, match=f"{says}.*; 8 answers are lost: name --keep FILE"):
        asked(pair, complete, tokens=100)
    assert next(calls) == 8 + (1 if reply.status == 500 else 3)


def test_a_line_says_once_what_all_requests_wait_for(pair, monkeypatch):
    """On a clock that stands still: it would say it again for one that came much later."""
    monkeypatch.setattr(client, "RETRY_WAITS", (0.01,))
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: 0.0))
    calls, said, all_of_them = itertools.count(), [], threading.Barrier(8)

    def complete(_body):
        if not 1 <= next(calls) < 9:
            return GOOD
        all_of_them.wait(PATIENCE)  # or the first would have come back before the last was refused
        return Reply(b"busy", 429)

    with serving(complete) as address:
        collect_answers(Endpoint(address, None, 3), PROMPTS[:1], pair, 27, progress=said.append)
    assert next(calls) == 9 + 8
    assert sum("once more" in line for line in said) == 1


def test_progress_comes_every_so_often(pair, monkeypatch):
    monkeypatch.setattr("simverify.served.client.REPORT_SECONDS", 0.2)
    monkeypatch.setattr("simverify.served.client.REPORT_SECONDS", 0.2)
    said, calls, began = [], itertools.count(), time.monotonic()

    def complete(_body):
        if next(calls) == 1:  # until the same was said again, while nothing came
            wait_for(lambda: max(said.count(line) for line in ["", *said]) >= 3)
        return GOOD

    with serving(complete) as address:
        collect_answers(Endpoint(address, None, 3), PROMPTS[:1], pair, 600, progress=said.append)
    took = time.monotonic() - began
    assert len(said) < min(200, took / 0.2 + 5)  # of 200 answers


def test_an_answer_that_takes_too_long_is_not_asked_for_again(pair, alone, monkeypatch):
    """That of a completion: what the server lists may take longer here, on a busy machine."""
    asked, release, once = [], threading.Event(), client.Transport._once

    def complete(body):
        asked.append(body)
        release.wait(PATIENCE)
        return GOOD

    def listed_in_time(self, address, body):
        return once(self if body else client.Transport(None, print, PATIENCE), address, body)

    monkeypatch.setattr(client.Transport, "_once", listed_in_time)
    says = (
        r"no answer in 0\.1 s; .* would favour short answers: start again with a longer --timeout"
    )
    with serving(complete) as address:
        hasty, patient = (Endpoint(address, None, 3, timeout=own) for own in (0.1, PATIENCE))
        with pytest.raises(UsageError, match=says):
            collect_answers(hasty, PROMPTS[:1], pair, 3)
        wait_for(lambda: asked)
        release.set()
        assert collect_answers(patient, PROMPTS[:1], pair, 3).requests
        assert len(asked) == 2


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_what_is_no_time_to_wait(seconds):
    with pytest.raises(UsageError, match=r"timeout is .*: expected seconds, above 0"):
        Endpoint("http://a:1", timeout=seconds)


def test_a_failure_waits_for_no_later_answer():
    release = threading.Event()

    def work(number):
        if number == 1:
            raise client.ServerFailure("crashed")
        return number if number == 0 else release.wait(PATIENCE)

    before, began = set(threading.enumerate()), time.monotonic()
    found = run_in_order(work, range(4), 4)
    try:
        assert next(found) == (0, 0)
        with pytest.raises(client.ServerFailure, match="crashed"):
            next(found)
        assert time.monotonic() - began < 20
        left = set(threading.enumerate()) - before
        assert {thread.daemon for thread in left} == {True}  # nor does the end of the process
    finally:
        release.set()


def test_a_server_is_left_the_time_it_asks_for(pair):
    began = time.monotonic()
    asked(pair, in_turn(Reply(b"busy", 429, {"Retry-After": "0.4"}), GOOD))
    assert time.monotonic() - began > 0.4
    date = email.utils.formatdate(time.time() + 3600, usegmt=True)
    with pytest.raises(UsageError, match=r"answers 429: busy; come back in 3[56]"):
        asked(pair, in_turn(Reply(b"busy", 429, {"Retry-After": date})))
    assert client._retry_after_seconds("soon") == 0.0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"error": {"message": "no such\nmodel", "code": 404}}, "answers 404: no such model$"),
        ({"error": "overloaded"}, "answers 200: overloaded$"),
        ({"object": "error", "message": "too long", "code": 400}, "answers 400: too long$"),
        ({"error": {"type": "x"}}, r'answers 200: {"error": {"type": "x"}}$'),
    ],
)
def test_an_error_in_the_place_of_an_answer_is_shown_in_the_servers_words(pair, content, says):
    with pytest.raises(UsageError, match=says):
        asked(pair, lambda _: json.dumps(content).encode())


PLAIN = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "min_p": 0.0}


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        ("vllm", PLAIN | {"top_k": -1, "repetition_penalty": 1.0}),
        ("sglang", PLAIN | {"top_k": -1, "repetition_penalty": 1.0}),
        (
            "llamacpp",
            # The last two have it return all ids, also of tokens that end inside a character.
            PLAIN | {"top_k": 0, "repeat_penalty": 1.0, "return_tokens": True, "verbose": True},
        ),
        ("openai", {}),
        (None, {}),
    ],
)
@pytest.mark.parametrize("model", [None, "served"])
def test_a_known_server_is_told_to_apply_no_defaults(pair, owner, told, model):
    bodies = []
    found = asked(pair, lambda body: bodies.append(body) or GOOD, owner=owner, model=model)
    own = {"prompt", "model", "max_tokens", "temperature", "top_p"}
    extras = {"logprobs", "return_token_ids", "return_tokens_as_token_ids"}
    assert {name: bodies[0][name] for name in bodies[0].keys() - own - extras} == told
    assert any("does not say what it is" in note for note in found.notes) == (not told)


def test_what_was_asked_for_is_not_overruled(pair):
    cut = load_pair("tiny-llama", "tiny-llama", sampling=Sampling(0.5, 7, 0.9))
    bodies = []
    asked(cut, lambda body: bodies.append(body) or GOOD, owner="vllm")
    law = {name: bodies[0][name] for name in ("temperature", "top_k", "top_p")}
    assert law == {"temperature": 0.5, "top_k": 7, "top_p": 0.9}


def test_tokens_beyond_the_limit_do_not_count(pair):
    long = {"token_ids": [5, 6, 7, 8, 9], "finish_reason": "stop", "stop_reason": None}
    found = asked(pair, lambda _: long)
    assert {request.tokens for request in found.requests} == {(5, 6, 7)}
    assert any("2 answers are longer than the limit" in note for note in found.notes)
    assert not any("longer" in note for note in asked(pair, lambda _: GOOD).notes)


def test_an_answer_that_was_cut_off_ends_the_run(pair):
    with pytest.raises(UsageError, match='answer 0 ended by "abort"'):
        asked(pair, lambda _: GOOD | {"finish_reason": "abort"})
