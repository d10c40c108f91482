"""How many emitted tokens find each kind of fault of a served engine, with power .9.

Engines decode with the bundled target in answers of 32 tokens, by rows that have one fault planted.
An audit judges their first tokens at the default false-alarm rate, at numbers that grow by a fifth:
the figure is the one at which nine tenths of the runs FAIL. Bets on rounded weights are left out,
which are not what these kinds are found by. The last row has no fault.

    python benchmarks/served_power.py --write       # the table of docs/reference/served-power.md
    python benchmarks/served_power.py --kinds 'top-k' --runs 50
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.sampled_engine import sampled_answers

from simverify.models.distribution import Law
from simverify.models.transformer import TransformerPair, load_pair, use_threads
from simverify.served import OutputSettings
from simverify.served.evidence import OutputEvidence
from simverify.served.judge import choose_tolerance, judge_evidence
from simverify.served.requests import Request
from simverify.served.rescore import rescore
from simverify.served.variants import VARIANTS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "served-power.md"
BEGIN, END = "<!-- served_power.py: begin -->", "<!-- served_power.py: end -->"

LENGTH, MOST, POWER = 32, 8_192, 0.9
GRID = [int(64 * 2 ** (k / 4)) for k in range(29)]
"""Numbers of tokens that are tried, to ``MOST``."""

Rows = Callable[[Any, Sequence[int], Sequence[int], int], Any]
"""Rows (n, V) of logits (n, V), as ``Law.after`` takes and gives them."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the ``law`` that is asked for, and the ``rows`` that are sampled.

    ``answers``: what becomes of the right answers, for faults of whole answers.
    """

    name: str
    law: Law
    rows: Rows | None = None
    answers: Callable[[list[Request]], list[Request]] | None = None


def sampled(words: str, law: Law) -> Kind:
    """An engine that samples in the way that a variant names."""
    variant = next(one for one in VARIANTS if one.words == words)

    return Kind(words, law, partial(variant.rows, law))


def copied(answers: list[Request]) -> list[Request]:
    """One seed for all requests: a few prompts, of which each gets the same answer again."""
    first = answers[:8]
    return [first[i % len(first)] for i in range(len(answers))]


KINDS: tuple[Kind, ...] = (
    sampled("top-p without the token that crosses p", Law(0.8, None, 0.9)),
    sampled("top-p with one token more than reach p", Law(0.8, None, 0.9)),
    sampled("top-p ignored", Law(0.8, None, 0.9)),
    sampled("top-k of k - 1", Law(0.8, 20)),
    sampled("top-k of k + 1", Law(0.8, 20)),
    sampled("top-k ignored", Law(0.8, 20)),
    sampled("min-p relative to 1, not to the largest probability", Law(0.8, min_p=0.05)),
    sampled(
        "min-p relative to the model's largest probability, before temperature",
        Law(0.8, min_p=0.05),
    ),
    sampled("temperature after the cuts", Law(0.6, None, 0.9)),
    sampled("0.9 times the temperature", Law(0.8)),
    sampled("0.95 times the temperature", Law(0.8)),
    sampled("temperature ignored", Law(0.8)),
    sampled("top-k 40, which was not asked for", Law(1.0)),
    sampled("top-p 0.95, which was not asked for", Law(1.0)),
    sampled("penalties after temperature", Law(0.5, repetition_penalty=1.3)),
    Kind("one seed for all requests: copies of answers", Law(1.0), answers=copied),
    Kind("none: a right engine", Law(0.8, 20, 0.9, 0.02)),
)


def decoded(pair: TransformerPair, kind: Kind, tokens: int, seed: int) -> list[Request]:
    """Return answers of an engine with a kind of fault, of ``tokens`` tokens or more."""
    found = sampled_answers(pair, kind.rows or kind.law.after, tokens, length=LENGTH, seed=seed)
    return found if kind.answers is None else kind.answers(found)


def found_after(pair: TransformerPair, kind: Kind, seed: int) -> int | None:
    """Return after how many tokens, of those that are tried, a run FAILs; None if never."""
    declared = replace(pair, sampling=kind.law)
    tried = 0
    for most in (GRID[8], GRID[16], MOST):  # a run that is found early needs no more tokens
        requests = decoded(pair, kind, most, seed)
        evidence, done = OutputEvidence(0, False), 0
        for tokens in GRID:
            if tokens > most:
                break
            # Prefixes of whole requests, so that each is scored once.
            while evidence.n < tokens and done < len(requests):
                for scored in rescore(requests[done : done + 1], declared, False, first=done):
                    evidence.add(scored)
                done += 1
            if tokens <= tried:
                continue
            settings = OutputSettings(tokens=evidence.n, detect=0.99)
            tolerance = choose_tolerance(evidence, None, None, None)
            if judge_evidence(evidence, settings, tolerance.ball).findings:
                return evidence.n
        tried = most
    return None


def needed(pair: TransformerPair, kind: Kind, runs: int, first_seed: int) -> int | None:
    """Return after how many tokens a share ``POWER`` of the runs FAILed; None if fewer did."""
    found = [found_after(pair, kind, seed) for seed in range(first_seed, first_seed + runs)]
    ranked = sorted(n if n is not None else math.inf for n in found)
    value = ranked[math.ceil(POWER * runs) - 1]
    return None if math.isinf(value) else int(value)


def law_words(law: Law) -> str:
    """Return what a law asks for."""
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    given = {name: getattr(law, name) for name in names}
    shown = [f"{n.replace('_', '-')} {v:g}" for n, v in given.items() if v is not None]
    return ", ".join(shown)


def main() -> None:
    """Print a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="", help="those whose name has this in it")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--first-seed", type=int, default=100)
    given = parser.parse_args()
    use_threads(1)
    pair = load_pair("tiny-llama", None)
    began = time.process_time()
    rows = ["| fault | asked for | tokens |", "| --- | --- | --- |"]
    for kind in KINDS:
        if given.kinds in kind.name:
            found = needed(pair, kind, given.runs, given.first_seed)
            words = f"more than {MOST:,}" if found is None else f"{found:,}"
            rows.append(f"| {kind.name} | {law_words(kind.law)} | {words} |")
            print(rows[-1], flush=True)
    if given.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text("\n".join([f"{before}{BEGIN}", *rows, f"{END}{after}"]))
    print(f"{time.process_time() - began:.0f} s of processor", file=sys.stderr)


if __name__ == "__main__":
    main()
