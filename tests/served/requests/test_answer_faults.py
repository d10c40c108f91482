"""Answers that contradict what was asked or themselves, and right ones that look like them."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import PROMPTS  # noqa: E402
from support.judged_tokens import judged  # noqa: E402
from support.sampled_engine import sampled_answers  # noqa: E402

from simverify.models.distribution import Law  # noqa: E402
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served import check_request  # noqa: E402
from simverify.served.answer_faults import describe_faults  # noqa: E402
from simverify.served.requests import expand_choices  # noqa: E402

pytestmark = pytest.mark.usefixtures("shallow_target")

N = 200


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", None)


@pytest.fixture(scope="module")
def eos(pair):
    return min(pair.eos)


TEXT = "def f(x):\n    return x\n\n"


def line(**fields):
    return {"prompt": [5, 6], "tokens": [7, 8, 9], "finish_reason": "length"} | fields


def kinds(pair, value):
    return [fault.kind for fault in check_request(value, "line 1", pair).faults]


def ids(pair, text):
    return list(pair.tokenizer(text, add_special_tokens=False).input_ids)


WRONG = {
    "beyond the vocabulary": (lambda e: line(tokens=[7, 1024, 8]), "vocabulary"),
    "a placeholder": (lambda e: line(tokens=[7, 8, -1]), "vocabulary"),
    "after the end": (lambda e: line(tokens=[7, e, 8], asked={"max_tokens": 3}), "end"),
    "padded": (lambda e: line(tokens=[7, e, e], asked={"max_tokens": 3}), "end"),
    "short": (lambda e: line(asked={"max_tokens": 9}), "short"),
    "long": (lambda e: line(asked={"max_tokens": 2}), "long"),
    "usage": (lambda e: line(usage={"completion_tokens": 5}), "usage"),
    "one more without a stop": (lambda e: line(completion_tokens=4), "usage"),
    "NaN": (lambda e: line(logprobs=[-1.0, float("nan"), -1.0]), "nan"),
    "infinity": (lambda e: line(logprobs=[-1.0, float("inf"), -1.0]), "nan"),
    "values of fewer tokens": (
        lambda e: line(completion_tokens=4, ids_of="logprobs"),
        "usage?",
    ),
    "a stop string left out": (
        lambda e: line(finish_reason="stop", asked={"stop": "x"}, completion_tokens=6),
        "stop?",
    ),
    "after an end, undeclared": (lambda e: line(tokens=[7, e, 8]), "end?"),
    "after an end that counts": (lambda e: line(tokens=[7, e, 8], ignore_eos=False), "end"),
    "too short, in SGLang's words": (
        lambda e: line(finish_reason={"type": "length", "length": 3}, asked={"max_tokens": 9}),
        "short",
    ),
    "no reason": (lambda e: line(finish_reason=None, asked={"max_tokens": 9}), "unended?"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_contradiction_is_found(pair, eos, how):
    make, kind = WRONG[how]
    assert set(kinds(pair, make(eos))) == {kind}


RIGHT = {
    "at the limit": lambda e: line(asked={"max_tokens": 3}),
    "ended": lambda e: line(tokens=[7, e], finish_reason="stop", asked={"max_tokens": 9}),
    "end left out": lambda e: line(finish_reason="stop", usage={"completion_tokens": 4}),
    "end not counted": lambda e: line(
        tokens=[7, e], finish_reason="stop", usage={"completion_tokens": 1}
    ),
    "ignore_eos": lambda e: line(tokens=[7, e, 8], asked={"ignore_eos": True, "max_tokens": 3}),
    "counted": lambda e: line(usage={"completion_tokens": 3}),
    "a stop token, in SGLang's words": lambda e: line(
        finish_reason={"type": "stop", "matched": 7}, asked={"max_tokens": 9}
    ),
    "the context is full": lambda e: line(tokens=[7] * 510, asked={"max_tokens": 900}),
    "values missing": lambda e: line(logprobs=[None, -1.0, float("-inf")]),
    "cut by --keep": lambda e: line(asked={"max_tokens": 3}, cut=2, completion_tokens=5),
    "no limit, as llama.cpp says it": lambda e: line(asked={"n_predict": -1}),
    "tool calls": lambda e: line(finish_reason="tool_calls", asked={"max_tokens": 9}),
    "a stop token": lambda e: line(
        finish_reason="stop", asked={"stop_token_ids": [9], "max_tokens": 9}
    ),
}


@pytest.mark.parametrize("how", RIGHT)
def test_right_answers_have_no_contradiction(pair, eos, how):
    assert kinds(pair, RIGHT[how](eos)) == []


def test_ids_behind_a_stop_string(pair):
    whole, step, more = (ids(pair, TEXT + "y = 3\n" * n) for n in (0, 1, 20))
    ended = line(tokens=whole, finish_reason="stop", stop_reason="return x\n\n")
    assert kinds(pair, ended) == []
    assert kinds(pair, ended | {"tokens": more}) == ["stop"]
    # vLLM keeps what one step emits behind a stop string, if that ended the answer.
    assert kinds(pair, ended | {"tokens": step}) == []
    assert kinds(pair, ended | {"tokens": step, "finish_reason": "length"}) == ["stop"]
    # The engine does not say what ended it: what was asked does, if the ids hold it.
    silent = {k: v for k, v in ended.items() if k != "stop_reason"}
    silent |= {"asked": {"stop": ["\n\n"], "max_tokens": 99}}
    request = check_request(silent, "line 1", pair)
    assert (request.faults, request.restored) == ((), False)
    assert kinds(pair, silent | {"tokens": more}) == ["stop"]
    assert kinds(pair, silent | {"tokens": whole[:3]}) == ["stop?"]
    late = silent | {"asked": {"stop": "return", "min_tokens": len(whole) - 1}}
    assert kinds(pair, late) == ["stop?"]


def test_what_cannot_be_judged_is_left_out(pair, eos):
    after = check_request(line(tokens=[7, eos, 8], logprobs=[-1.0, -2.0, -3.0]), "line 1", pair)
    assert (after.tokens, after.logprobs) == ((7, eos), (-1.0, -2.0))
    kept = check_request(line(tokens=[7, eos, 8], ignore_eos=True), "line 1", pair)
    assert kept.tokens == (7, eos, 8)
    assert check_request(line(tokens=[7, 8, 5000]), "line 1", pair).tokens == (7, 8)


def test_a_servers_answer_is_read_with_its_counts(pair):
    choice = {"token_ids": [7, 8, 9], "logprobs": {"token_logprobs": [-1, float("nan"), -1]}}
    answer = {
        "request": {"prompt": [5], "max_tokens": 3},
        "response": {
            "choices": [choice | {"finish_reason": "length"}],
            "usage": {"completion_tokens": 2},
        },
    }
    ((_, fields),) = expand_choices(answer, "line 1", pair)
    assert kinds(pair, fields) == ["usage", "nan"]


def test_a_limit_of_the_server_is_told_from_answers_that_break_off(pair):
    def short(*lengths):
        lines = [line(tokens=[7] * n, asked={"max_tokens": 64}) for n in lengths]
        return describe_faults([check_request(one, "line", pair).faults for one in lines])

    failed, open_ = short(20, 20, 20)
    assert not failed
    assert "3 of 3 ended by finish_reason length at the same number" in open_[0]
    failed, open_ = short(20, 31, 64)
    assert not open_
    assert failed[0].startswith("answers: 2 of 3 ended by finish_reason length before")


@pytest.fixture(scope="module")
def answers(pair):
    asked = {"max_tokens": 32, "temperature": 1.0}
    return [
        {
            "prompt": list(own.prompt),
            "tokens": list(own.tokens),
            "finish_reason": "stop" if own.tokens[-1] in pair.eos else "length",
            "asked": asked,
        }
        for own in sampled_answers(pair, Law().after, N, prompts=PROMPTS[:8])
    ]


@pytest.mark.thorough
def test_a_run_fails_by_its_answers_and_does_not_blame_their_tokens(pair, answers):
    right = judged(pair, answers, N, detect=0.99)
    assert right.verdict == "PASS"
    wrong = [*answers]
    wrong[1] = answers[1] | {"usage": {"completion_tokens": 99}}
    run = judged(pair, wrong, N, detect=0.99)
    assert run.verdict == "FAIL"
    assert run.findings[0].startswith(
        f"answers: 1 of {len(answers)} holds another number of tokens"
    )
    assert not run.worst
    assert f"Do not ship it: 1 of {len(answers)} holds another number" in " ".join(str(run).split())
    open_ = [one | {"finish_reason": None} for one in answers]
    open_[2] = open_[2] | {"tokens": answers[2]["tokens"][:9]}
    run = judged(pair, open_, N - 40, detect=0.99)
    assert run.verdict == "INCONCLUSIVE"
    assert "no finish_reason: write how each ended" in run.inconclusive
