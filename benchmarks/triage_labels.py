"""How often triage calls a planted fault by each class: a confusion table.

Engines with a fault decode prompts greedily, and so does a right one. For every fault, draws of a
few requests are triaged as a log each; what explanations fit a token is computed once and kept.
Controls are the right log's places. Wrong are: a fault of the acceptance that is called "cache or
rows" or "template" (a hundredth at most is promised), and one of caches, rows or prompts that is
called "verifier" (not promised where the fault is none of the explanations).

    python benchmarks/triage_labels.py              # the best part of an hour on one core
    python benchmarks/triage_labels.py --runs 20 --only lenient
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import greedy_engines as engines

from simverify.models.transformer import BUNDLED, read_prompts
from simverify.served import triage_explanations
from simverify.served.triage_explanations import (
    ROUNDING_FACTOR,
    ExplanationFit,
    GreedyLog,
    OffToken,
    _parse_answer,
    explanation_fits,
    score_requests,
)

REQUESTS, LENGTH = 60, 16
CLASSES = ("cache or rows", "template", "verifier", "unclear")


def warm(i: int, row: Any, lanes: Any, pair: Any) -> int:
    """Samples at a temperature of .2, where none was asked for."""
    lane = lanes[i]
    rng = np.random.default_rng([i, len(lane.tokens)])
    p = np.exp((row - row.max()) / 0.2)
    return int(rng.choice(len(p), p=p / p.sum()))


def near(i: int, row: Any, lanes: Any, pair: Any) -> int:
    """Keeps a draft whose logit is behind the target's choice by less than .3."""
    draft = engines.drafted(pair, lanes[i].text)
    return draft if row.max() - row[draft] < 0.3 else int(row.argmax())


def first_lost(lanes: Any, i: int, pair: Any) -> Any:
    """Every other request has lost its first token."""
    return lanes[i].text[i % 2 :]


def seventh_lost(lanes: Any, i: int, pair: Any) -> Any:
    """A token that differs from request to request is missing in the prompt."""
    place = 3 + i % 7
    return (*lanes[i].text[:place], *lanes[i].text[place + 1 :])


def last_doubled(lanes: Any, i: int, pair: Any) -> Any:
    """The prompt's last token is read twice."""
    n = len(lanes[i].prompt)
    return (*lanes[i].text[:n], *lanes[i].text[n - 1 :])


def two_lost(lanes: Any, i: int, pair: Any) -> Any:
    """The fourth and fifth token are missing: none of the explanations."""
    return (*lanes[i].text[:3], *lanes[i].text[5:])


FAULTS = engines.FAULTS | {
    "a warm engine": ({"choose": warm}, "verifier"),
    "a draft that is near": ({"choose": near}, "verifier"),
    "the first token lost in half": ({"read": first_lost}, "cache or rows"),
    "another token lost in each": ({"read": seventh_lost}, "cache or rows"),
    "the prompt's last token twice": ({"read": last_doubled}, "cache or rows"),
    "two tokens lost (not tried)": ({"read": two_lost}, "cache or rows"),
}


class Kept:
    """Fits of spots, computed once."""

    def __init__(self) -> None:
        self.known: dict[Any, dict[str, ExplanationFit]] = {}

    def __call__(
        self, spots: Any, pair: Any, radius: float, wanted: Any = None
    ) -> list[dict[str, ExplanationFit]]:
        keys = [(s.prompt, s.tokens, s.at, s.token, s.shared, s.log.drafts is None) for s in spots]
        new = {key: spot for key, spot in zip(keys, spots, strict=True) if key not in self.known}
        if new:
            made = explanation_fits(list(new.values()), pair, radius)
            self.known |= dict(zip(new, made, strict=True))
        return [
            {n: f for n, f in self.known[key].items() if wanted is None or n in wanted}
            for key in keys
        ]


