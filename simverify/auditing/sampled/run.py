"""Runs code under audit on an instance, trial by trial, each with a random stream of its own.

The stream of a trial has an address (seed, instance, trial), as in Salmon et al. 2011, so
that what one call consumes does not move the next. Drafts come from another stream: they
are independent of the code's randomness. What the code does wrong becomes a :class:`Misuse`.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from simverify.arrays import Floats
from simverify.auditing.coverage.watch import look_closely, watched
from simverify.auditing.exact.generations.enumerate import (
    check_ids,
    read_tokens,
    takes_step_arguments,
)
from simverify.auditing.exact.generations.generation import decode, until
from simverify.auditing.process.quiet import quiet
from simverify.auditing.sampled.emissions import Emissions, KeptDraw, Misuse, TimeUp
from simverify.auditing.sampled.streams import is_streamed, streamed
from simverify.auditing.sampled.tables import SampledInstance, Tables
from simverify.errors import SimverifyError
from simverify.symbolic.enumeration.endings import BadTokens, Tokens, what_was_raised
from simverify.symbolic.errors import CallBroken, CannotEnumerate
from simverify.symbolic.guards.containment import from_user
from simverify.symbolic.guards.watchdog import Expired, deadline, doing

Contract = Literal["verify", "step"]

HANG_SECONDS = 20.0
"""A call that takes longer, or half of a shorter time limit, hangs."""

_SLICE_SECONDS = 0.25

_KEPT = 256
"""Calls after which code that still meets draws of the exact tier keeps them for ever."""


class Runner:
    """Code under one contract on one instance.

    ``rows``: how many blocks a call takes; None for code that takes one, without batch axis.
    """

    def __init__(
        self,
        rule: Callable[..., Any],
        contract: Contract,
        instance: SampledInstance,
        *,
        seed: int,
        number: int,
        pilot: bool,
        rows: int | None,
        ends: float,
        seconds: float,
    ) -> None:
        self.instance = instance
        self.number, self.pilot = number, pilot
        self.length = instance.gamma + 1
        self.tables = Tables(instance, self.length)
        self.rows = rows
        self.emissions = Emissions(self.length)
        root = np.random.SeedSequence(seed, spawn_key=(number, int(pilot)))
        code, *ours = root.spawn(3)
        self._drafts, self._completions = (np.random.default_rng(x) for x in ours)
        # Made from a seed sequence for the code that calls rng.spawn.
        self._bits = np.random.Philox(code)
        self._rng = np.random.Generator(self._bits)
        self._address: Any = self._bits.state
        self._rule = rule
        self._contract = contract
        self._call_number = self._ahead = 0
        self._ends, self._hang = ends, min(HANG_SECONDS, seconds / 2)
        self._call_started = 0.0

    def run(self, trials: int) -> None:
        """Run until ``trials`` trials (a multiple of ``rows``) are in ``emissions``.

        Raises :class:`Misuse` or :class:`TimeUp`.
        """
        doing(f"the sampled tier on {self.instance.name}")
        look_closely()
        count = trials - len(self.emissions)
        emitted = self._verify(count) if self._contract == "verify" else self._steps(count)
        outputs: list[Tokens] = []
        firsts: list[int] = []
        while len(outputs) < count:
            self._slice(emitted, outputs, firsts, count)
        lengths = np.array([len(x) for x in outputs], dtype=np.int64)
        padded = np.zeros((count, self.length), dtype=np.int64)
        for position, column in enumerate(itertools.zip_longest(*outputs, fillvalue=0)):
            padded[:, position] = column
        uniforms = self._completions.random((count, self.length))
        completed = self.tables.complete(padded, lengths, uniforms)
        self.emissions.extend(completed, lengths, np.array(firsts, dtype=np.int64) - 1)

    def replay(self, trial: int) -> Tokens:
        """Run trial number ``trial`` alone, by its address, and return what it emitted.

        Batched code is called with the whole batch. To be asked of a runner that has run
        nothing. Raises as :meth:`run`.
        """
        rows = self.rows or 1
        self._call_number = trial // rows
        first = self._call_number * rows
        self._drafts.bit_generator.advance(first * self.instance.gamma)  # type: ignore[attr-defined]
        emitted = self._verify(rows) if self._contract == "verify" else self._steps(rows)
        outputs: list[Tokens] = []
        while len(outputs) < rows:
            self._slice(emitted, outputs, [], rows)
        return outputs[trial - first]

    def _slice(
        self,
        emitted: Iterator[tuple[Tokens, int]],
        outputs: list[Tokens],
        firsts: list[int],
        count: int,
    ) -> None:
        """Run for a moment; a deadline strikes only where one call outlasts it."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeUp
        pause = time.monotonic() + _SLICE_SECONDS
        try:
            with deadline(min(left, _SLICE_SECONDS + self._hang)), quiet():
                while len(outputs) < count and time.monotonic() < pause:
                    tokens, first = next(emitted)
                    outputs.append(tokens)
                    firsts.append(first)
        except Expired:
            took = time.monotonic() - self._call_started
            if took >= self._hang:
                misuse = Misuse(f"hangs: did not return within {self._hang:g} s")
                raise self._addressed(misuse) from None
            raise TimeUp from None
        except Misuse as misuse:
            raise self._addressed(misuse) from None

    def _addressed(self, misuse: Misuse) -> Misuse:
        """Return ``misuse`` with the address of the last call's first trial."""
        misuse.number, misuse.pilot = self.number, self.pilot
        misuse.trial = (self._call_number - 1 - self._ahead) * (self.rows or 1)
        return misuse

    def _verify(self, count: int) -> Iterator[tuple[Tokens, int]]:
        gamma = self.instance.gamma
        drafts = self.tables.drafts(gamma, self._drafts.random((count, gamma)))
        codes = self.tables.codes(drafts, gamma).tolist()
        target, draft = self.tables.blocks
        blocks = list(map(tuple, drafts.tolist()))
        rows = self.rows or 1

        def arguments(first: int) -> tuple[Any, ...]:
            here = slice(first, first + rows) if self.rows else first
            # Copies: code that writes into its arguments must not change our rows.
            return target[codes[here]].copy(), draft[codes[here]].copy(), drafts[here].copy()

        calls = range(0, count, rows)
        if is_streamed(self._rule):
            returned = streamed(
                self._rule, arguments, calls, self._call, self._next_rng, self._later
            )
        else:
            returned = (self._call(self._rule, *arguments(n), self._next_rng()) for n in calls)
        for first, result in zip(calls, returned, strict=True):
            results = self._unstack(result, rows) if self.rows else [result]
            for block, tokens in zip(blocks[first : first + rows], results, strict=True):
                emitted = until(self._checked(tokens), self.instance.eos)
                if len(emitted) > gamma + 1:
                    raise Misuse(f"too-many: returned {len(emitted)} tokens for gamma = {gamma}")
                if emitted[:-1] != block[: len(emitted) - 1]:
                    raise Misuse(
                        f"not-a-prefix: returned {emitted} for the draft {block}: all but the "
                        "last token must be an accepted prefix of the draft"
                    )
                yield emitted, len(emitted)

    def _later(self, calls: int) -> None:
        """Say how many calls were asked after the one whose answer is looked at."""
        self._ahead = calls

    def _unstack(self, result: Any, rows: int) -> list[Any]:
        """Return one row of tokens each from a padded array or a list of rows."""
        raw = result.tolist() if hasattr(result, "tolist") else result
        if not isinstance(raw, list | tuple) or len(raw) != rows:
            raise Misuse(f"shape: a call of {rows} rows returned a {type(result).__name__} "
                         "of another length")  # fmt: skip
        ended = []
        for row in raw:
            tokens = list(row) if hasattr(row, "__iter__") else [row]
            while tokens and tokens[-1] == -1:
                tokens.pop()
            ended.append(tokens)
        return ended

    def _steps(self, count: int) -> Iterator[tuple[Tokens, int]]:
        gamma = self.instance.gamma
        is_step = takes_step_arguments(self._rule)
        target = _remembered(self.instance.model.target, self.length + gamma)
        draft = _remembered(self.instance.model.draft, self.length + gamma)

        def generate() -> tuple[Tokens, int]:
            rng = self._next_rng()
            rule = None if is_step else self._rule()
            step = self._rule if rule is None else rule.step
            firsts = []

            def more(emitted: Tokens) -> Tokens:
                tokens = self._checked(step(emitted, target, draft, gamma, rng))
                if not emitted:
                    firsts.append(len(tokens))
                return tokens

            out = decode(
                more, getattr(rule, "reset", None), length=self.length,
                eos=self.instance.eos, earlier_calls=self.instance.earlier_calls,
            )  # fmt: skip
            return out[: self.length], firsts[-1]

        for _ in range(count):
            yield self._call(generate)

    def _checked(self, result: Any) -> Tokens:
        try:
            tokens = read_tokens(result)
            check_ids(tokens, self.tables.vocab_size)
        except BadTokens as error:
            raise Misuse(f"{error.kind}: {error}") from None
        return tokens

    def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._call_started = time.monotonic()
        for _ in range(_KEPT):
            # Draws that the code kept from the exact tier are gone after a few calls.
            with suppress(CannotEnumerate):
                return self._one(call, *arguments)
        raise KeptDraw

    def _one(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return watched(call, *arguments)
        except (CannotEnumerate, Expired, Misuse, SimverifyError):
            raise
        except (BadTokens, CallBroken) as error:
            raise Misuse(f"{error.kind}: {error}") from None
        except BaseException as error:  # the code may raise anything, SystemExit too
            if from_user(error):
                raise
            message = f"raises: {what_was_raised(error)}"
            raise Misuse(message) from None

    def _next_rng(self) -> np.random.Generator:
        """Return the generator, put at the start of the next call's own stream."""
        address = self._address
        address["state"]["counter"][:] = (0, 0, self._call_number, 0)
        address["buffer_pos"], address["has_uint32"] = 4, 0
        self._bits.state = address
        self._call_number += 1
        return self._rng


def _remembered(row: Callable[[Tokens], Floats], depth: int) -> Callable[[Tokens], Floats]:
    """Return a function that gives copies of rows computed once, for short prefixes."""
    known: dict[Tokens, Floats] = {}

    def recall(prefix: Tokens) -> Floats:
        key = tuple(prefix)
        if key not in known:
            if len(key) > depth:
                return row(key)
            known[key] = row(key)
        return known[key].copy()

    return recall
