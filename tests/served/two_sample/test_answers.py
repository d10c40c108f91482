"""What is read of two engines' answers, and what in it may differ between two that are alike."""

import json
import random

import pytest
from support.emitted_tokens import serving, write_lines
from support.two_engines import said

from simverify.errors import UsageError
from simverify.models.transformer import Sampling
from simverify.served import Endpoint
from simverify.served.answers import AgainstSettings, pair_answers, read_answers
from simverify.served.requests import Chat
from simverify.served.two_sample import AnswerSources, audit_against, collect_both

HERE = AnswerSources("a", "b", "simverify audit")
STOP, END = 7, 99


def sentences(seed, n=900, *, shown=(), other=None):
    """Answers of five tokens and a full stop; ``other``: number of one that ends otherwise."""
    rng = random.Random(seed)
    return [
        said(
            f"prompt {i % 3}",
            tokens=[*rng.choices(range(5), k=5), 8 if i == other else STOP, *shown],
            finish_reason="stop",
        )
        for i in range(n)
    ]


def verdict(one, other):
    return audit_against(pair_answers(one, other), HERE, AgainstSettings(detect=0.4)).verdict


@pytest.mark.distribution
def test_a_full_stop_that_ends_all_answers_of_one_engine_is_no_end_of_sequence():
    """One answer of the other ends with another mark: the two are alike."""
    assert verdict(sentences(1), sentences(2, other=17)) == "PASS"
    assert verdict(sentences(2, other=17), sentences(1)) == "PASS"
    # A real difference at the end is one.
    without = [
        said(a.prompt, tokens=list(a.units["ids"][:-1]), finish_reason="stop") for a in sentences(2)
    ]
    mixed = [x if i % 3 else y for i, (x, y) in enumerate(zip(sentences(2), without, strict=True))]
    assert verdict(sentences(1), mixed) == "FAIL"


@pytest.mark.parametrize("shown", [((END,), ()), ((), (END,)), ((END,), (98,)), ((END,), (END,))])
def test_the_end_of_sequence_may_be_shown_by_one_engine(shown):
    one, other = (sentences(i, shown=own) for i, own in enumerate(shown))
    cut = said("prompt 0", tokens=[1, 2, END], finish_reason="length")  # at the limit, too
    assert verdict(one, other) == "PASS"
    (group, *_) = pair_answers([cut, *one] if shown[0] else one, other).groups
    assert all(pair[0][-1] == pair[1][-1] == "" for pair in group[1:])


def test_texts_of_tokens_are_compared_where_both_write_them_as_they_are():
    plain = said(pieces=["a", " b"], text="a b")
    assert pair_answers([plain], [said(pieces=["a", " ", "b"], text="a b")]).kind == "token texts"
    marked = said(pieces=["a", "\u0120b"], text="a b")
    assert pair_answers([plain], [marked]).groups == (((("a", " b"), ("a", " b")),),)
    assert pair_answers([plain], [marked]).kind == "text"
    # Parts of a character that have no text are not counted.
    parts = said(pieces=["a", "", "", "\u00e9"], text="a\u00e9")
    assert pair_answers([parts], [parts]).groups[0][0][0] == ("a", "\u00e9")


@pytest.mark.distribution
@pytest.mark.parametrize("add", [0, 100])
def test_ids_of_two_tokenizers_are_no_difference_and_texts_may_be(add):
    def answers(seed, add, weights):
        rng = random.Random(seed)
        drawn = [rng.choices(range(5), weights, k=3) for _ in range(900)]
        return [
            said(f"prompt {i % 2}", tokens=[add + t for t in ids], text=" ".join(map(str, ids)))
            for i, ids in enumerate(drawn)
        ]

    one, other = answers(1, 0, [1] * 5), answers(2, add, [1] * 5)
    assert pair_answers(one, other).kind == ("text" if add else "ids")
    assert verdict(one, other) == "PASS"
    assert verdict(one, answers(2, add, [3, 1, 1, 1, 1])) == "FAIL"


def test_every_pair_has_to_be_asked_alike():
    first = [said(tokens=[1], temperature=0.7), said(tokens=[2], temperature=1.0)]
    assert pair_answers(first, first).n == 2
    with pytest.raises(UsageError, match=r"temperature 1\.0, the second with 0\.7"):
        pair_answers(first, [first[0], first[0]])
    whole = {"temperature": 0.7, "top_p": 1.0, "top_k": -1, "presence_penalty": 0.0}
    assert pair_answers([said(tokens=[1], asked=whole)], [first[0]]).n == 1
    penalised = whole | {"presence_penalty": 1.0}
    with pytest.raises(UsageError, match=r"presence_penalty null, the second with 1\.0"):
        pair_answers([said(tokens=[1], asked=whole)], [said(tokens=[1], asked=penalised)])
    with pytest.raises(UsageError, match=r"asked at temperature 0: .*simverify triage"):
        said(tokens=[1], asked={"temperature": 0})
    with pytest.raises(UsageError, match="no list of token ids"):
        said(tokens=[-1])


def test_raw_answers_and_conversations_are_read(tmp_path):
    talk = {"messages": [{"role": "user", "content": "Hi"}]}
    choices = [
        {"message": {"content": text}, "token_ids": ids, "finish_reason": reason}
        for text, ids, reason in (("Ho", [1, 2], "stop"), ("Ha", [3], "tool_calls"))
    ]
    lines = [{"request": talk | {"temperature": 0.7, "n": 2}, "response": {"choices": choices}}]
    found = read_answers(write_lines(tmp_path / "raw.jsonl", lines), "outputs")
    assert [a.units["ids"] for a in found] == [(1, 2), (3,)]
    assert {(a.prompt, a.ended, a.asked["temperature"]) for a in found} == {
        (json.dumps(talk), True, 0.7)
    }


def test_conversations_are_asked_of_both():
    def complete(body):
        assert body["messages"][0]["content"] == "Hi"
        return {"message": {"content": "w1 w2"}, "finish_reason": "length"}

    talk = Chat(json.dumps({"messages": [{"role": "user", "content": "Hi"}]}))
    with serving(complete) as a, serving(complete) as b:
        ends = (Endpoint(a, max_tokens=5), Endpoint(b, max_tokens=5))
        asked = collect_both(ends, [talk] * 3, Sampling())
    pairs = pair_answers(asked.first, asked.second)
    assert (pairs.n, pairs.groups[0][0]) == (3, (("w1", " w2"), ("w1", " w2")))
