"""What the matrix says of engines with a planted fault: every cell, right and three times wrong.

The engines decode with the bundled pair, gamma 3, as many tokens as a cell is asked for by
default, in answers of 64. They are judged as the command does it: without a draft, at several draft
lengths.

    python benchmarks/matrix_cells.py                      # about half an hour on one core
    python benchmarks/matrix_cells.py --cells top-k,top-p --tokens 512
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.processed_engine import answers, everywhere, on_rows

from simverify.models.distribution import STAGES, Law
from simverify.models.transformer import BUNDLED, load_pair, read_prompts, use_threads
from simverify.served.matrix import (
    DEFAULT_GAMMAS,
    Cell,
    MatrixSettings,
    judge_cell,
    make_cells,
    make_pilot,
)
from simverify.served.requests import limit_tokens

GAMMA, LENGTH, CELLS = 3, 64, 18
ENGINES = ("right", "dropped", "first row only", "last row only")
PENALTIES = ("repetition-penalty", "presence-penalty", "frequency-penalty")
BLIND = "no draft of its block"


def plain(cell: Cell) -> Law:
    """Return the law without what a cell asks for."""
    law = cell.law
    for name in cell.name.replace("-", "_").split(" before "):
        law = replace(law, **{name: getattr(Law(), name)})
    return law


def main() -> None:
    """Decode, judge, print and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", help="comma-separated; all if not given")
    parser.add_argument("--tokens", type=int, default=MatrixSettings.tokens)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    use_threads(1)
    began = time.process_time()
    pair, prompts = load_pair("tiny-llama", None), read_prompts(BUNDLED / "prompts.jsonl")
    drafting = load_pair("tiny-llama", "tiny-llama")
    ids = [tuple(pair.encode(text)) for text in prompts]
    counts: Counter[tuple[str, str]] = Counter()
    for cell in make_cells(make_pilot(prompts, pair), STAGES, DEFAULT_GAMMAS, False):
        if given.cells is not None and cell.name not in given.cells.split(","):
            continue
        raw, length = plain(cell), min(LENGTH, cell.max_tokens or LENGTH)
        own_ids = [tuple(pair.encode(x)) for x in cell.prompts] if cell.prompts else ids
        lanes = [own_ids[i % len(own_ids)] for i in range(-(-2 * given.tokens // length))]
        laws = {
            "right": (everywhere(cell.law), cell.law),
            "dropped": (everywhere(raw), raw),
            "first row only": (on_rows(cell.law, raw, GAMMA, {0}), cell.law),
            "last row only": (on_rows(cell.law, raw, GAMMA, {GAMMA}), cell.law),
        }
        for name in (*ENGINES, BLIND) if cell.name in PENALTIES else ENGINES:
            own, start = laws["right" if name == BLIND else name]
            how = {"gamma": GAMMA, "length": length, "seed": given.seed, "blind": name == BLIND}
            found = answers(drafting, lanes, own, start=start, **how)
            found = limit_tokens(found, given.tokens)  # twice as many, as answers may end early
            tokens = sum(len(request.tokens) for request in found)
            judged = judge_cell(
                cell, found, pair, False, MatrixSettings.alpha / CELLS, 1e-6, given.seed
            )
            kind = "right" if name == "right" else "wrong"
            counts[kind, judged.outcome] += 1
            print(f"{cell.name}, {name}: {judged.outcome} ({judged.words}), {tokens:,} tokens",
                  flush=True)  # fmt: skip
    for (kind, outcome), n in sorted(counts.items()):
        print(f"{kind}: {n} {outcome}")
    print(f"{time.process_time() - began:.0f} s of processor")


if __name__ == "__main__":
    main()
