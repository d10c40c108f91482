"""What other projects' tests of their own samplers decide, in our words and code.

Each is ``rule(view, n, rng) -> rejected``: n calls of the sampler, seen as that project sees
them. All of them use the same rows at every position. Where a source names no sample size or
level, ``README.md`` says what was taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
from calls import CallLaw
from scipy import special, stats

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class View(Protocol):
    """Calls that all have the same rows; ``target``: float64 (V,)."""

    target: Floats

    def positions(self, calls: int, rng: np.random.Generator) -> list[Ints]:
        """Token counts (V,) at each position, of the calls that got there."""


class CallView:
    """Whole calls at small V."""

    def __init__(self, law: CallLaw, target: Floats) -> None:
        self.law, self.target = law, target

    def positions(self, calls: int, rng: np.random.Generator) -> list[Ints]:
        drawn, vocab = self.law.sample(calls, rng), len(self.target)
        found = []
        for cells in self.law.cells.T:
            there = cells >= 0
            counts = np.bincount(cells[there] % vocab, drawn[there], vocab)
            found.append(counts.astype(np.int64))
        return found


class SlotView:
    """The first slot alone, at large V."""

    def __init__(self, emitted: Floats, target: Floats) -> None:
        self.emitted, self.target = emitted, target

    def positions(self, calls: int, rng: np.random.Generator) -> list[Ints]:
        return [rng.multinomial(calls, self.emitted)]


def relative_distance(view: View, n: int, rng: np.random.Generator) -> bool:
    """vLLM, V1: from 10 calls to n the distance from p must shrink.

    The Euclidean distance of the tokens' frequencies from p, at 10 calls over that at n, must
    be more than 20 times the same ratio for the distance from 100 random laws.
    """
    others = _random_laws(len(view.target))
    near, far = [], []
    for size in (10, n):
        # The bonus is not looked at; in a single slot there is none.
        counts = view.positions(size, rng)
        judged = np.sum(counts[:-1] if len(counts) > 1 else counts, axis=0)
        frequency = judged / judged.sum()
        near.append(float(np.linalg.norm(frequency - view.target)))
        far.append(float(np.linalg.norm(others - frequency)))
    return not near[0] / near[1] > 20.0 * far[0] / far[1]


@cache
def _random_laws(vocab: int) -> Floats:
    rows = np.random.default_rng(vocab).random((100, vocab))
    laws: Floats = special.softmax(rows, axis=1)
    return laws


def chi2_ten_sigma(view: View, n: int, rng: np.random.Generator) -> bool:
    """vLLM, V2 runner: chi2 at each position below df + 10 sqrt(2 df).

    Tokens that expect fewer than 5 are one cell, left out if it expects fewer than 5 itself.
    """
    for counts in view.positions(n, rng):
        expected = view.target * counts.sum()
        observed, due = _pooled(counts, expected)
        df = len(due) - 1
        if df < 1:
            continue
        if ((observed - due) ** 2 / due).sum() >= df + 10.0 * np.sqrt(2.0 * df):
            return True
    return False


def divergence_difference(view: View, n: int, rng: np.random.Generator) -> bool:
    """TensorRT-LLM: KL(p || frequencies) within .01 of that of a plain sample from p."""
    speculative = view.positions(n, rng)[0] / n
    plain = rng.multinomial(n, view.target) / n
    p = view.target
    both = [float(special.rel_entr(p, frequency).sum()) for frequency in (speculative, plain)]
    # Infinite if a token of p did not come; the difference of two is no number, and fails.
    return not (np.isfinite(both).all() and abs(both[0] - both[1]) < 0.01)


def ordering(view: View, n: int, rng: np.random.Generator) -> bool:
    """Transformers: the three likeliest tokens come, and in the order of their p."""
    counts = view.positions(n, rng)[0]
    first, second, third = counts[np.argsort(-view.target)[:3]]
    return not first > second > third > 0


def five_sigma(view: View, n: int, rng: np.random.Generator) -> bool:
    """SGLang: the first token's counts within 5 standard deviations, token by token."""
    counts, p = view.positions(n, rng)[0], view.target
    seen = n * p >= 5.0  # below, five deviations of a normal law mean nothing
    return bool((np.abs(counts - n * p) > 5.0 * np.sqrt(n * p * (1.0 - p)))[seen].any())


def plain_chi2(view: View, n: int, rng: np.random.Generator) -> bool:
    """DeepSpec: chi2 of the first token, at 1 in 1,000."""
    counts = view.positions(n, rng)[0]
    observed, due = _pooled(counts, view.target * n)
    if len(due) < 2:
        return False
    # What was left out must be missing on both sides for scipy's test.
    due *= observed.sum() / due.sum()
    return bool(stats.chisquare(observed, due).pvalue < 1e-3)


def _pooled(counts: Ints, expected: Floats) -> tuple[Floats, Floats]:
    main = expected >= 5.0
    observed, due = counts[main].astype(np.float64), expected[main]
    if (rest := float(expected[~main].sum())) >= 5.0:
        observed = np.append(observed, counts[~main].sum())
        due = np.append(due, rest)
    return observed, due


@dataclass(frozen=True)
class Peer:
    """A project's rule; ``own`` is the number of calls it makes at a vocabulary size."""

    name: str
    rule: Callable[[View, int, np.random.Generator], bool]
    own: Callable[[int], int]


PEERS = (
    Peer("vLLM V1", relative_distance, lambda vocab: 100_000),
    Peer("vLLM V2", chi2_ten_sigma, lambda vocab: 200_000 if vocab <= 16 else 10 * vocab),
    Peer("TensorRT-LLM", divergence_difference, lambda vocab: 50_000),
    Peer("Transformers", ordering, lambda vocab: 10_000),
    Peer("SGLang", five_sigma, lambda vocab: 20_000),
    Peer("DeepSpec", plain_chi2, lambda vocab: 20_000),
)


def shares(
    view: View, calls: int, runs: int, rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Share of runs in which each peer rejects, at its own number of calls and at ``calls``."""
    vocab = len(view.target)

    def share(peer: Peer, n: int) -> float:
        return float(np.mean([peer.rule(view, n, rng) for _ in range(runs)]))

    # vLLM's first compares n calls with 10.
    ours = max(calls, 11)
    return {peer.name: (share(peer, peer.own(vocab)), share(peer, ours)) for peer in PEERS}
