"""How many emitted tokens find each kind of fault of a served engine, with power .9.

Engines decode with the bundled target, by rows that have one fault planted, and are audited by
their tokens at the default false-alarm rate. For each kind the number of tokens is doubled until
nine tenths of the runs FAIL. A right engine beside each kind never does.

    python benchmarks/served_power.py                        # the table, in Markdown
    python benchmarks/served_power.py --kinds 'top-k' --runs 10
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.sampled_engine import sampled_answers

import simverify.served.run
from simverify.models.distribution import Law
from simverify.models.transformer import TransformerPair, load_pair, use_threads
from simverify.served import OutputSettings, RequestSource, audit_outputs
from simverify.served.requests import Request
from simverify.served.variants import VARIANTS

LENGTH, SMALLEST, LARGEST, POWER = 32, 32, 16_384, 0.9
HERE = RequestSource("simulated", "python benchmarks/served_power.py")

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
)


def decoded(pair: TransformerPair, kind: Kind, tokens: int, seed: int) -> list[Request]:
    """Return answers of an engine with a kind of fault, of ``tokens`` tokens or more."""
    found = sampled_answers(pair, kind.rows or kind.law.after, tokens, length=LENGTH, seed=seed)
    return found if kind.answers is None else kind.answers(found)


def fails(pair: TransformerPair, kind: Kind, tokens: int, seed: int) -> bool:
    """Whether a run of so many tokens of a kind FAILs."""
    found = decoded(pair, kind, tokens, seed)
    settings = OutputSettings(tokens=tokens, detect=0.99)
    run = audit_outputs(tuple(found), replace(pair, sampling=kind.law), HERE, settings)
    return run.verdict == "FAIL"


def needed(pair: TransformerPair, kind: Kind, runs: int, first_seed: int) -> int | None:
    """Return the least power of two of tokens at which so many runs FAIL; None beyond the last."""
    tokens = SMALLEST
    while tokens <= LARGEST:
        allowed = int((1.0 - POWER) * runs)
        missed = 0
        for seed in range(first_seed, first_seed + runs):
            missed += not fails(pair, kind, tokens, seed)
            if missed > allowed:
                break
        else:
            return tokens
        tokens *= 2
    return None


def main() -> None:
    """Print a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="", help="those whose name has this in it")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=100)
    given = parser.parse_args()
    use_threads(1)
    # Bets on rounded weights are not what these kinds are found by, and cost most of an audit.
    simverify.served.run.WEIGHT_FORMATS = {}
    pair = load_pair("tiny-llama", None)
    began = time.process_time()
    print("| kind | asked for | tokens for power .9 |\n| --- | --- | --- |")
    for kind in KINDS:
        if given.kinds in kind.name:
            found = needed(pair, kind, given.runs, given.first_seed)
            words = f"more than {LARGEST:,}" if found is None else f"{found:,}"
            print(f"| {kind.name} | {kind.law} | {words} |", flush=True)
    print(f"{time.process_time() - began:.0f} s of processor", file=sys.stderr)


if __name__ == "__main__":
    main()
