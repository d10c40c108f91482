"""Exact laws of the oracle's rules, of joints and of completed calls, in fractions."""

import itertools
from functools import cache
from typing import Any

from support.oracles import naive

from simverify.models.base import MarkovModel
from simverify.symbolic.paths import ForkedGenerator, Path, explore

Tokens = tuple[int, ...]
Law = dict[Tokens, Any]

ORACLE_RULES = (*naive.RULES, "match", "temperature-0")
"""Rules that :func:`call` writes again in fractions."""


@cache
def rational(model: MarkovModel) -> naive.Pair:
    """Rows of a rational model as fractions."""
    assert model.rational is not None
    return naive.Pair.of(model.rational)


def joint(rows: list[naive.Row], tokens: Tokens, prefix: Tokens = ()) -> Any:
    """Probability of ``tokens`` after ``prefix`` under the rows ``pair.p`` or ``pair.q``."""
    total: Any = 1
    for token in tokens:
        total = total * rows[prefix[-1] % (len(rows) - 1) if prefix else -1][token]
        prefix = (*prefix, token)
    return total


def sequences(pair: naive.Pair, length: int) -> list[Tokens]:
    return list(itertools.product(range(pair.vocab_size), repeat=length))


def add_up(pairs: Any) -> Law:
    law: Law = {}
    for key, weight in pairs:
        law[key] = law.get(key, 0) + weight
    return law


def call(
    pair: naive.Pair,
    rule: str,
    gamma: int,
    debts: naive.Debts,
    prefix: Tokens,
    coins: ForkedGenerator,
) -> Tokens:
    """Tokens of one call after ``prefix``, whose chances ``coins`` takes."""
    size, path = pair.vocab_size, prefix
    for _ in range(gamma):
        path = (*path, coins.choice(size, pair.q[pair.context(path)]))
    x = path[len(prefix) :]
    at = [pair.context((*prefix, *x[:i])) for i in range(gamma + 1)]
    p, q = [pair.p[s] for s in at], [pair.q[s] for s in at[:-1]]
    if rule in ("match", "temperature-0"):
        for i in range(gamma + 1):
            own = coins.choice(size, p[i]) if rule == "match" else p[i].index(max(p[i]))
            if i == gamma or own != x[i]:
                return (*x[:i], own)
    if rule == "greedy":
        p = [debts.target((*prefix, *x[:i])) for i in range(gamma + 1)]
    tau, weights = naive.RULES[rule](p, q, list(x), [coins.random() for _ in x])
    if sum(weights) == 0:
        weights = p[tau]
    total = sum(weights)
    return (*x[:tau], coins.choice(size, [w / total for w in weights]))


def call_law(model: MarkovModel, rule: str, gamma: int, last: int | None = None) -> Law:
    """Law of the tokens of a generation's first call, after token ``last`` if there is one."""
    pair = rational(model)
    prefix = () if last is None else (last,)
    assert rule != "greedy" or not prefix

    def run(path: Path) -> Tokens:
        return call(pair, rule, gamma, naive.Debts(pair, gamma), prefix, ForkedGenerator(path))

    return add_up(explore(run))


def generation_law(model: MarkovModel, rule: str, gamma: int, length: int) -> Law:
    """Law of a generation's first ``length`` tokens, over as many calls as they take."""
    pair = rational(model)

    def run(path: Path) -> Tokens:
        coins, debts = ForkedGenerator(path), naive.Debts(pair, gamma)
        tokens: Tokens = ()
        while len(tokens) < length:
            emitted = call(pair, rule, gamma, debts, tokens, coins)
            debts.call_ended(len(tokens), len(emitted) - 1)
            tokens = tokens + emitted
        return tokens[:length]

    return add_up(explore(run))


def completed(law: Law, model: MarkovModel, gamma: int) -> Law:
    """Law of gamma+1 tokens: those of a call, then the target's own."""
    pair = rational(model)
    return add_up(
        (tokens + rest, weight * joint(pair.p, rest, tokens))
        for tokens, weight in law.items()
        for rest in sequences(pair, gamma + 1 - len(tokens))
    )


def target_law(model: MarkovModel, length: int) -> Law:
    pair = rational(model)
    return {tokens: joint(pair.p, tokens) for tokens in sequences(pair, length)}


def distance(a: Law, b: Law) -> Any:
    """Total variation distance."""
    return sum(abs(a.get(key, 0) - b.get(key, 0)) for key in a.keys() | b.keys()) / 2


def without_zeros(law: dict[Any, Any]) -> dict[Any, Any]:
    return {key: weight for key, weight in law.items() if weight != 0}


def expected_accepted(law: Law) -> Any:
    return sum((len(tokens) - 1) * weight for tokens, weight in law.items())
