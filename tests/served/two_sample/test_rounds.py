"""Prompts are tried, a few are asked often, and once more where that was too little."""

import json
import random
from collections import Counter

import pytest
from support.emitted_tokens import serving
from support.two_engines import said

from simverify.errors import UsageError
from simverify.models.transformer import Sampling
from simverify.served import Endpoint
from simverify.served.answers import (
    MAX_PILOT_PROMPTS,
    MAX_REPEATED_PROMPTS,
    MAX_SIZES,
    PILOT_PAIRS,
    AgainstSettings,
    check_answer,
    pair_answers,
    read_answers,
)
from simverify.served.two_sample import (
    BothAnswers,
    collect_in_rounds,
    run_schedule,
    second_answer_file,
)

# Which answers of two engines are compared, in which units, and what is no answer.


def test_the_finest_units_that_both_have_are_compared():
    ids = said(tokens=[1, 2], pieces=["a", "b"], text="ab")
    assert pair_answers([ids], [ids]).groups == ((((1, 2), (1, 2)),),)
    assert pair_answers([ids], [said(pieces=["a"])]).kind == "token texts"
    text = pair_answers([said(text="two words, then")], [ids])
    assert text.groups[0][0] == (("two", " words", ",", " then"), ("ab",))
    with pytest.raises(UsageError, match="token ids and the other text alone"):
        pair_answers([said(tokens=[1])], [said(text="a")])


def test_the_end_counts_and_is_alike_whether_its_token_is_shown():
    shown = [said(tokens=[7, 0], finish_reason="stop"), said(tokens=[8, 0], finish_reason="stop")]
    hidden = [said(tokens=[7], finish_reason="stop"), said(tokens=[8], finish_reason="stop")]
    ((first, second),) = pair_answers(shown, hidden).groups
    assert first[0] == first[1] == (7, "")
    assert second[0] == second[1] == (8, "")
    ((cut,),) = pair_answers([said(tokens=[7])], [said(tokens=[7], finish_reason="length")]).groups
    assert cut == ((7,), (7,))


def test_answers_are_paired_by_their_prompt():
    first = [said("x", tokens=[1]), said("y", tokens=[2]), said("x", tokens=[3])]
    second = [said("y", tokens=[4]), said("x", tokens=[5]), said("z", tokens=[6])]
    pairs = pair_answers(first, second)
    assert pairs.prompts == ("x", "y")
    assert pairs.groups == ((((1,), (5,)),), (((2,), (4,)),))
    assert pairs.left_out == 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{}", "has no prompt"),
        ("[]", "has no prompt"),
        ('{"prompt": "x"}', "neither tokens"),
        ('{"prompt": "x", "tokens": [1.5]}', "tokens is no list of token ids"),
        ('{"prompt": "x", "pieces": [1]}', "pieces is no list of texts"),
        ('{"prompt": "x", "text": 5}', "text is int"),
        ('{"prompt": "x", "text": "a", "finish_reason": "abort"}', 'ended by "abort"'),
        ("", "holds no answer"),
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path, line, says):
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=says) as error:
        read_answers(tmp_path / "a.jsonl", "outputs")
    assert "\n" not in str(error.value)


def test_two_that_were_asked_otherwise_are_not_compared():
    hot, cold = ({"temperature": t, "model": str(t), "top_k": k} for t, k in ((1.0, -1), (0.8, 0)))
    with pytest.raises(UsageError, match=r"temperature 1\.0, the second with 0\.8"):
        pair_answers([said(tokens=[1], asked=hot)], [said(tokens=[1], asked=cold)])
    same = cold | {"temperature": 1.0}
    assert pair_answers([said(tokens=[1], asked=hot)], [said(tokens=[1], asked=same)]).n == 1
    with pytest.raises(UsageError, match="no prompt in common"):
        pair_answers([said("x", tokens=[1])], [said("y", tokens=[1])])


WIDE = {f"p{i}": 2 + i for i in range(12)}
"""Prompts, and in how many ways the first token of an answer to each comes; the second in two."""


class Servers:
    """Answers of two tokens; ``ways``: of a first token, 1 for a prompt of one answer alone."""

    def __init__(self, ways, seed=0):
        self._ways, self._rng, self.schedules = ways, random.Random(seed), []

    def __call__(self, schedule, before):
        self.schedules.append(list(schedule))
        done = 0 if before is None else len(before.first)
        sides = []
        for old in ((), ()) if before is None else (before.first, before.second):
            new = [self._said(prompt) for prompt in schedule[done:]]
            sides.append((*old, *new))
        return BothAnswers(*sides, ())

    def _said(self, prompt):
        ways = self._ways[prompt]
        ids = [self._rng.randrange(ways), self._rng.randrange(2) if ways > 1 else 0]
        return check_answer({"prompt": prompt, "tokens": ids}, "line 1")


