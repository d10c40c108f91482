"""What a line says that it was asked for is what it is judged by."""

import dataclasses
import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    emitted,
    write_lines,
)
from support.judged_tokens import judged  # noqa: E402

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
