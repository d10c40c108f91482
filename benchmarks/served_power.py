"""How many emitted tokens find each kind of fault of a served engine, with power .9.

Engines decode with the bundled target in answers of 32 tokens, by rows that have one fault planted.
An audit judges their first tokens at the default false-alarm rate, at numbers that grow by a fifth:
the figure is the one at which nine tenths of the runs FAIL. Bets on rounded weights are left out,
which are not what these kinds are found by. Of penalties that count no draft of their block the
figure is the one at which nine tenths of the matrices name them, in answers of 8 tokens, at numbers
that grow by two fifths. The row "none" has no fault.

    python benchmarks/served_power.py --runs 10 --write  # the page served-power.md
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

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.counting_engine import counted_answers, first_drafts
from support.emitted_tokens import PROMPTS
from support.processed_engine import answers, everywhere
from support.sampled_engine import sampled_answers

from simverify.models.distribution import STAGES, Law
from simverify.models.transformer import TransformerPair, load_pair, use_threads
from simverify.served import OutputSettings
from simverify.served.counters import CountedTokens, Counters, judge_counters
from simverify.served.evidence import OutputEvidence, ReportedSums, after_rejection
from simverify.served.judge import choose_tolerance, judge_evidence
from simverify.served.matrix import Cell, judge_cell, make_cells, make_pilot
from simverify.served.requests import Request
from simverify.served.rescore import rescore
from simverify.served.variants import LOG_VARIANTS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "served-power.md"
TABLES = ("faults", "logprobs")

LENGTH, MOST, POWER = 32, 8_192, 0.9
GRID = [int(64 * 2 ** (k / 4)) for k in range(29)]
"""Numbers of tokens that are tried, to ``MOST``."""

Rows = Callable[[Any, Sequence[int], Sequence[int], int], Any]
"""Rows (n, V) of logits (n, V), as ``Law.after`` takes and gives them."""

Measure = Callable[[int, int], int | None]
"""What gives the number of tokens for a number of runs and the first seed."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the ``law`` that is asked for, and the ``rows`` that are sampled.

    ``answers``: what becomes of the answers. ``asked``: what is asked for where it is not ``law``.
    """

    name: str
    law: Law
    rows: Rows | None = None
    answers: Callable[[list[Request]], list[Request]] | None = None
    asked: str = ""


def sampled(words: str, law: Law) -> Kind:
    """An engine that samples in the way that a variant names."""
    variant = next(one for one in LOG_VARIANTS if one.words == words)

    return Kind(words, law, partial(variant.rows, law))


def copied(answers: list[Request]) -> list[Request]:
    """One seed for all requests: a few prompts, of which each gets the same answer again."""
    first = answers[:8]
    return [first[i % len(first)] for i in range(len(answers))]


def mixed(answers: list[Request]) -> list[Request]:
    """Every tenth request asks for a temperature that its answer ignores."""
    asked = Law(0.6)
    return [replace(x, law=None if i % 10 else asked) for i, x in enumerate(answers)]


def slots_after(prompt: Sequence[int]) -> tuple[int, ...]:
    """Return the place of each token in its draft of 3; each draft is kept with probability .7."""
    rng, slots, place = np.random.Generator(np.random.Philox(key=sum(prompt))), [-1], 0
    while len(slots) < LENGTH:
        slots.append(place)
        place = place + 1 if place < 3 and rng.random() < 0.7 else 0
    return tuple(slots)


def with_slots(answers: list[Request]) -> list[Request]:
    """The answers of an engine that logs each token's place in its draft."""
    return [replace(x, slots=slots_after(x.prompt)[: len(x.tokens)]) for x in answers]


def stale_rows(law: Law, logits: Any, prompt: Sequence[int], own: Sequence[int], first: int) -> Any:
    """Return the row a token behind where a draft of the answer was rejected before."""
    rows = law.after(logits, prompt, own, first)
    after = after_rejection(Request(tuple(prompt), (0,) * LENGTH, slots=slots_after(prompt)))
    return rows[:1] if after[len(own)] else rows


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
    sampled("tokens looked up in a bfloat16 running sum", Law()),
    sampled("tokens looked up in a float16 running sum", Law()),
    sampled("penalties after temperature", Law(0.5, repetition_penalty=1.3)),
    Kind("one seed for all requests: copies of answers", Law(1.0), answers=copied),
    Kind(
        "temperature ignored by one request in ten",
        Law(1.0),
        answers=mixed,
        asked="temperature 0.6 by those, 1 by the others",
    ),
    Kind(
        "rows of the token before, from the first rejected draft on",
        Law(1.0),
        rows=partial(stale_rows, Law(1.0)),
        answers=with_slots,
    ),
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
    return at_power([n if n is not None else math.inf for n in found])


def at_power(found: list[float]) -> int | None:
    """Return the number at which a share ``POWER`` of the runs were found; None if fewer were."""
    value = sorted(found)[math.ceil(POWER * len(found)) - 1]
    return None if math.isinf(value) else int(value)


def penalty_cell(pair: TransformerPair) -> Cell:
    """The question of a matrix that shows penalties which count no draft of their own block."""
    cells = make_cells(make_pilot(PROMPTS, pair), STAGES, (3,), drafted=True)
    return next(cell for cell in cells if cell.name == "presence-penalty")


