"""What a line says that it was asked for is what it is judged by."""

import dataclasses
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    PROMPTS,
    emitted,
    write_lines,
)
from support.judged_tokens import judged  # noqa: E402
from support.processed_engine import answers, everywhere  # noqa: E402

from simverify.cli import run as command_line  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.models.distribution import Law  # noqa: E402
from simverify.models.transformer import (  # noqa: E402
    Sampling,
    load_pair,
)
from simverify.served import (  # noqa: E402
    check_request,
    contradictions,
)
from simverify.served.requests import expand_choices, independent_requests  # noqa: E402
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.usefixtures("shallow_target")

GOOD = {"prompt": "def f(", "tokens": [5, 6]}


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.mark.parametrize(
    ("says", "law"),
    [
        ({}, None),
        ({"asked": {"max_tokens": 4}}, None),
        ({"temperature": 0.5}, Law(0.5, 7, None)),  # the rest as declared
        ({"asked": {"temperature": 0.5, "top_p": 1.0}}, Law(0.5)),  # nothing else was asked
        ({"asked": {"temperature": 1.0, "top_p": 0.9, "top_k": -1, "min_p": 0.0}},
         Law(1.0, None, 0.9)),
        ({"asked": {"temperature": 1.0, "repeat_penalty": 1.0}, "top_k": 3}, Law(1.0, 3)),
        ({"min_p": 0.1, "typical_p": 0.5, "frequency_penalty": 1},
         Law(1.0, 7, min_p=0.1, typical_p=0.5, frequency_penalty=1.0)),
        ({"asked": {"repeat_penalty": 1.2, "repeat_last_n": -1}}, Law(repetition_penalty=1.2)),
        ({"asked": {"repeat_penalty": 1.2, "repeat_last_n": 131072}}, Law(repetition_penalty=1.2)),
        ({"asked": {"logit_bias": {"5": -2, "6": 0}, "min_tokens": 3}},
         Law(logit_bias=((5, -2.0),), min_tokens=3, ends=(0,))),
        ({"bad_words": [[5, 6]], "asked": {}}, Law(bad_words=((5, 6),))),
        ({"asked": {"allowed_token_ids": [7, 5, 7]}}, Law(allowed_token_ids=(5, 7))),
        ({"asked": {"sampling_params": {"temperature": 0.5, "min_new_tokens": 3}}},
         Law(0.5, min_tokens=3, ends=(0,))),
        ({"asked": {"temperature": 0.7, "parameters": {"temperature": None, "top_k": 5}}},
         Law(0.7, 5)),
        ({"asked": {"presence_penalty": 1, "repeat_last_n": 131072}}, Law(presence_penalty=1.0)),
        ({"asked": {"repetition_penalty": 1.0, "repetition_context_size": 20}}, Law()),
        ({"asked": {"temperature": 0.5, "response_format": {"type": "text"}, "best_of": 1,
                    "xtc_probability": 0.0, "use_beam_search": False}}, Law(0.5)),
    ],
)  # fmt: skip
def test_the_law_of_a_line(pair, says, law):
    declared = dataclasses.replace(pair, sampling=Sampling(1.0, 7))
    assert check_request(GOOD | says, "", declared).law == law


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ({"temperature": "hot"}, 'line 1 says temperature "hot": expected a number'),
        ({"top_k": 1.5}, "says top_k 1.5"),
        ({"temperature": -1}, "line 1: temperature is -1"),
        ({"min_p": 2}, "line 1: min-p is 2, expected 0 to 1"),
        ({"logit_bias": {"5000": 1}}, 'logit_bias of "5000": expected an id of tiny-llama'),
        ({"logit_bias": 3}, "logit_bias 3: expected"),
        ({"bad_words": "x"}, 'bad_words "x": expected a list'),
        ({"bad_words": [[]]}, "the bad word"),
        ({"repeat_penalty": 1.2}, "counts only the last 64 tokens: ask with repeat_last_n 131072"),
        ({"min_tokens": 3, "min_new_tokens": 4}, "says min_tokens twice"),
        ({"temperature": 10**400}, "says temperature 1000.*: expected a number"),
        ({"temperature": True}, "says temperature true: expected a number"),
        ({"temperature": float("nan")}, "says temperature NaN: expected a number"),
        ({"top_k": "5"}, 'says top_k "5": expected a whole number'),
        ({"top_k": -7}, "says top_k -7: expected 1 or more, or 0 or -1 for all"),
        ({"logit_bias": {"5": 10**400}}, "logit_bias 1000.* of 5: expected a number"),
        ({"allowed_token_ids": []}, "allowed_token_ids .*: expected a list of one id or more"),
        ({"allowed_token_ids": [5000]}, "with 5000: expected an id of tiny-llama, 0 to 1023"),
        ({"allowed_token_ids": "ab"}, "expected a list of one id"),
        ({"seed": "x"}, 'says seed "x": expected a whole number'),
        ({"asked": {"seed": 1.5}}, "says seed 1.5: expected a whole number"),
        ({"asked": {"sampling_params": {"temperature": "hot"}}}, 'temperature "hot"'),
        ({"asked": {"presence_penalty": 1, "repeat_last_n": 64}}, "counts only the last tokens"),
        ({"asked": {"xtc_probability": 0.5}}, "xtc_probability 0.5, which is not among"),
        ({"asked": {"use_beam_search": True}}, "use_beam_search true, which is not among"),
        ({"asked": {"guided_regex": "a+"}}, "structured output, guided_regex .*: give a --mask"),
        ({"response_format": {"type": "json_object"}}, "structured output, response_format"),
    ],
)
def test_what_cannot_be_judged_is_refused(pair, says, words):
    with pytest.raises(UsageError, match=words):
        check_request(GOOD | says, "line 1", pair)


