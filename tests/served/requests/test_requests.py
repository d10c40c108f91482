"""Requests as a file has them: what ended each, and bad lines."""

import dataclasses
import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import write_lines  # noqa: E402
from support.judged_tokens import judged  # noqa: E402

from simverify.errors import UsageError  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import (  # noqa: E402
    Request,
    check_request,
    read_requests,
)

GOOD = {"prompt": "def f(", "tokens": [5, 6]}


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


def test_a_dropped_end_of_sequence_is_put_back_where_the_engine_says_so(pair):
    (end,) = pair.eos
    kept = GOOD | {"tokens": [5, 6, end], "finish_reason": "stop"}
    dropped = GOOD | {"finish_reason": "stop"}
    run = judged(pair, [kept, dropped, GOOD, GOOD | {"finish_reason": "length"}], 10)
    assert (run.tokens, run.ended, run.restored, run.unfinished) == (10, 2, 1, 1)
    assert "1 requests end without an end-of-sequence token" in run.notes[-1]
    two = dataclasses.replace(pair, eos=frozenset({end, 7}))
    with pytest.raises(UsageError, match="has 2 such tokens: write token ids"):
        check_request(dropped, "outputs", two)


@pytest.mark.parametrize(
    ("says", "tokens", "left_out"),
    [
        ({"stop_reason": "\n\n"}, (5, 6), False),  # a stop string: no token is missing
        ({"matched_stop": "\n\n"}, (5, 6), False),
        ({"stop_reason": 9}, (5, 6, 9), True),  # a token that stops, left out
        ({"stop_reason": 6}, (5, 6), False),  # and one that is there
        ({"stop_reason": None, "matched_stop": 0}, (5, 6, 0), True),
        ({"stop_reason": None}, (5, 6, 0), True),
    ],
)
def test_what_stopped_a_request_is_taken_where_it_is_said(pair, says, tokens, left_out):
    request = check_request(GOOD | {"finish_reason": "stop"} | says, "", pair)
    assert (request.tokens, request.restored) == (tokens, left_out)
    cut = check_request(GOOD | {"finish_reason": "length"} | says, "", pair)
    assert cut.tokens == (5, 6)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1 is no JSON"),
        ("[1]", "line 1 is no object"),
        ('{"tokens": [1]}', "line 1 has no prompt"),
        ('{"prompt": "a"}', "neither tokens, a list of ids, nor text"),
        ('{"prompt": [], "tokens": [1]}', "prompt is empty"),
        ('{"prompt": "a", "tokens": [1024]}', r"tokens\[0\] is 1024: expected an id of tiny-llama"),
        ('{"prompt": "a", "tokens": [-1]}', r"tokens\[0\] is -1"),
        ('{"prompt": "a", "tokens": [true]}', r"tokens\[0\] is true"),
        ('{"prompt": "a", "tokens": "b"}', "tokens is str: expected a list"),
        ('{"prompt": "a", "tokens": []}', "emitted nothing"),
        ('{"prompt": "a", "text": ""}', "emitted nothing"),
        ('{"prompt": "a", "text": "\\ud800"}', "text is no Unicode"),
        ('{"prompt": "\\ud800", "text": "a"}', "prompt is no Unicode"),
        (json.dumps(GOOD | {"finish_reason": "abort"}), 'ended by "abort": expected stop or'),
        (json.dumps(GOOD | {"finish_reason": "stop", "stop_reason": 1024}),
         r"stop_reason\[0\] is 1024"),
        ('{"prompt": "a", "text": "b", "finish_reason": "stop", "stop_reason": "c"}',
         'at the stop string "c", whose tokens its text does not show'),
        (json.dumps(GOOD | {"tokens": [5] * 600}), "the context of tiny-llama holds 512"),
        ("", "holds no request"),
    ],
)  # fmt: skip
def test_a_bad_file_costs_a_line(pair, tmp_path, line, says):
    path = tmp_path / "outputs.jsonl"
    path.write_text(line)
    with pytest.raises(UsageError, match=says) as error:
        read_requests(path, pair)
    assert "\n" not in str(error.value)


def test_a_good_file_is_read_whole(pair, tmp_path):
    path = write_lines(tmp_path / "o.jsonl", [GOOD, GOOD | {"finish_reason": "stop", "x": 1}])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as some editors begin a file
    first, second = read_requests(path, pair)
    prompt = tuple(pair.encode("def f("))
    assert first == Request(prompt, (5, 6), unfinished=True)
    assert second == Request(prompt, (5, 6, *pair.eos), restored=True)
    with pytest.raises(UsageError, match="cannot read"):
        read_requests(tmp_path / "none.jsonl", pair)