def log_of(lines: Any, pair: Any, proxy: bool) -> tuple[GreedyLog, float]:
    """Return a log with its paths, and how far rounding moved it."""
    answers = [_parse_answer(value, "log", n, pair) for n, value in enumerate(lines, 1)]
    paths = score_requests([own.request for own in answers], pair)
    drafts = None
    if proxy:
        drafts = [
            np.array([engines.drafted(pair, (*own.request.prompt, *own.request.tokens[:k]))
                      for k in range(len(own.request.tokens))])
            for own in answers
        ]  # fmt: skip
    return GreedyLog(answers, paths, drafts), max(float(path.moved.max()) for path in paths)


def part(log: GreedyLog, numbers: Any) -> GreedyLog:
    """Return the log of some requests."""
    drafts = None if log.drafts is None else [log.drafts[i] for i in numbers]
    return GreedyLog([log.answers[i] for i in numbers], [log.paths[i] for i in numbers], drafts)


def main() -> None:
    """Decode, draw, triage, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="of every fault")
    parser.add_argument("--requests", type=int, default=12, help="of a run")
    parser.add_argument("--only", help="a fault by its name")
    parser.add_argument("--verbose", action="store_true", help="tell of every run")
    given = parser.parse_args()
    torch.set_num_threads(1)
    pair = engines.loaded()
    texts = [pair.encode(text) for text in read_prompts(BUNDLED / "prompts.jsonl")]
    rng = np.random.default_rng(1)
    prompts = []
    for i in range(REQUESTS):
        text = texts[i % len(texts)]
        size, end = int(rng.integers(18, 33)), len(text) - int(rng.integers(0, 12))
        prompts.append(tuple(text[max(end - size, 0) : end]))
    began = time.process_time()
    triage_explanations.explanation_fits = Kept()
    right = engines.decoded(pair, prompts=prompts, length=LENGTH)
    logs = {proxy: log_of(right, pair, proxy) for proxy in (False, True)}
    print(f"{'planted':38}" + "".join(f"{kind:>15}" for kind in CLASSES) + "  off, distinct")
    for name, (how, _) in FAULTS.items():
        if given.only in (None, name):
            proxy = "rejected draft in" in name
            wrong, moved = log_of(
                engines.decoded(pair, prompts=prompts, length=LENGTH, **how), pair, proxy
            )
            told, off = runs(
                logs[proxy][0], wrong, ROUNDING_FACTOR * max(moved, logs[proxy][1]), pair, given
            )
            cells = "".join(f"{told[kind]:>15}" for kind in CLASSES)
            print(f"{name:38}{cells}  {off:.1f}", flush=True)
    print(f"{time.process_time() - began:.0f} s of processor")


def runs(
    right: GreedyLog, wrong: GreedyLog, radius: float, pair: Any, given: Any
) -> tuple[Any, float]:
    """Count what most off requests of each run are called; the second is their mean number."""
    told: Counter[str] = Counter()
    off = 0
    for seed in range(given.runs):
        first = np.random.default_rng([7, seed]).integers(REQUESTS - given.requests + 1)
        numbers = range(first, first + given.requests)
        own = part(wrong, numbers)
        spots = []
        for i, path in enumerate(own.paths):
            places = np.flatnonzero(path.gap > radius)
            if len(places):
                at = int(places[0])
                token = own.answers[i].request.tokens[at]
                spots.append(OffToken(own, i, at, token, own.shared(i)))
        off += len(spots)
        found = triage_explanations.explain_spots(spots, [part(right, numbers)], pair, radius)
        left = "verifier" if found.open is None else "unclear"
        kinds = Counter(
            found.taken[i].kind if i in found.taken else left for i in range(len(spots))
        )
        if given.verbose:
            names = {cause.name: f"{cause.chance:.4f}" for cause in found.taken.values()}
            print(f"  {seed}: {dict(kinds)} of {len(spots)}; {names}", flush=True)
        if kinds:
            told[kinds.most_common(1)[0][0]] += 1
    return told, off / given.runs


if __name__ == "__main__":
    main()
