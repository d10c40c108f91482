"""How often the bets on rounded weights reject the target, and how soon they find few bits.

Contexts are texts of the bundled target, read by it and by itself with its weights on each grid;
the tokens of a run are drawn after them anew, by the law of the engine that is planted. What is
counted is the bets' own test, at its share of alpha. Grids that are bet on, and others: Q4_K where
half of the matrices stay as they are, groups of other sizes, AWQ and GPTQ with bundled prompts.

    python benchmarks/weight_bets.py                # 200 runs of the target, 50 of each grid
    python benchmarks/weight_bets.py --runs 20
    python benchmarks/weight_bets.py --orders       # by how much each moves the orders of a watch
    python benchmarks/weight_bets.py --promises     # how often each is told by the promised tokens
    python benchmarks/weight_bets.py --lives        # watches that bet on weights, for their life
"""

import argparse
import time
from typing import Any

import numpy as np
import torch
from planted_weights import Read, awq, gptq, planted

from simverify import stats
from simverify.arrays import Floats
from simverify.models import rounding as grids
from simverify.models.rounding import WEIGHT_FORMATS, WeightFormat, use_weight_format
from simverify.models.transformer import BUNDLED, TransformerPair, load_pair, read_prompts
from simverify.served.evidence import ExpectedGains, WeightBets
from simverify.served.judge import split_output_alpha
from simverify.served.monitor import PIT_BETS, FormatBets, log_factors

LANES, SHORT, LENGTH = 96, 24, 86
STEP = 4 * LENGTH
"""Tokens between two looks at the test."""

MOST = 60 * STEP
"""Tokens of a life of a watch that are scored with each format."""


def laws(pair: TransformerPair, texts: Any) -> Floats:
    """Rows after each place of the texts but their beginnings, float64 (n, V)."""
    with torch.no_grad():
        logits = pair.target_model(texts).logits[:, SHORT - 1 : -1]
    rows: Floats = logits.double().softmax(dim=-1).reshape(-1, logits.shape[-1]).numpy()
    return rows


def written(pair: TransformerPair, prompts: list[list[int]]) -> Any:
    """Texts that the target goes on with, (LANES, SHORT + LENGTH)."""
    torch.manual_seed(0)
    long = [text for text in prompts if len(text) >= SHORT]
    texts = torch.tensor([long[i % len(long)][-SHORT:] for i in range(LANES)])
    model = pair.target_model
    with torch.no_grad():
        cache = None
        fed = texts
        for _ in range(LENGTH):
            found = model(fed, past_key_values=cache, use_cache=True)
            cache = found.past_key_values
            fed = torch.multinomial(found.logits[:, -1].softmax(dim=-1), 1)
            texts = torch.cat([texts, fed], dim=1)
    return texts


def run(
    law: Floats, p: Floats, ratios: dict[str, Any], seed: int, alphas: tuple[float, ...]
) -> list[int | None]:
    """Tokens after which the test rejects at each of ``alphas``, None where it never does."""
    rng = np.random.default_rng([5, seed])
    order = rng.permutation(LANES)
    number = (order[:, None] * LENGTH + np.arange(LENGTH)).ravel()
    ends = law[number].cumsum(axis=1)
    tokens = (ends < rng.random((len(number), 1)) * ends[:, -1:]).sum(axis=1)
    bets, sums = WeightBets(WEIGHT_FORMATS), None
    found: list[int | None] = [None] * len(alphas)
    for start in range(0, len(number), STEP):
        at = number[start : start + STEP]
        own = tokens[start : start + STEP]
        seen = {
            name: np.stack([table[at, own], low[at], high[at]])
            for name, (table, low, high) in ratios.items()
        }
        more = bets.bet(seen)
        if more is not None:
            sums = more if sums is None else sums + more
        assert sums is not None
        for i, alpha in enumerate(alphas):
            share = split_output_alpha(alpha)["weights"]
            if found[i] is None and stats.bet_test(sums, alpha=share, ball=1e-6).rejected:
                found[i] = start + len(own)
    return found