@pytest.mark.distribution
@pytest.mark.thorough
def test_each_line_is_judged_by_its_own_temperature(pair):
    cold = dataclasses.replace(pair, sampling=Sampling(0.5))
    objects = [
        value | {"temperature": law}
        for law, by in ((1.0, pair), (0.5, cold))
        for value in emitted(by, VERIFIERS["token"], 1000, lanes=16)
    ]
    run = judged(pair, objects, 2000)
    assert run.verdict == "PASS"
    assert run.temperature == 1.0
    assert run.otherwise == sum(value["temperature"] == 0.5 for value in objects)
    silent = [{k: v for k, v in value.items() if k != "temperature"} for value in objects]
    assert judged(pair, silent, 2000).verdict == "FAIL"


def test_flags_that_contradict_the_file_are_told(pair, tmp_path, capfd):
    laws = [Sampling(0.5), Sampling(0.5, 3), None]
    (note,) = contradictions(laws, {"temperature": 1.0, "top_k": None})
    assert note.startswith("--temperature 1 contradicts the file: 2 requests were asked with 0.5")
    assert list(contradictions(laws, {"temperature": 0.5, "top_p": 1.0})) == []
    path = write_lines(tmp_path / "o.jsonl", [GOOD | {"asked": {"temperature": 0.5}}])
    for more, told in ((["--temperature", "1"], True), ([], False)):
        command_line(["audit", "--outputs", str(path), "--target", "tiny-llama", "--threads", "1",
                      "--json", "-", "--quiet", *more])  # fmt: skip
        found = json.loads(capfd.readouterr().out)
        assert found["temperature"] == 0.5
        assert any("contradicts the file" in note for note in found["notes"]) == told