def needed_by_matrix(pair: TransformerPair, cell: Cell, runs: int, first_seed: int) -> int | None:
    """Return after how many tokens a share ``POWER`` of the matrices name the fault of a cell."""
    prompts = [tuple(pair.encode(text)) for text in cell.prompts]
    named: list[float] = []
    for seed in range(first_seed, first_seed + runs):
        asked = [prompts[i % len(prompts)] for i in range(256)]
        law = everywhere(cell.law)
        found = answers(
            pair, asked, law, length=cell.max_tokens, seed=seed, start=cell.law, blind=True
        )
        named.append(math.inf)
        for count in (8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256):
            judged = judge_cell(cell, found[:count], pair, True, 1e-6, 1e-6, 0)
            if judged.words == "counts no draft of its own block":
                named[-1] = sum(len(request.tokens) for request in found[:count])
                break
    return at_power(named)


def needed_by_counters(pair: TransformerPair, runs: int, first_seed: int) -> int | None:
    """Return after how many tokens a share ``POWER`` of the counters are above the optimum.

    The engine keeps every draft.
    """
    found: list[float] = []
    for seed in range(first_seed, first_seed + runs):
        found.append(math.inf)
        drafts, kept, chances = 0.0, np.zeros(3), []
        for count in range(1, 129):
            lines, counted = counted_answers(
                pair, 3, 1, keep=lambda _: 1.0, length=LENGTH, seed=1000 * seed + count, first=count
            )
            drafts, kept = drafts + counted.drafts, kept + counted.per_position
            chances += first_drafts(pair, lines)
            if count not in (4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128):
                continue
            n = count * LENGTH
            counters = Counters(drafts, 3 * drafts, kept.sum(), tuple(kept.tolist()), n)
            if judge_counters(counters, CountedTokens(n, count, 0, chances, 1e-6)).findings:
                found[-1] = n
                break
    return at_power(found)


LOGPROBS_LAW = Law(0.8, 20, 0.9)
LOGPROB_KINDS = (
    "processed",
    "raw",
    "by temperature alone",
    "after top-k",
    "after top-p",
    "after top-k at temperature 1",
    "draft",
    "row before",
    "row after",
    "token before",
)


def needed_to_name(pair: TransformerPair, kind: str, runs: int, first_seed: int) -> int | None:
    """Return from how many tokens on a share ``POWER`` of the logs have their kind named."""
    declared, most = replace(pair, sampling=LOGPROBS_LAW), 256
    found: list[float] = []
    for seed in range(first_seed, first_seed + runs):
        answers = sampled_answers(pair, LOGPROBS_LAW.after, most, length=LENGTH, seed=seed)
        asked = [replace(x, logprobs=(0.0,) * len(x.tokens)) for x in answers]
        scored = list(rescore(asked, declared, True))
        ours = {k: np.concatenate([x.stated[k] for x in scored]) for k in scored[0].stated}
        again = {
            k: np.concatenate([x.stated_again[k] for x in scored]) for k in ours if k != "draft"
        }
        needed = 0
        for n in range(1, most + 1):
            sums = ReportedSums(
                [ours[kind][:n].round(2)],
                [{k: x[:n] for k, x in ours.items()}],
                [{k: x[:n] for k, x in again.items()}],
            )
            named = sums.identify(1e-6)
            if named is None or named.kind != kind:
                needed = n
        found.append(math.inf if needed == most else needed + 1)
    return at_power(found)


def law_words(law: Law) -> str:
    """Return what a law asks for."""
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    given = {name: getattr(law, name) for name in names}
    shown = [f"{n.replace('_', '-')} {v:g}" for n, v in given.items() if v is not None]
    return ", ".join(shown)


def rows_of_faults(pair: TransformerPair) -> "list[tuple[str, int, Measure]]":
    """Return the cells of each fault, the most tokens that are tried, and what measures it."""
    rows: list[tuple[str, int, Measure]] = [
        (f"{kind.name} | {kind.asked or law_words(kind.law)}", MOST, partial(needed, pair, kind))
        for kind in KINDS
    ]
    drafted = load_pair("tiny-llama", "tiny-llama")
    cell = penalty_cell(drafted)
    rows[-1:-1] = [
        (
            f"penalties that count no draft of their own block, in `matrix` | {cell.value}",
            256 * (cell.max_tokens or LENGTH),
            partial(needed_by_matrix, drafted, cell),
        ),
        (
            "every draft kept, by `--counters` | temperature 1",
            128 * LENGTH,
            partial(needed_by_counters, drafted),
        ),
    ]
    return rows


def rows_of_logprobs() -> "list[tuple[str, int, Measure]]":
    """Return the cell of each kind, the most tokens that are tried, and what measures it."""
    drafted = load_pair("tiny-llama", "tiny-llama")
    return [(kind, 256, partial(needed_to_name, drafted, kind)) for kind in LOGPROB_KINDS]


def main() -> None:
    """Print the tables' rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="", help="those whose name has this in it")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--table", choices=TABLES, help="this one alone")
    given = parser.parse_args()
    use_threads(1)
    pair = load_pair("tiny-llama", None)
    began = time.process_time()
    for table in [given.table] if given.table else TABLES:
        faults = table == "faults"
        head = "| fault | asked for | tokens |" if faults else "| log probabilities | tokens |"
        written = [head, "| --- " * (head.count("|") - 1) + "|"]
        for cells, most, measure in rows_of_faults(pair) if faults else rows_of_logprobs():
            if given.kinds in cells:
                found = measure(given.runs, given.first_seed)
                words = f"more than {most:,}" if found is None else f"{found:,}"
                written.append(f"| {cells} | {words} |")
                print(written[-1], flush=True)
        if given.write:
            begin, end = (f"<!-- served_power.py {table}: {at} -->" for at in ("begin", "end"))
            before, _, rest = PAGE.read_text().partition(begin)
            _, _, after = rest.partition(end)
            PAGE.write_text("\n".join([f"{before}{begin}", *written, f"{end}{after}"]))
    print(f"{time.process_time() - began:.0f} s of processor", file=sys.stderr)


if __name__ == "__main__":
    main()
