"""Prompts are tried, a few are asked often, and once more where that was too little."""

import json
import random
from collections import Counter

import pytest
from support.emitted_tokens import serving

from simverify.emitted import Endpoint
from simverify.emitted.against import AgainstSettings, ask_in_rounds, beside
from simverify.emitted.against.answers import answer_iv
from simverify.emitted.against.asking import AskedBoth
from simverify.emitted.against.rounds import in_rounds
from simverify.emitted.against.settings import OFTEN, SIZES, TRIED, TRIES
from simverify.models.real.sampling import Sampling

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
        return AskedBoth(*sides, ())

    def _said(self, prompt):
        ways = self._ways[prompt]
        ids = [self._rng.randrange(ways), self._rng.randrange(2) if ways > 1 else 0]
        return answer_iv({"prompt": prompt, "tokens": ids}, "line 1")


def test_prompts_that_are_answered_in_few_ways_are_asked_often():
    ways = WIDE | {"one way": 1}
    settings, ask = AgainstSettings(detect=0.3), Servers(ways)
    rounds = in_rounds(tuple(ways), settings, ask)
    asked = Counter(answer.prompt for answer in rounds.asked.first)
    often = {prompt for prompt, count in asked.items() if count > TRIES}
    assert asked["one way"] == TRIES  # in one way alone: it tells nothing
    assert len(often) == OFTEN
    assert {"p0", "p1", "p2", "p3"} <= often
    assert "p11" not in often
    assert {asked[prompt] for prompt in often} == {settings.planned(OFTEN)}
    assert rounds.planned == len(rounds.asked.first) == len(ask.schedules[-1])
    assert ask.schedules[1][: len(ask.schedules[0])] == ask.schedules[0]


def test_where_answers_begin_in_more_ways_than_planned_more_is_asked():
    ways = {f"p{i}": 400 for i in range(4)}
    settings, told = AgainstSettings(detect=0.5), []
    rounds = in_rounds(tuple(ways), settings, Servers(ways), say=told.append)
    asked = Counter(answer.prompt for answer in rounds.asked.first)
    planned = settings.planned(4)
    assert asked["p0"] in {planned * 2**k for k in range(1, SIZES)}
    assert any("begin in more ways than planned" in line for line in told)


@pytest.mark.parametrize("detect", [0.4, 0.5, 0.55, 0.6, 0.7, 0.8])
def test_those_asked_often_are_told_from_those_tried_alone(detect):
    """Where few answers would do they could be hardly more than those of the tried ones."""
    rounds = in_rounds(tuple(WIDE), AgainstSettings(detect=detect), Servers(WIDE))
    asked = Counter(answer.prompt for answer in rounds.asked.first)
    often = [prompt for prompt in asked if 2 * asked[prompt] >= max(asked.values())]
    assert len(often) in (OFTEN, len(WIDE))
    assert (len(often) == len(WIDE)) == (max(asked.values()) == TRIES)


def test_answers_in_one_way_alone_end_the_asking():
    ways = dict.fromkeys(("a", "b", "c"), 1)
    ask = Servers(ways)
    assert in_rounds(tuple(ways), AgainstSettings(), ask).planned == 3 * TRIES
    assert len(ask.schedules) == 1


def test_repeats_that_are_named_are_asked_of_each_prompt():
    ways = dict.fromkeys(("a", "b", "c"), 3)
    ask = Servers(ways)
    rounds = in_rounds(tuple(ways), AgainstSettings(repeats=5), ask)
    assert Counter(ask.schedules[0]) == dict.fromkeys(ways, 5)
    assert rounds.planned == 15


def test_of_many_prompts_some_are_tried():
    ways = {f"p{i}": 2 for i in range(3 * TRIED)}
    ask = Servers(ways)
    in_rounds(tuple(ways), AgainstSettings(detect=0.9), ask)
    assert len(set(ask.schedules[0])) == TRIED


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
            return ask_in_rounds(ends, prompts, Sampling(1.0), settings, keep=keep, say=print)

    whole = run()
    assert whole.planned > 2 * TRIES
    lines = [path.read_text().splitlines(keepends=True) for path in (keep, beside(keep))]
    cut = min(cut, whole.planned - 1)
    for path, own in zip((keep, beside(keep)), lines, strict=True):
        path.write_text("".join(own[:cut]) + own[cut][:9])
    again = run()
    # What comes after the cut is drawn anew, and says anew whether twice as many are asked.
    assert again.planned in {2 * settings.planned(2) * 2**k for k in range(SIZES)}
    for path, own in zip((keep, beside(keep)), lines, strict=True):
        now = path.read_text().splitlines(keepends=True)
        assert now[:cut] == own[:cut]
        assert len(now) == again.planned
        assert all(json.loads(line)["prompt"] in prompts for line in now)