def test_prompts_that_are_answered_in_few_ways_are_asked_often():
    ways = WIDE | {"one way": 1}
    settings, ask = AgainstSettings(detect=0.3), Servers(ways)
    rounds = run_schedule(tuple(ways), settings, ask)
    asked = Counter(answer.prompt for answer in rounds.first)
    often = {prompt for prompt, count in asked.items() if count > PILOT_PAIRS}
    assert asked["one way"] == PILOT_PAIRS  # in one way alone: it tells nothing
    assert len(often) == MAX_REPEATED_PROMPTS
    assert {"p0", "p1", "p2", "p3"} <= often
    assert "p11" not in often
    assert {asked[prompt] for prompt in often} == {settings.planned(MAX_REPEATED_PROMPTS)}
    assert rounds.planned == len(rounds.first) == len(ask.schedules[-1])
    assert ask.schedules[1][: len(ask.schedules[0])] == ask.schedules[0]


def test_where_answers_begin_in_more_ways_than_planned_more_is_asked():
    ways = {f"p{i}": 400 for i in range(4)}
    settings, told = AgainstSettings(detect=0.5), []
    rounds = run_schedule(tuple(ways), settings, Servers(ways), say=told.append)
    asked = Counter(answer.prompt for answer in rounds.first)
    planned = settings.planned(4)
    assert asked["p0"] in {planned * 2**k for k in range(1, MAX_SIZES)}
    assert any("begin in more ways than planned" in line for line in told)


@pytest.mark.parametrize("detect", [0.4, 0.5, 0.55, 0.6, 0.7, 0.8])
def test_those_asked_often_are_told_from_those_tried_alone(detect):
    """Where few answers would do they could be hardly more than those of the tried ones."""
    rounds = run_schedule(tuple(WIDE), AgainstSettings(detect=detect), Servers(WIDE))
    asked = Counter(answer.prompt for answer in rounds.first)
    often = [prompt for prompt in asked if 2 * asked[prompt] >= max(asked.values())]
    assert len(often) in (MAX_REPEATED_PROMPTS, len(WIDE))
    assert (len(often) == len(WIDE)) == (max(asked.values()) == PILOT_PAIRS)


def test_answers_in_one_way_alone_end_the_asking():
    ways = dict.fromkeys(("a", "b", "c"), 1)
    ask = Servers(ways)
    assert run_schedule(tuple(ways), AgainstSettings(), ask).planned == 3 * PILOT_PAIRS
    assert len(ask.schedules) == 1


def test_repeats_that_are_named_are_asked_of_each_prompt():
    ways = dict.fromkeys(("a", "b", "c"), 3)
    ask = Servers(ways)
    rounds = run_schedule(tuple(ways), AgainstSettings(repeats=5), ask)
    assert Counter(ask.schedules[0]) == dict.fromkeys(ways, 5)
    assert rounds.planned == 15


def test_of_many_prompts_some_are_tried():
    ways = {f"p{i}": 2 for i in range(3 * MAX_PILOT_PROMPTS)}
    ask = Servers(ways)
    run_schedule(tuple(ways), AgainstSettings(detect=0.9), ask)
    assert len(set(ask.schedules[0])) == MAX_PILOT_PROMPTS


@pytest.mark.parametrize("cut", [5, 60, 150])
@pytest.mark.thorough
def test_a_run_that_was_cut_in_any_round_is_gone_on_with(tmp_path, cut):
    keep = tmp_path / "a.jsonl"
    prompts, settings = ("one", "two"), AgainstSettings(detect=0.7)

    def answer(seed):
        rng = random.Random(seed)
        return lambda body: {"token_ids": rng.choices(range(3), k=2), "text": "x",
                             "finish_reason": "length"}  # fmt: skip

    def run():
        with serving(answer(1), owner="vllm") as a, serving(answer(2), owner="vllm") as b:
            ends = (Endpoint(a, max_tokens=2), Endpoint(b, max_tokens=2))
            return collect_in_rounds(ends, prompts, Sampling(1.0), settings, keep=keep, say=print)

    whole = run()
    assert whole.planned > 2 * PILOT_PAIRS
    lines = [
        path.read_text().splitlines(keepends=True) for path in (keep, second_answer_file(keep))
    ]
    cut = min(cut, whole.planned - 1)
    for path, own in zip((keep, second_answer_file(keep)), lines, strict=True):
        path.write_text("".join(own[:cut]) + own[cut][:9])
    again = run()
    # What comes after the cut is drawn anew, and says anew whether twice as many are asked.
    assert again.planned in {2 * settings.planned(2) * 2**k for k in range(MAX_SIZES)}
    for path, own in zip((keep, second_answer_file(keep)), lines, strict=True):
        now = path.read_text().splitlines(keepends=True)
        assert now[:cut] == own[:cut]
        assert len(now) == again.planned
        assert all(json.loads(line)["prompt"] in prompts for line in now)
