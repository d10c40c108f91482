"""Conversations and raw answers: prompts files, chat completions, lines as servers send them."""

import json
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    serving,
    write_lines,
)
from support.judged_tokens import HERE  # noqa: E402

from simverify.errors import UsageError  # noqa: E402
from simverify.models.distribution import Law  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import (  # noqa: E402
    Endpoint,
    OutputSettings,
    audit_outputs,
    check_request,
    collect_answers,
    read_requests,
)
from simverify.served.requests import (  # noqa: E402
    Chat,
    chat_ids,
    read_prompts_and_chats,
)

TEMPLATE = (
    "{% if tools %}[{{ tools | length }} tools]{% endif %}{% for m in messages %}"
    "<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.arguments['x'] }}{% endfor %}|{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TALK = [
    {"role": "system", "content": "be short"},
    {"role": "user", "content": "def f("},
    {"role": "assistant", "content": "x"},
    {"role": "user", "content": "more"},
]


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    found = load_pair("tiny-llama", "tiny-llama")
    found.tokenizer.chat_template = TEMPLATE
    return found


def ids(pair, text):
    return tuple(pair.tokenizer(text, add_special_tokens=False).input_ids)


SPELT = "<system>be short|<user>def f(|<assistant>x|<user>more|<assistant>"


def test_a_conversation_is_what_the_template_makes_of_it(pair):
    line = {"messages": TALK, "tokens": [5, 6], "finish_reason": "length"}
    assert check_request(line, "", pair).prompt == ids(pair, SPELT)
    tools = check_request(line | {"tools": [{"type": "function"}]}, "", pair)
    assert tools.prompt == ids(pair, "[1 tools]" + SPELT)
    calls = [{"function": {"name": "f", "arguments": '{"x": 7}'}}]
    turns = [{"role": "assistant", "tool_calls": calls}, {"role": "tool", "content": "8"}]
    called = [*TALK[:2], *turns]
    assert check_request(line | {"messages": called}, "", pair).prompt == ids(
        pair, "<system>be short|<user>def f(|<assistant>7|<tool>8|<assistant>"
    )


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "messages is no list"),
        ("hello", "messages is no list"),
        ([{"content": "x"}], r"messages\[0\] has no role"),
        ([{"role": "user"}], "neither content nor tool_calls"),
        (TALK[:3], "the last message is the assistant's"),
    ],
)
def test_messages_that_are_none_are_refused(pair, messages, words):
    with pytest.raises(UsageError, match=words):
        check_request({"messages": messages, "tokens": [5]}, "line 1", pair)


def test_a_template_that_is_missing_or_refuses_is_one_line(pair):
    bare = load_pair("tiny-llama", "tiny-llama")
    line = {"messages": TALK, "tokens": [5]}
    with pytest.raises(UsageError, match="tiny-llama has no chat template"):
        check_request(line, "line 1", bare)
    told = check_request(line | {"prompt_token_ids": [9, 8]}, "line 1", bare)
    assert (told.prompt, told.differs) == ((9, 8), None)
    bare.tokenizer.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(UsageError, match=r"refuses its messages: .*no system role") as error:
        chat_ids(Chat(json.dumps({"messages": TALK})), bare, "line 1")
    assert "\n" not in str(error.value)


def test_prompts_files_hold_texts_and_conversations(tmp_path):
    path = write_lines(
        tmp_path / "p.jsonl", [{"prompt": "a"}, {"messages": TALK}, {"turns": ["b"]}]
    )
    first, talk, last = read_prompts_and_chats(path)
    assert (first, last) == ("a", "b")
    assert talk.fields == {"messages": TALK}
    with pytest.raises(UsageError, match="line 1: the last message"):
        read_prompts_and_chats(write_lines(tmp_path / "q.jsonl", [{"messages": TALK[:3]}]))
    (tmp_path / "p.txt").write_text("one\n\ntwo")
    assert read_prompts_and_chats(tmp_path / "p.txt") == ("one", "two")


CHOICE = {"text": "", "token_ids": [5, 6], "finish_reason": "length"}


@pytest.mark.parametrize(
    "line",
    [
        {"request": {"prompt": "def f(", "temperature": 0.5}, "response": {"choices": [CHOICE]}},
        {"request": {"prompt": "def f(", "temperature": 0.5}, "choices": [CHOICE], "usage": {}},
        {"request": {"prompt": "def f(", "temperature": 0.5},
         "response": {"status_code": 200, "body": {"choices": [CHOICE]}}},
        {"prompt": "def f(", "temperature": 0.5, "response": {"choices": [CHOICE]}},
        {"choices": [CHOICE | {"prompt_token_ids": [310, 286, 8]}], "temperature": 0.5},
    ],
)  # fmt: skip
def test_raw_answers_are_read_as_they_came(pair, tmp_path, line):
    (found,) = read_requests(write_lines(tmp_path / "o.jsonl", [line]), pair)
    assert (found.prompt, found.tokens) == ((310, 286, 8), (5, 6))
    assert found.law == Law(0.5)