def life(law: Floats, ratios: dict[str, Any], seed: int, alpha: float, most: int) -> int | None:
    """Tokens that a watch scores with each format until its alarm, None after ``most``."""
    rng, bets, scored = np.random.default_rng([6, seed]), FormatBets(1), 0
    while scored < most:
        at = rng.permutation(len(law))[:STEP]
        ends = law[at].cumsum(axis=1)
        own = (ends < rng.random((STEP, 1)) * ends[:, -1:]).sum(axis=1)
        won = np.concatenate([log_factors(table[at, own]) for table, _, _ in ratios.values()])
        # Half of the stake is on the orders of the tokens, of which nothing is won here.
        over = np.flatnonzero(bets.add(won, 1e-6) >= np.log(2.0 / alpha))
        if len(over):
            return scored + int(over[0]) + 1
        scored += STEP
    return None


def lives(
    pair: TransformerPair, texts: Any, p: Floats, ratios: dict[str, Any],
    engines: dict[str, Any], given: argparse.Namespace,
) -> None:  # fmt: skip
    """Print how many watches raise an alarm, right ones too, and after how many tokens."""
    for alpha in (0.05, 1e-6):
        wrong = sum(life(p, ratios, i, alpha, MOST) is not None for i in range(given.runs))
        print(f"the target, {MOST:,} tokens: {wrong} alarms in {given.runs} lives at {alpha:g}")
    print(f"{'planted':36} alarms at 1e-6, tokens by median and nine tenths", flush=True)
    for name, engine in engines.items():
        with engine:
            law = laws(pair, texts)
        ends = [life(law, ratios, 1000 + i, 1e-6, MOST) for i in range(given.planted)]
        print(f"{name:36} {quantiles(ends)}", flush=True)


def quantiles(ends: list[int | None]) -> str:
    """Return how many there are, and their median and nine tenths."""
    told = sorted(end for end in ends if end is not None)
    at = [int(share * len(ends)) for share in (0.5, 0.9)]
    parts = [f"{told[i]:,}" if i < len(told) else "-" for i in at]
    return f"{len(told)} of {len(ends)}, {', '.join(parts)} tokens"


def promised(p: Floats, law: Floats) -> int | None:
    """Return the tokens that a PASS says it takes to tell a format with power .9."""
    gains = ExpectedGains()
    gains.add(p, law, law / p)
    share = split_output_alpha(1e-6)["weights"]
    return gains.document("", 1, share, 1e-6, bets=2 * len(WEIGHT_FORMATS)).needed


def promises(p: Floats, laws_of: dict[str, Floats], ratios: dict[str, Any], runs: int) -> None:
    """Print how often so many tokens tell a format as are promised to with power .9."""
    share = split_output_alpha(1e-6)["weights"]
    print(f"{'format':36} promised  told")
    for name, law in laws_of.items():
        n = promised(p, law)
        if n is None:
            continue
        told = 0
        for seed in range(runs):
            rng = np.random.default_rng([9, seed])
            order = rng.permutation(LANES)
            at = (order[:, None] * LENGTH + np.arange(LENGTH)).ravel()[:n]
            ends = law[at].cumsum(axis=1)
            own = (ends < rng.random((len(at), 1)) * ends[:, -1:]).sum(axis=1)
            seen = {x: np.stack([t[at, own], low[at], high[at]])
                    for x, (t, low, high) in ratios.items()}  # fmt: skip
            sums = WeightBets(WEIGHT_FORMATS).bet(seen)
            assert sums is not None
            told += stats.bet_test(sums, alpha=share, ball=1e-6).rejected
        print(f"{name:36} {n:8,}  {told} of {runs}", flush=True)


def moves(pair: TransformerPair, texts: Any, p: Floats, engines: dict[str, Any]) -> None:
    """Print by how much each engine moves the CDF of an order, and the delay of a watch for it."""
    each = np.arange(len(p))[:, None]
    cuts = np.array([0.0625, 0.125, 0.25, 0.5, 0.75, 0.875, 0.9375])
    print(f"{'planted':36}    TV  token  descending P  a watch tells within")
    for name, engine in engines.items():
        with engine:
            law = laws(pair, texts)
        off = float(np.abs(law - p).sum(axis=1).mean()) / 2.0
        far = []
        for key in (np.tile(np.arange(p.shape[1]), (len(p), 1)), np.argsort(-p, kind="stable")):
            ends, own = p[each, key].cumsum(axis=1), law[each, key].cumsum(axis=1)
            at = np.stack([(ends < cut).sum(axis=1) for cut in cuts], axis=1).clip(
                max=key.shape[1] - 1
            )
            last = key[each, at]
            share = (cuts - (ends[each, at] - p[each, last])) / p[each, last]
            cdf = own[each, at] - law[each, last] * (1.0 - share)
            far.append(float(np.abs(cdf.mean(axis=0) - cuts).max()))
        delay = stats.lasting_delay(max(far), PIT_BETS, alpha=1e-6, groups=2, after=0, power=0.9)
        print(f"{name:36} {off:.3f}  {far[0]:.4f}  {far[1]:12.4f}  {delay:,.0f} tokens", flush=True)


