"""Exact laws of rules on the compact model at gamma 3, and counts of their runs.

None of it goes through the audit's own enumerator.
"""

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
from support.false_alarms import ALPHA

from simverify.models import get_model
from simverify.stats import g2_test, transition_g2
from simverify.symbolic.paths import ForkedGenerator, explore

MODEL = get_model("compact")
GAMMA, V = 3, MODEL.vocab_size
DRAFTS = list(itertools.product(range(V), repeat=GAMMA))


def chance(row, tokens, prefix=()):
    """Probability of ``tokens`` after ``prefix`` under the law ``row(prefix)``."""
    return math.prod(row((*prefix, *tokens[:i]))[x] for i, x in enumerate(tokens))


def rows(draft):
    """Target rows (gamma+1, V), draft rows (gamma, V) along ``draft``, and its tokens."""
    prefixes = [draft[:i] for i in range(GAMMA + 1)]
    return (
        np.array([MODEL.target(prefix) for prefix in prefixes]),
        np.array([MODEL.draft(prefix) for prefix in prefixes[:-1]]),
        np.array(draft),
    )


def law_of_verify(block_law):
    """Law of one call's tokens over the drafts; ``block_law(p, q, x)``: {tokens: weight}."""
    law = Counter()
    for draft in DRAFTS:
        for tokens, weight in block_law(*rows(draft)).items():
            law[tokens] += chance(MODEL.draft, draft) * weight
    return law


def by_paths(verify):
    """Return ``block_law`` of a rule that draws with ``random()`` and ``choice(n, p=)`` only."""

    def block_law(p, q, x):
        return _law(lambda path: verify(p.copy(), q.copy(), x.copy(), ForkedGenerator(path)))

    return block_law


def law_of_step(step):
    """Law of one call's tokens after the empty prefix."""
    return _law(lambda path: step((), MODEL.target, MODEL.draft, GAMMA, ForkedGenerator(path)))


def law_of_generation(factory, length):
    """Law of the first ``length`` tokens of a stateful rule, as many calls as it takes."""

    def run(path):
        rule, coins, tokens = factory(), ForkedGenerator(path), ()
        rule.reset()
        while len(tokens) < length:
            tokens += tuple(rule.step(tokens, MODEL.target, MODEL.draft, GAMMA, coins))
        return tokens[:length]

    return _law(run)


def _law(run):
    law = Counter()
    for tokens, weight in explore(lambda path: tuple(run(path))):
        law[tokens] += float(weight)
    return law


def completed(law):
    """Joint law (V,) * (gamma+1) of a call's tokens followed by target samples."""
    joint = np.zeros((V,) * (GAMMA + 1))
    for tokens, weight in law.items():
        for rest in itertools.product(range(V), repeat=GAMMA + 1 - len(tokens)):
            joint[(*tokens, *rest)] += weight * chance(MODEL.target, rest, tokens)
    return joint


@cache
def target_joint():
    return completed({(): 1.0})


def deviation(law):
    """TV distance of the completed law from the target's joint law."""
    assert math.isclose(sum(law.values()), 1, abs_tol=1e-12)
    return float(np.abs(completed(law) - target_joint()).sum() / 2)


def accepted_tokens(law):
    """E[tau] of a rule whose calls emit tau + 1 tokens."""
    return sum(weight * (len(tokens) - 1) for tokens, weight in law.items())


def sampled(contract, rule, calls, rng):
    """Counts of one call's tokens over ``calls`` calls from the empty prefix."""
    if contract == "step":
        return Counter(tuple(rule((), MODEL.target, MODEL.draft, GAMMA, rng)) for _ in range(calls))
    weights = [chance(MODEL.draft, draft) for draft in DRAFTS]
    counts = Counter()
    for draft, times in zip(DRAFTS, rng.multinomial(calls, weights), strict=True):
        given = rows(draft)
        counts.update(tuple(rule(*given, rng)) for _ in range(times))
    return counts


def fits(counts, law):
    """Whether the counts may come from ``law``; wrong with probability ALPHA at most."""
    support = [tokens for tokens, weight in law.items() if weight > 0]
    if not counts.keys() <= set(support):
        return False
    weights = np.array([law[tokens] for tokens in support])
    row = np.array([[counts[tokens] for tokens in support]])
    test = g2_test(transition_g2(row, weights[None] / weights.sum()), alpha=ALPHA)
    return test.log_pvalue > math.log(ALPHA)
