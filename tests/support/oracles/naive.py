"""The compiled core again in plain Python: an oracle for whole generations.

Written from the sources: the rules from Sun et al. 2025 on explicit rows, Philox from Salmon
et al. 2011, the address of every draw from ``kernels.generation``. Shares no code with the
package; numbers may be floats or Fractions.

Draws. A draft token is drawn from the alias table by one uniform: its integer part picks the
column, its fraction is compared with the column's cut. Every other token is drawn by inverse
CDF over the tokens in ascending q/p of the context's rows, ties by id, p = 0 last.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

Row = list[Any]

DRAFT, ACCEPT, CORRECTION, CONTEXT, PIT = range(5)


def philox(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """Philox 4x32-10: four 32-bit words from four words of counter and two of key."""
    mask = 2**32 - 1
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & mask, (a >> 32) ^ c3 ^ k1, a & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0, c1, c2, c3


@lru_cache(maxsize=1 << 18)
def uniform(seed: int, trial: int, stream: int, n: int) -> float:
    """Draw n of a stream: 53 bits of word pair n mod 2 of call n div 2, in [0, 1)."""
    mask = 2**32 - 1
    words = philox((trial & mask, trial >> 32, stream, n // 2), (seed & mask, seed >> 32))
    low, high = words[2 * (n % 2) : 2 * (n % 2) + 2]
    return ((high << 32 | low) >> 11) / 2**53


@dataclass
class Pair:
    """Rows of a Markov pair: ``p[s]``, ``q[s]`` after a token with token mod S = s; start last."""

    p: list[Row]
    q: list[Row]
    cut: list[list[float]] = field(default_factory=list)
    alias: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, source: Any, tables: Any = None) -> "Pair":
        """Rows of a model, or of its ``rational``; alias tables where there are any."""
        p = [list(row) for row in (*source.target_rows, source.target_start)]
        q = [list(row) for row in (*source.draft_rows, source.draft_start)]
        if tables is None:
            return cls(p, q)
        return cls(p, q, tables.alias_cut.tolist(), tables.alias_token.tolist())

    @property
    def vocab_size(self) -> int:
        return len(self.p[0])

    def context(self, prefix: tuple[int, ...]) -> int:
        """Index of the rows after ``prefix``."""
        return prefix[-1] % (len(self.p) - 1) if prefix else len(self.p) - 1


def excess(p: Row, q: Row) -> Row:
    return [max(a - b, 0) for a, b in zip(p, q, strict=True)]


def scaled(weight: Any, row: Row) -> Row:
    return [weight * x for x in row]


def ratio_order(p: Row, q: Row) -> list[int]:
    """Tokens in ascending q/p, ties by id, those with p = 0 last."""
    return sorted(range(len(p)), key=lambda x: (q[x] / p[x] if p[x] > 0 else math.inf, x))


def draw_alias(cut: list[float], alias: list[int], u: float) -> int:
    place = u * len(cut)
    column = int(place)
    return column if place - column < cut[column] else alias[column]


def draw_inverse(weights: Row, order: list[int], u: float) -> int:
    """First token in ``order`` at which the running sum of ``weights`` exceeds u times all."""
    goal = u * math.fsum(weights)
    total, token = 0.0, -1
    for x in order:
        if weights[x] > 0:
            total, token = total + weights[x], x
            if total > goal:
                break
    return token


# Rules. Rows p (gamma+1) and q (gamma) along the drafted tokens x, uniforms u (gamma).
# Each returns tau and the weights of the last token's law, all zero where the law is p's.


def token_rule(p: list[Row], q: list[Row], x: list[int], u: list[float]) -> tuple[int, Row]:
    """Algorithm 1."""
    for i, token in enumerate(x):
        if u[i] >= min(1, p[i][token] / q[i][token]):
            return i, excess(p[i], q[i])
    return len(x), p[-1]


def block_rule(p: list[Row], q: list[Row], x: list[int], u: list[float]) -> tuple[int, Row]:
    """Algorithm 2."""
    kept: Row = [1]
    for i, token in enumerate(x):
        kept.append(min(1, kept[i] * p[i][token] / q[i][token]))
    thresholds: Row = []
    for i in range(1, len(x)):
        above = sum(excess(scaled(kept[i], p[i]), q[i]))
        thresholds.append(above / (above + 1 - kept[i]) if above + 1 - kept[i] > 0 else 1)
    thresholds.append(kept[-1])
    return _last_below(u, thresholds, kept, p, q)


def greedy_rule(m: list[Row], q: list[Row], x: list[int], u: list[float]) -> tuple[int, Row]:
    """Algorithm 4 against the target ``m``, which earlier calls may have modified."""
    joint: Row = [1]
    for i, token in enumerate(x):
        joint.append(joint[i] * m[i][token] / q[i][token])
    thresholds: Row = []
    for i in range(1, len(x)):
        above = sum(excess(scaled(joint[i], m[i]), q[i]))
        below = sum(excess(q[i], scaled(joint[i], m[i])))
        thresholds.append(min(1, above / below) if below > 0 else 1)
    thresholds.append(min(1, joint[-1]))
    return _last_below(u, thresholds, joint, m, q)


def _last_below(
    u: list[float], thresholds: list[float], weights: list[float], p: list[Row], q: list[Row]
) -> tuple[int, Row]:
    passed = [i + 1 for i, (coin, h) in enumerate(zip(u, thresholds, strict=True)) if coin < h]
    tau = max(passed, default=0)
    if tau == len(thresholds):
        return tau, p[tau]
    return tau, excess(scaled(weights[tau], p[tau]), q[tau])


class Debts:
    """Greedy block's modified targets, from their definition: joints since each call's start.

    After the first k calls that left a debt the target on a prefix is M_k, proportional to
    max(R M_(k-1) - Ms, 0) up to position start_k + gamma, where R is the ratio of the joints
    M_(k-1) / Ms of the tokens from start_k to the prefix's end. No state is updated here.
    """

    def __init__(self, pair: Pair, gamma: int) -> None:
        self.pair, self.gamma = pair, gamma
        self.starts: list[int] = []
        self._known: dict[tuple[int, tuple[int, ...]], Row] = {}

    def call_ended(self, start: int, tau: int) -> None:
        if tau <= self.gamma - 2:
            self.starts.append(start)

    def target(self, prefix: tuple[int, ...]) -> Row:
        return self.law(len(self.starts), prefix)

    def law(self, k: int, prefix: tuple[int, ...]) -> Row:
        if k == 0:
            return self.pair.p[self.pair.context(prefix)]
        if (k, prefix) not in self._known:
            self._known[k, prefix] = self._law(k, prefix)
        return self._known[k, prefix]

    def _law(self, k: int, prefix: tuple[int, ...]) -> Row:
        below, start = self.law(k - 1, prefix), self.starts[k - 1]
        if len(prefix) >= start + self.gamma:
            return below
        joints: Any = 1
        for n in range(start, len(prefix)):
            q = self.pair.q[self.pair.context(prefix[:n])]
            if q[prefix[n]] == 0:
                return below
            joints = joints * self.law(k - 1, prefix[:n])[prefix[n]] / q[prefix[n]]
        row = excess(scaled(joints, below), self.pair.q[self.pair.context(prefix)])
        total = sum(row)
        return [x / total for x in row] if total > 0 else row


@dataclass
class Generation:
    """``lengths``: tokens out after each call. ``tokens``: all of them, in order."""

    first_tau: int
    lengths: list[int]
    tokens: tuple[int, ...]


RULES = {"token": token_rule, "block": block_rule, "greedy": greedy_rule}


def generate(
    pair: Pair,
    rule: str,
    gamma: int,
    *,
    seed: int,
    trial: int,
    calls: int = 1,
    eos: int | None = None,
    positions: int = 0,
    debts: type[Debts] = Debts,
) -> Generation:
    """Run one generation; it ends after token ``eos``, or when ``positions`` tokens are out."""
    width = gamma + gamma % 2
    tokens: tuple[int, ...] = ()
    lengths: list[int] = []
    first_tau = -1
    debt = debts(pair, gamma)
    ended = False
    for call in range(calls):
        if not ended:
            u = [uniform(seed, trial, ACCEPT, call * width + i) for i in range(gamma)]
            v = uniform(seed, trial, CORRECTION, 2 * call)
            path = tokens
            for i in range(gamma):
                at = pair.context(path)
                coin = uniform(seed, trial, DRAFT, call * width + i)
                path = (*path, draw_alias(pair.cut[at], pair.alias[at], coin))
            tau, last = _verify(pair, rule, debt, len(tokens), path, u, v)
            debt.call_ended(len(tokens), tau)
            first_tau = tau if call == 0 else first_tau
            for token in (*path[len(tokens) : len(tokens) + tau], last):
                tokens = (*tokens, token)
                if token == eos:
                    ended = True
                    break
            ended = ended or 0 < positions <= len(tokens)
        lengths.append(len(tokens))
    return Generation(first_tau, lengths, tokens)


def _verify(
    pair: Pair, rule: str, debt: Debts, start: int, path: tuple[int, ...], u: list[float], v: float
) -> tuple[int, int]:
    """Return tau and the last token of the call that drafted ``path[start:]``."""
    x = list(path[start:])
    gamma = len(x)
    at = [pair.context(path[: start + i]) for i in range(gamma + 1)]
    p, q = [pair.p[s] for s in at], [pair.q[s] for s in at]
    orders = [ratio_order(*rows) for rows in zip(p, q, strict=True)]
    if rule in ("match", "temperature-0"):
        for i in range(gamma + 1):
            coin = u[i] if i < gamma else v
            own = p[i].index(max(p[i])) if rule != "match" else draw_inverse(p[i], orders[i], coin)
            if i == gamma or own != x[i]:
                return i, own
    if rule == "greedy":
        p = [debt.target(path[: start + i]) for i in range(gamma + 1)]
    tau, weights = RULES[rule](p, q[:gamma], x, u)
    if sum(weights) <= 0:
        weights = p[tau]
    return tau, draw_inverse(weights, orders[tau], v)


def pit(pair: Pair, prefix: tuple[int, ...], token: int, v: float, by_ratio: bool) -> float:
    """Randomised PIT F(token-) + v p(token), in ascending q/p or in token order."""
    at = pair.context(prefix)
    p = pair.p[at]
    order = ratio_order(p, pair.q[at]) if by_ratio else list(range(len(p)))
    return sum(p[x] for x in order[: order.index(token)]) + v * p[token]