@pytest.mark.distribution
@pytest.mark.thorough
def test_each_line_is_judged_by_all_of_its_own(pair):
    """One log of eight kinds of request; the negative control forgets which line is which."""
    laws = [
        Law(1.0),
        Law(0.5, top_k=20),
        Law(0.8, top_p=0.9),
        Law(1.0, min_p=0.05, presence_penalty=1.0),
        Law(1.0, repetition_penalty=1.5),
        Law(1.0, frequency_penalty=1.0, logit_bias=((310, 3.0),)),
        Law(1.0, allowed_token_ids=tuple(range(0, 1024, 3))),
        Law(0.0),
    ]
    asked = [
        {"temperature": 1.0},
        {"temperature": 0.5, "top_k": 20},
        {"temperature": 0.8, "top_p": 0.9},
        {"min_p": 0.05, "presence_penalty": 1.0},
        {"repetition_penalty": 1.5},
        {"frequency_penalty": 1.0, "logit_bias": {"310": 3.0}},
        {"allowed_token_ids": [*range(0, 1024, 3)]},
        {"sampling_params": {"temperature": 0}},
    ]
    ids = [tuple(pair.encode(text)) for text in PROMPTS[:8]]
    groups = [answers(pair, ids, everywhere(law), length=16, seed=i) for i, law in enumerate(laws)]
    lines = [
        {"prompt": [*r.prompt], "tokens": [*r.tokens], "finish_reason": "length", "asked": said}
        for row in zip(*groups, strict=True)
        for r, said in zip(row, asked, strict=True)
    ]
    n = sum(len(line["tokens"]) for line in lines)
    run = judged(pair, lines, n)
    assert (run.findings, run.verdict) == ((), "PASS")
    shifted = [line | {"asked": lines[i - 1]["asked"]} for i, line in enumerate(lines)]
    assert judged(pair, shifted, n).verdict == "FAIL"


@pytest.mark.distribution
def test_requests_of_one_seed_are_judged_once(pair):
    """An engine that heeds a seed answers alike: that is what it was asked for, and no fault."""
    objects = emitted(pair, VERIFIERS["token"], 400, lanes=8)
    copied = [value | {"asked": {"temperature": 1.0, "seed": 7}} for value in [objects[0]] * 30]
    run = judged(pair, copied, 400)
    assert (run.verdict, run.requests, run.findings) == ("INCONCLUSIVE", 1, ())
    assert run.notes[0].startswith("29 requests were asked with the seed of an earlier one")
    assert "not heeded" not in run.notes[0]
    silent = [value | {"asked": {"temperature": 1.0}} for value in copied]
    assert judged(pair, silent, 400).verdict == "FAIL"
    own = [value | {"asked": {"temperature": 1.0, "seed": i}} for i, value in enumerate(copied)]
    assert judged(pair, own, 400).verdict == "FAIL"  # another seed for each, and copies
    other = [value | {"prompt": objects[0]["prompt"], "seed": 7} for value in objects[:9]]
    assert "7 of the others repeat its prompt" in judged(pair, other, 400).notes[0]
    greedy = [value | {"asked": {"temperature": 0, "seed": 7}} for value in objects[:9]]
    kept = independent_requests([check_request(value, "", pair) for value in greedy], pair)
    assert (kept.left_out, kept.note) == (0, None)


def test_the_choices_of_a_request_have_seeds_of_their_own(pair):
    choices = [{"token_ids": [5, 6]}, {"token_ids": [5, 7]}]
    value = {"request": {"prompt": [3], "seed": 4, "n": 2}, "response": {"choices": choices}}
    seeds = [check_request(v, w, pair).seed for w, v in expand_choices(value, "line 1", pair)]
    assert seeds == [4, 5]
    assert check_request(GOOD | {"seed": -1}, "", pair).seed is None


@pytest.mark.parametrize("name", ["audit", "watch", "matrix"])
def test_one_seed_for_all_requests_is_refused(name, capfd):
    words = [name, "--endpoint", "http://127.0.0.1:1", "--target", "tiny-llama", "--prompts", "p"]
    state = ["--state", "s"] if name == "watch" else []
    code = command_line([*words, *state, "--extra-body", '{"seed": 5}'])
    said = " ".join(capfd.readouterr().err.split())
    assert (code, "--extra-body has seed 5: all requests would share" in said) == (2, True)


def test_a_small_temperature_does_not_overflow():
    rows = Law(1e-300, min_p=0.1).after(np.array([[1.0, 3.0, 2.0]]), (1,), (0,))
    assert rows.tolist() == [[0.0, 1.0, 0.0]]