def test_each_choice_is_a_request(pair, tmp_path):
    request = {"prompt": ["def f(", "class A:"], "n": 2}
    choices = [CHOICE | {"token_ids": [5 + i]} for i in range(4)]
    path = write_lines(tmp_path / "o.jsonl", [{"request": request, "choices": choices}])
    found = read_requests(path, pair)
    assert [r.tokens for r in found] == [(5,), (6,), (7,), (8,)]
    first, second = (tuple(pair.encode(text)) for text in request["prompt"])
    assert [r.prompt for r in found] == [first, first, second, second]


def test_a_chat_completion_is_read(pair, tmp_path):
    text = pair.tokenizer.decode([5, 6])
    logprobs = {"content": [{"token": f"token_id:{t}", "logprob": -1.0} for t in (5, 6)]}
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "length"}
    line = {"request": {"messages": TALK}, "choices": [choice | {"logprobs": logprobs}]}
    (found,) = read_requests(write_lines(tmp_path / "o.jsonl", [line]), pair)
    assert (found.tokens, found.logprobs) == ((5, 6), (-1.0, -1.0))
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": 1}]}
    ended = {"message": calls, "finish_reason": "tool_calls"}
    line = {"request": {"messages": TALK}, "choices": [ended | {"token_ids": [5, 6]}]}
    (found,) = read_requests(write_lines(tmp_path / "o.jsonl", [line]), pair)
    assert found.tokens == (5, 6, 0)  # it ended by itself
    line["choices"] = [ended]
    with pytest.raises(UsageError, match=r"tool calls or reasoning.*ask for token ids"):
        read_requests(write_lines(tmp_path / "o.jsonl", [line]), pair)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"choices": [CHOICE]}, "nothing says to what: put the request beside it"),
        ({"choices": 3, "prompt": "x"}, "an answer without choices"),
        ({"choices": [], "prompt": "x"}, "an answer without choices"),
        ({"object": "text_completion.chunk", "choices": []}, "a piece of a stream"),
        ({"request": {"prompt": "x", "echo": True}, "choices": [CHOICE]}, "asked with echo"),
        ({"response": {"error": {"message": "busy"}}, "prompt": "x"}, "without choices"),
    ],
)
def test_answers_that_tell_nothing_are_refused(pair, tmp_path, line, words):
    with pytest.raises(UsageError, match=words):
        read_requests(write_lines(tmp_path / "o.jsonl", [line]), pair)


class Talker:
    """A server of conversations; ``prompt``: the ids that it says it made of one."""

    def __init__(self, pair, prompt=None, count=None):
        self.pair, self.prompt, self.count = pair, prompt, count
        self.bodies, self.lock = [], threading.Lock()

    def __call__(self, body):
        with self.lock:
            self.bodies.append(body)
        text = self.pair.tokenizer.decode([5, 6])
        choice = {"message": {"content": text}, "token_ids": [5, 6], "finish_reason": "length"}
        answer = {"choices": [choice]}
        if self.prompt is not None:
            answer["prompt_token_ids"] = self.prompt
        if self.count is not None:
            answer["usage"] = {"prompt_tokens": self.count}
        return json.dumps(answer).encode()


@pytest.mark.parametrize("case", ["same", "told", "untold"])
def test_a_template_that_differs_is_named(pair, tmp_path, case):
    due = ids(pair, SPELT)
    server = {
        "same": Talker(pair, count=len(due)),
        "told": Talker(pair, prompt=[*due, 9]),
        "untold": Talker(pair, count=len(due) + 3),
    }[case]
    talk = Chat(json.dumps({"messages": TALK}))
    keep = tmp_path / "kept.jsonl"
    with serving(server) as address:
        found = collect_answers(
            Endpoint(address, max_tokens=2), [talk], pair, 100, samples=2, keep=keep
        )
        again = collect_answers(
            Endpoint(address, max_tokens=2), [talk], pair, 100, samples=2, keep=keep
        )
    assert again.requests == found.requests == read_requests(keep, pair)
    assert server.bodies[0]["messages"] == TALK
    assert "prompt" not in server.bodies[0]
    request = found.requests[0]
    assert request.differs == (None if case == "same" else case)
    assert request.prompt == ((*due, 9) if case == "told" else due)
    run = audit_outputs(
        found.requests, pair, HERE, OutputSettings(tokens=4, alpha=0.5, detect=0.999)
    )
    assert run.other_prompts == (0 if case == "same" else 2)
    if case == "untold":
        assert run.verdict == "INCONCLUSIVE"
        assert "another number of tokens on the server" in run.inconclusive
    if case == "told":
        assert any("those of the server are taken" in note for note in run.notes)