def main() -> None:
    """Read, draw, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="of the target")
    parser.add_argument("--planted", type=int, default=50, help="of each grid")
    parser.add_argument("--orders", action="store_true", help="what a watch sees of each instead")
    parser.add_argument("--promises", action="store_true", help="what a PASS says it would tell")
    parser.add_argument("--lives", action="store_true", help="watches that bet on weights")
    given = parser.parse_args()
    began = time.process_time()
    torch.set_num_threads(1)
    pair = load_pair("tiny-llama", "tiny-llama")
    prompts = [pair.encode(text) for text in read_prompts(BUNDLED / "prompts.jsonl")]
    texts = written(pair, prompts)
    p = laws(pair, texts)
    engines: dict[str, Any] = {}
    for name, rounding in WEIGHT_FORMATS.items():
        engines[name] = use_weight_format(pair.target_model, rounding)
    for name, rule in {
        "Q4_K of all": grids.q4_k, "Q4_1 of all": grids.q4_1,
    }.items():  # fmt: skip
        engines[name] = use_weight_format(pair.target_model, WeightFormat(rule, whole=True))
    for name, rule in {
        "groups of 32, fitted": grids.fitted_groups(32),
        "groups of 128, fitted": grids.fitted_groups(128),
        "groups of 32, symmetric": grids.symmetric_groups(32),
        "MLX, groups of 32": grids.mlx(32),
    }.items():
        engines[name] = use_weight_format(pair.target_model, WeightFormat(rule))
    read = Read(pair, prompts[::3])
    engines["Q4_K of every other matrix"] = planted(
        pair, lambda i, m: grids.q4_k(m.weight.data) if i % 2 else m.weight.data
    )
    engines["AWQ, groups of 128"] = planted(pair, lambda _, m: awq(read, m))
    engines["GPTQ, groups of 128"] = planted(pair, lambda _, m: gptq(read, m))
    if given.orders:
        moves(pair, texts, p, engines)
        return
    ratios: dict[str, Any] = {}
    laws_of: dict[str, Floats] = {}
    for name, rounding in WEIGHT_FORMATS.items():
        with use_weight_format(pair.target_model, rounding):
            laws_of[name] = laws(pair, texts)
        table = laws_of[name] / p
        ratios[name] = table, table.min(axis=1), table.max(axis=1)
    if given.promises:
        promises(p, laws_of, ratios, given.runs)
        return
    if given.lives:
        lives(pair, texts, p, ratios, engines, given)
        return
    alphas = (0.999, 1e-6)
    share = split_output_alpha(alphas[0])["weights"]
    wrong = sum(run(p, p, ratios, i, alphas)[0] is not None for i in range(given.runs))
    print(
        f"the target, {len(p):,} tokens: {wrong} of {given.runs} rejected at a share of {share:.3f}"
    )
    print(f"{'planted':36}    TV  promised  found at alpha 1e-6, by median and nine tenths")
    for name, engine in engines.items():
        with engine:
            law = laws(pair, texts)
        off = float(np.abs(law - p).sum(axis=1).mean()) / 2.0
        ends = [run(law, p, ratios, 1000 + i, alphas)[1] for i in range(given.planted)]
        due = promised(p, law) if name in WEIGHT_FORMATS else None  # of what is bet on
        words = "" if due is None else f"{due:,}"
        print(f"{name:36} {off:.3f}  {words:8}  {quantiles(ends)}", flush=True)
    print(f"{time.process_time() - began:.0f} s of processor")


if __name__ == "__main__":
    main()
