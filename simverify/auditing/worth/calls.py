"""Many calls of code on drafts of a model: what it accepts, and its tokens with their rows."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.auditing.exact.generations.trees import arguments_of, as_judged
from simverify.auditing.process.quiet import global_generators, quiet
from simverify.auditing.real.calls import BlockCaller, StepCaller, TreeCaller
from simverify.auditing.sampled.emissions import Misuse
from simverify.auditing.subject import Subject
from simverify.auditing.worth.asked import Asked, Verifying
from simverify.auditing.worth.law import exact_on
from simverify.simulators.decoding.called import Called
from simverify.simulators.decoding.emitted import TokenSums
from simverify.simulators.decoding.lanes import Block
from simverify.simulators.decoding.model_rows import ModelRows
from simverify.simulators.features import Features
from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.guards.containment import contained
from simverify.trees import RowAfter, draw_tree


def call_on(subject: Subject, contract: Verifying, asked: Asked) -> Called:
    """Return the exact law of ``subject`` on a model, if it can be had, and what calls emit."""
    with contained():
        exact, broken = exact_on(subject, contract, asked)
        rule, calling = as_judged(subject.generator_rule(), contract, asked.drafting)
        counted = _Calls(rule, calling, asked)
        clock = time.perf_counter()
        if not broken:
            try:
                with global_generators(asked.seed), quiet():
                    counted.run()
            except Misuse as misuse:
                broken = (str(misuse),)
        seconds = time.perf_counter() - clock
        return Called(counted.accepted, counted.features, exact, broken, seconds)


class _Calls:
    """Calls of one rule on drafts of a model, and what is counted of them."""

    def __init__(self, rule: Callable[..., Any], contract: Verifying, asked: Asked) -> None:
        self._rule, self._contract, self._asked = rule, contract, asked
        depth = asked.gamma if asked.drafting is None else asked.drafting.shape.depth
        self.accepted = np.zeros(depth + 1, np.int64)
        self._left = asked.tokens
        self._sums = TokenSums(gamma=depth, lanes=1, seed=asked.seed, by_slot=contract == "verify")
        self._rows = ModelRows(asked.model)

    @property
    def features(self) -> Features | None:
        """Features of the tokens so far, None without any."""
        return self._sums.features if self._left < self._asked.tokens else None

    def run(self) -> None:
        """Make all calls; raises ``Misuse`` where the code breaks its contract."""
        of_contract = {"verify": self._block, "step": self._generation, "tree": self._tree}
        call = of_contract[self._contract]
        for number in itertools.count():
            drafting, rng = (
                np.random.Generator(
                    np.random.Philox(key=self._asked.seed, counter=[0, 0, number, stream])
                )
                for stream in (1, 2)
            )
            prefix = self._rows.start(drafting)
            tokens, tau = call(prefix, drafting, rng)
            if number < self._asked.calls:
                self._count(tau)
            self._judge(prefix, tokens)
            if not self._left and number + 1 >= self._asked.calls:
                return

    def _count(self, tau: int) -> None:
        # A rule that drafts for itself may accept more than gamma tokens.
        missing = tau + 1 - len(self.accepted)
        if missing > 0:
            self.accepted = np.pad(self.accepted, (0, missing))
        self.accepted[tau] += 1

    def _judge(self, prefix: Tokens, tokens: Tokens) -> None:
        """Hand the tokens over with their rows, until as many are judged as were asked for."""
        kept = tokens[: self._left]
        if not kept:
            return
        self._left -= len(kept)
        ends = [prefix + kept[:i] for i in range(len(kept))]
        p, q = (np.array([row(end) for end in ends]) for row in self._rows.both)
        self._sums.add(Block(0, 0, True, p, q, (), 0, kept))

    def _block(
        self, prefix: Tokens, drafting: np.random.Generator, rng: np.random.Generator
    ) -> tuple[Tokens, int]:
        text = prefix
        p, q = [self._rows.target(text)], []
        for u in drafting.random(self._asked.gamma):
            q.append(self._rows.draft(text))
            text = (*text, self._rows.drafted(text, u))
            p.append(self._rows.target(text))
        caller = BlockCaller(self._rule, self._asked.model.vocab_size)
        tokens = tuple(caller.judge(0, np.array(p), np.array(q), text[len(prefix) :], rng))
        return tokens, len(tokens) - 1

    def _tree(
        self, prefix: Tokens, drafting: np.random.Generator, rng: np.random.Generator
    ) -> tuple[Tokens, int]:
        assert self._asked.drafting is not None
        target, draft = (_after(prefix, row) for row in self._rows.both)
        tree = draw_tree(self._asked.drafting, draft, drafting)
        caller = TreeCaller(self._rule, self._asked.model.vocab_size)
        tokens = caller.judge(tree, arguments_of(tree, target, draft), rng)
        return tokens, len(tokens) - 1

    def _generation(
        self, prefix: Tokens, _: np.random.Generator, rng: np.random.Generator
    ) -> tuple[Tokens, int]:
        gamma, length = self._asked.gamma, 2 * self._asked.gamma
        caller = StepCaller(self._rule, self._asked.model.vocab_size)
        caller.reset()
        target, draft = (_fresh(row) for row in self._rows.both)
        first = tokens = caller.step(prefix, target, draft, gamma, rng)
        while len(tokens) < length:
            tokens += caller.step(prefix + tokens, target, draft, gamma, rng)
        return tokens[:length], len(first) - 1


def _after(prefix: Tokens, row: RowAfter) -> RowAfter:
    """Return ``row`` of texts that follow ``prefix``."""
    return lambda text: row(prefix + text)


def _fresh(row: RowAfter) -> RowAfter:
    """Return ``row`` as code under audit gets it, which may write into it."""
    return lambda prefix: row(tuple(prefix)).copy()
