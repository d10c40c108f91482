"""Gates of acceptance, side by side: how often each fires on nothing, and misses a drop of 2%.

Every simulated pair of runs is put before all gates: a ratio of means of 2% and of 5%, as engines'
tests have them, and `simverify baseline check`. Half of the blocks accept a draft token with
probability .9, while all before it were accepted, and half with .6. The drop lowers every
Pr(tau >= l) by the same share. The negative control is our test without its share of the
false-alarm rate, at alpha .05 a test.

    python benchmarks/gates.py            # some minutes
    python benchmarks/gates.py --pairs 200
"""

import argparse
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

from simverify.history.baseline import (
    AcceptedTokens,
    blocks_needed,
    detectable_drop,
    mean_pvalue,
    rate_pvalue,
    tokens_from_counts,
)

GAMMA = 8
DROP = 0.02
ALPHA = 1e-6
SIZES = (1_000, 10_000, 100_000, 400_000)
Curve = npt.NDArray[np.float64]


def curve() -> Curve:
    """Pr(tau >= l), l = 1..gamma: half of the blocks accept at .9, half at .6."""
    levels = np.arange(1, GAMMA + 1)
    return (0.9**levels + 0.6**levels) / 2.0


def histograms(
    tail: Curve, blocks: int, pairs: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw histograms of tau, (pairs, gamma + 1)."""
    pmf = -np.diff([1.0, *tail, 0.0])
    return generator.multinomial(blocks, pmf, size=pairs)


def tokens(histogram: npt.NDArray[np.int64]) -> AcceptedTokens:
    """Return what a run file with these blocks gives."""
    blocks = int(histogram.sum())
    return tokens_from_counts(tuple(int(k) for k in blocks - np.cumsum(histogram)[:-1]), blocks)


def within(share: float) -> Callable[[AcceptedTokens, AcceptedTokens], str]:
    """The gate that fails below 1 - ``share`` of the reference."""
    return lambda old, new: "worse" if new.mean < (1.0 - share) * old.mean else "same"


def check_at(
    alpha: float, *, shared: bool = True
) -> Callable[[AcceptedTokens, AcceptedTokens], str]:
    """Our check of E[tau] and every level; ``shared``: by Holm, over all tests."""

    def judge(old: AcceptedTokens, new: AcceptedTokens) -> str:
        pairs = [(old.mean, new.mean, mean_pvalue(old, new))]
        pairs += [
            (a, b, rate_pvalue(a, old.blocks, b, new.blocks))
            for a, b in zip(old.counts, new.counts, strict=True)
        ]
        pairs.sort(key=lambda one: one[2])
        for i, (a, b, p) in enumerate(pairs):
            if p > (alpha / (len(pairs) - i) if shared else alpha):
                break
            if b / new.blocks < a / old.blocks:
                return "worse"
        short = detectable_drop(old, new, alpha / (GAMMA + 1)) > DROP * old.mean
        return "too short" if short else "same"

    return judge


GATES = {
    "within 2%": within(0.02),
    "95% of it": within(0.05),
    "baseline check": check_at(ALPHA),
}


def shares(
    judge: Callable[[AcceptedTokens, AcceptedTokens], str],
    pairs: list[tuple[AcceptedTokens, AcceptedTokens]],
) -> str:
    """Return the share of pairs that are called worse, and too short."""
    said = [judge(old, new) for old, new in pairs]
    worse, short = said.count("worse") / len(said), said.count("too short") / len(said)
    return f"{worse:.1%}" + (f", {short:.0%} too short" if short else "")


def table(pairs: int, seed: int) -> None:
    """Print the gates at every size, on nothing and on the drop."""
    generator = np.random.default_rng(seed)
    tail = curve()
    dropped = (1.0 - DROP) * tail
    print(f"E[tau] {tail.sum():.4f}, gamma {GAMMA}, {pairs} pairs of runs a cell, alpha {ALPHA:g}")
    print(f"{'blocks':>8}  {'what changed':14}" + "".join(f"{name:>26}" for name in GATES))
    for blocks in SIZES:
        old = [tokens(h) for h in histograms(tail, blocks, pairs, generator)]
        for what, law in (("nothing", tail), ("a drop of 2%", dropped)):
            new = [tokens(h) for h in histograms(law, blocks, pairs, generator)]
            both = list(zip(old, new, strict=True))
            cells = "".join(f"{shares(judge, both):>26}" for judge in GATES.values())
            print(f"{blocks:>8,}  {what:14}{cells}")
    like = old[0]
    needed, _ = blocks_needed(like, like, ALPHA / (GAMMA + 1), DROP * like.mean)
    both = [
        (tokens(a), tokens(b))
        for a, b in zip(
            histograms(tail, needed, pairs, generator),
            histograms(dropped, needed, pairs, generator),
            strict=True,
        )
    ]
    found = shares(GATES["baseline check"], both)
    print(
        f"at {needed:,} blocks of both, as the check says: a drop of 2% is called worse in {found}"
    )


def size(many: int, pairs: int, seed: int) -> None:
    """Print how often the test of E[tau], and the whole check, call anything out where nothing is.

    The tails of a test show where it is run at rates that can be counted.
    """
    generator = np.random.default_rng(seed)
    tail, rare = curve(), np.full(GAMMA, 0.01)
    print("the test of E[tau] by itself, nothing changed: rejected, at rates of 1e-3, 1e-4, 1e-5")
    for name, law, n, m in (
        ("1,000 against 1,000 blocks", tail, 1_000, 1_000),
        ("100,000 against 1,000", tail, 100_000, 1_000),
        ("100 in 10,000 blocks keep all, others none", rare, 10_000, 10_000),
        ("the same, 100,000 against 300", rare, 100_000, 300),
        ("the same, 300 against 100,000", rare, 300, 100_000),
    ):
        p = pvalues(histograms(law, n, many, generator), histograms(law, m, many, generator))
        print(f"  {name}: " + ", ".join(f"{(p <= rate).mean():.2g}" for rate in (1e-3, 1e-4, 1e-5)))
    both = [
        (tokens(a), tokens(b))
        for a, b in zip(
            histograms(tail, 1_000, pairs, generator),
            histograms(tail, 1_000, pairs, generator),
            strict=True,
        )
    ]
    for name, judge in (
        ("nine tests that share a rate of .05", check_at(0.05)),
        ("negative control: nine tests at .05 each", check_at(0.05, shared=False)),
    ):
        print(f"{name}: a drop is called out in {shares(judge, both)} of runs")


def pvalues(old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return p-values of many pairs at once, as ``mean_pvalue`` has them one by one."""
    tau = np.arange(GAMMA + 1)
    parts = []
    for histogram in (old, new):
        n = histogram.sum(axis=1)
        padded = histogram.astype(float)
        padded[:, [0, -1]] += 1.0
        middle = padded @ tau / (n + 2)
        variance = (padded @ tau**2 - (n + 2) * middle**2) / (n + 1)
        parts.append((histogram @ tau / n, variance / n, n + 1.0))
    (a, u, f), (b, v, g) = parts
    freedom = (u + v) ** 2 / (u**2 / f + v**2 / g)
    return np.asarray(2.0 * stats.t.sf(np.abs(a - b) / np.sqrt(u + v), freedom))


def main() -> None:
    """Print the tables of the page on baselines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--many", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    table(given.pairs, given.seed)
    size(given.many, given.pairs, given.seed)


if __name__ == "__main__":
    main()
