"""Runs code under audit on an instance, trial by trial, each with a random stream of its own.

The stream of a trial has an address (seed, instance, trial), as in Salmon et al. 2011, so that what
one call consumes does not move the next. Drafts come from another stream: they are independent of
the code's randomness. What the code does wrong becomes a :class:`ContractMisuse`.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from simverify.arrays import Floats, Ints
from simverify.auditing import enumeration
from simverify.auditing.coverage import begin_instance, call_monitored
from simverify.auditing.instances import (
    SmallModel,
    parse_rows,
    processing_instances,
    with_processing,
)
from simverify.auditing.sandbox import suppress_warnings
from simverify.battery.battery import detectable_faults, slot_rows
from simverify.errors import SimverifyError
from simverify.models.base import Model, compact
from simverify.models.distribution import Law
from simverify.symbolic import watchdog
from simverify.symbolic.compiled import stale_arrays_exist
from simverify.symbolic.outcomes import InvalidTokens, Tokens, describe_exception, is_held_function
from simverify.symbolic.provenance import STALE_ARRAY, CallBroken, CannotEnumerate
from simverify.verifiers import Verifier


class ContractMisuse(Exception):
    """The code broke its contract; the message says how, for a finding."""

    number = trial = 0  # the address of the trial, once a run has said it
    pilot = False


class TimeLimitReached(Exception):
    """The time limit passed, by :class:`~simverify.symbolic.watchdog.Stopwatch`."""


class StaleDraw(Exception):
    """The code goes on using draws of the exact tier, which are no numbers."""


class Emissions:
    """What the code emitted on an instance so far.

    ``tokens`` int64 (n, length), completed with target samples beyond ``lengths`` (n,);
    ``accepted`` (n,): tokens of the first call less one.
    """

    def __init__(self, length: int) -> None:
        self.tokens: Ints = np.zeros((0, length), dtype=np.int64)
        self.lengths = self.accepted = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def extend(self, tokens: Ints, lengths: Ints, accepted: Ints) -> None:
        """Append trials."""
        self.tokens = np.concatenate([self.tokens, tokens])
        self.lengths = np.concatenate([self.lengths, lengths])
        self.accepted = np.concatenate([self.accepted, accepted])


# Streamed calls: many requests are sent before the first answer, so that no pipe waits.

MAX_IN_FLIGHT = 512  # calls that are asked before the first is answered
_BATCH_SECONDS = 0.06
"""Seconds in which as many are answered as are asked at once: each has a limit of its own."""


def stream_calls(
    rule: Any,
    arguments: Callable[[int], tuple[Any, ...]],
    calls: Sequence[int],
    call: Callable[..., Any],
    next_rng: Callable[[], Any],
    later: Callable[[int], None],
) -> Iterator[Any]:
    """Yield what each of ``calls`` of a rule with ``ask``, ``answer`` and ``repeat`` returns.

    ``arguments(n)``: those of call n but its generator, which is the next of ``next_rng()``.
    ``call(function, *arguments)`` runs what belongs to the code. ``later`` gets how many calls were
    asked after the one that is answered.
    """
    done, many = 0, 1
    while done < len(calls):
        began = time.monotonic()
        requests = [call(rule.ask, *arguments(n), next_rng()) for n in calls[done : done + many]]
        behind = range(len(requests) - 1, -1, -1)
        answers = []
        for request, count in zip(requests, behind, strict=True):
            later(count)
            answers.append(call(rule.answer, request))
        took = time.monotonic() - began
        for request, answer, count in zip(requests, answers, behind, strict=True):
            later(count)
            call(rule.repeat, request, answer)
            yield answer
        done += len(requests)
        many = min(2 * many, MAX_IN_FLIGHT) if took < _BATCH_SECONDS else max(1, many // 2)


# Small instances and their targets. Prefixes are numbered within their length, in base V.

MAX_OUTPUT_COUNT = 20_000  # most outputs V^(gamma+1) of an instance


@dataclass(frozen=True)
class SampledInstance:
    """A model and the draft length that the code is run with on it."""

    model: Model
    gamma: int
    eos: int | None = None  # the token that ends a generation
    earlier_calls: int = 0  # of an earlier generation, at most, before a rule with state is reset
    coarse: bool = False  # is for a size or a kind of row, and gets few trials for a larger TV
    rule: Callable[..., Any] | None = None  # is run here, in the place of the rule on trial

    def expected(self, prefix: Tokens) -> Floats:
        """Row (V,) that the output follows after ``prefix``."""
        rows = getattr(self.model, "expected", self.model.target)
        return np.asarray(rows(prefix))

    @property
    def name(self) -> str:
        """Model and draft length."""
        after = ", after end of sequence" if self.earlier_calls else ""
        return f"{self.model.name}, gamma={self.gamma}{after}"


def _small_model(name: str, gamma: int, targets: str, drafts: str) -> SmallModel:
    return SmallModel(name, gamma, tuple(parse_rows(targets)), tuple(parse_rows(drafts)))


_TWO_TOKEN_TABLE = _small_model("table, V=2", 2, "1 2, 3 1", "2 1, 1 4")
"""With V = 2 a table of two rows is all there is."""

_FINE_INSTANCES: tuple[tuple[Model, int], ...] = (
    (compact(), 3),
    (_small_model("table, V=4", 2, "4 1 2 3, 1 5 0 4", "1 5 2 2, 6 0 1 3"), 2),
)
"""Few cells, many faults: compact, and a table whose rows depend on the two tokens before, with
zeros on either side and residuals of two tokens."""

_COARSE_INSTANCES = (
    _small_model("long drafts, V=2", 4, "3 1, 2 1, 1 4", "1 1, 1 2, 2 3"),
    # Ties of the likeliest tokens, one target row and one draft row of a single token, one pair of
    # equal rows.
    _small_model(
        "ties, V=5",
        2,
        "2 2 1 1 2, 0 1 0 0 0, 1 1 1 1 1, 3 0 3 0 1, 1 2 3 4 5",
        "1 3 3 1 2, 1 1 1 1 1, 0 0 0 1 0, 3 0 1 0 3, 1 2 3 4 5",
    ),
    # Every token has mass in some row, and seven of them in the residual of the first.
    _small_model(
        "wide, V=12",
        1,
        "3 1 2 0 1 4 3 2 1 2 0 2, 0 4 0 0 0 0 3 0 0 2 0 0, 0 0 0 3 0 0 0 2 0 0 4 0, "
        "0 0 2 0 0 3 0 0 0 0 0 4, 0 0 0 2 4 0 0 0 3 0 0 0",
        "1 2 0 1 2 1 1 1 4 1 1 1, 0 1 0 1 0 0 1 0 0 0 0 0, 0 0 0 1 0 0 0 1 0 0 0 0, "
        "1 0 1 0 0 1 0 0 0 0 0 0, 0 0 0 0 1 0 0 0 1 0 0 1",
    ),
)
"""What the others lack: the longest drafts, ties and rows of one token, the largest vocabulary."""


def default_sampled_instances(
    max_gamma: int = 4,
    max_vocab: int = 12,
    *,
    eos: int | None = None,
    resets: bool = False,
    processing: Law | None = None,
) -> tuple[SampledInstance, ...]:
    """Return the instances of the sampled tier that fit, the coarse ones last.

    Those with the promised power are cut to ``max_gamma``. ``eos`` is end of sequence to the code
    under audit; ``resets``: it keeps state, and is also run on after an earlier generation.
    ``processing``: what it does to the target's rows; instances on which that shows come first.
    """

    def instance(model: Model, gamma: int, *, coarse: bool = False) -> SampledInstance:
        end = eos if eos is not None and eos < model.vocab_size else None
        return SampledInstance(model, gamma, eos=end, coarse=coarse)

    fine = [(m, gamma) for m, gamma in _FINE_INSTANCES if m.vocab_size <= max_vocab]
    fine = fine or [(_TWO_TOKEN_TABLE, 2)]
    coarse: Sequence[SmallModel] = _COARSE_INSTANCES
    if processing is not None:
        fine = [(model, model.gamma) for model in processing_instances(processing, max_gamma)[-2:]]
        nudged = (with_processing(model, processing) for model in coarse)
        coarse = [model for model in nudged if model is not None]
    chosen = [instance(model, min(gamma, max_gamma)) for model, gamma in fine]
    if resets:
        reset = instance(_TWO_TOKEN_TABLE, min(2, max_gamma))
        chosen.append(replace(reset, eos=1 if eos is None else reset.eos, earlier_calls=2))
    chosen += [
        instance(model, model.gamma, coarse=True)
        for model in coarse
        if model.gamma <= max_gamma and model.vocab_size <= max_vocab
    ]
    return tuple(chosen)


class InstanceTables:
    """Rows and laws of ``instance`` for all prefixes of up to ``length`` - 1 tokens.

    ``target[l]``, ``draft[l]``: (V^l, V), the rows after each prefix of l tokens, of the target
    those that the output follows. ``given[l]``: those of the target that the code gets.
    """

    def __init__(self, instance: SampledInstance, length: int) -> None:
        self.instance = instance
        self.length = length
        self.vocab_size = instance.model.vocab_size
        self.target: list[Floats] = []
        self.given: list[Floats] = []
        self.draft: list[Floats] = []
        for level in range(length):
            prefixes = list(itertools.product(range(self.vocab_size), repeat=level))
            self.target.append(np.array([instance.expected(x) for x in prefixes]))
            self.given.append(np.array([instance.model.target(x) for x in prefixes]))
            self.draft.append(np.array([instance.model.draft(x) for x in prefixes]))

    def codes(self, tokens: Ints, length: int) -> Ints:
        """Number of each row's first ``length`` tokens, (n,), from ``tokens`` (n, any)."""
        code = np.zeros(len(tokens), dtype=np.int64)
        for position in range(length):
            code = code * self.vocab_size + tokens[:, position]
        return code

    def joint(self, length: int) -> Floats:
        """Target's law of the first ``length`` tokens, (V^length,)."""
        law = np.ones(1)
        for level in range(length):
            law = (law[:, None] * self.target[level]).ravel()
        return law

    @cached_property
    def blocks(self) -> tuple[Floats, Floats, Floats]:
        """Target rows (V^gamma, gamma+1, V) and draft rows (V^gamma, gamma, V) per block.

        Last the target rows that the code gets.
        """
        gamma = self.instance.gamma

        def along(rows: list[Floats], levels: int) -> Floats:
            spread = [np.repeat(rows[i], self.vocab_size ** (gamma - i), 0) for i in range(levels)]
            return np.ascontiguousarray(np.stack(spread, axis=1))

        expected, draft = along(self.target, gamma + 1), along(self.draft, gamma)
        return expected, draft, along(self.given, gamma + 1)

    @cached_property
    def contexts(self) -> list[tuple[Ints, Floats, Floats]]:
        """Per position: the context of each prefix, by its rows, and the contexts' own rows."""
        result = []
        for pair in zip(self.target, self.draft, strict=True):
            rows, index = np.unique(np.hstack(pair), axis=0, return_inverse=True)
            p, q = np.hsplit(rows, 2)
            result.append((index.ravel().astype(np.int64), p, q))
        return result

    @cached_property
    def slot_laws(self) -> list[Floats]:
        """Per slot of a call from the empty prefix: rows (M, V^l, V) of the known faults."""
        faults = detectable_faults(prefix=True, first_row=True)
        target, draft, _ = self.blocks
        size, result = self.vocab_size, []
        for level in range(self.length):
            # Blocks that begin with the same tokens have the same rows up to the slot.
            first = np.arange(size**level) * size ** (self.instance.gamma - level)
            prefixes = list(itertools.product(range(size), repeat=level))
            result.append(slot_rows(faults, target[first], draft[first], prefixes))
        return result

    def complete(self, tokens: Ints, lengths: Ints, uniforms: Floats) -> Ints:
        """Fill rows of ``tokens`` (n, length) beyond their length, by ``uniforms`` (n, length)."""
        return self._draw(self.target, tokens.copy(), lengths, uniforms)

    def drafts(self, gamma: int, uniforms: Floats) -> Ints:
        """Draft blocks (n, gamma) from ``uniforms`` (n, gamma) in [0, 1)."""
        blank = np.zeros((len(uniforms), gamma), dtype=np.int64)
        return self._draw(self.draft, blank, np.zeros(len(uniforms), dtype=np.int64), uniforms)

    def _draw(self, rows: list[Floats], tokens: Ints, lengths: Ints, uniforms: Floats) -> Ints:
        for position in range(tokens.shape[1]):
            (open_rows,) = np.nonzero(lengths <= position)
            laws = rows[position][self.codes(tokens[open_rows], position)]
            cdf = np.cumsum(laws, axis=1)
            # The last token of positive mass takes what rounding leaves of the unit.
            cdf /= cdf[:, -1:]
            tokens[open_rows, position] = (uniforms[open_rows, position, None] >= cdf).sum(axis=1)
        return tokens

    def curve(self, verifier: Verifier) -> Floats:
        """Pr(tau >= l), l = 1..gamma, of a built-in rule's (first) call."""
        m = b = f = np.ones(1)
        levels = []
        for level in range(self.instance.gamma):
            p, q = self.target[level], self.draft[level]
            f = verifier.tree_step(m[:, None], b[:, None], f[:, None], p, q)[0].ravel()
            m, b = (m[:, None] * q).ravel(), (b[:, None] * p).ravel()
            levels.append(f.sum())
        curve: Floats = np.minimum(np.array(levels), 1.0)
        return curve


Contract = Literal["verify", "step"]

CALL_HANG_SECONDS = 20.0  # a call that takes longer, or half of a shorter time limit, hangs
_SLICE_SECONDS = 0.25

_MAX_STALE_CALLS = 256
"""Calls after which code that still meets draws of the exact tier keeps them for ever."""


class TrialRunner:
    """Code under one contract on one instance.

    ``rows``: how many blocks a call takes; None for code that takes one, without batch axis.
    ``clock``: runs since the start of the tier, which ends after ``seconds``; None: nothing ends
    it, and ``seconds`` only says how long a call may take.
    """

    def __init__(
        self,
        rule: Callable[..., Any],
        contract: Contract,
        instance: SampledInstance,
        *,
        seed: int = 0,
        number: int = 0,
        pilot: bool = False,
        rows: int | None = None,
        clock: watchdog.Stopwatch | None = None,
        seconds: float,
    ) -> None:
        self.instance, self.rows = instance, rows
        self.number, self.pilot = number, pilot
        self.length = instance.gamma + 1
        self.tables = InstanceTables(instance, self.length)
        self.emissions = Emissions(self.length)
        root = np.random.SeedSequence(seed, spawn_key=(number, int(pilot)))
        code, *ours = root.spawn(3)
        self._drafts, self._completions = (np.random.default_rng(x) for x in ours)
        # Made from a seed sequence for the code that calls rng.spawn.
        self._bits = np.random.Philox(code)
        self._rng = np.random.Generator(self._bits)
        self._address: Any = self._bits.state
        self._rule, self._contract = rule, contract
        self._call_number = 0
        self._ahead = 0  # calls that were asked after the one whose answer is looked at
        self._clock, self._seconds = clock, seconds
        self._hang = min(CALL_HANG_SECONDS, seconds / 2)
        self._call_started = 0.0

    def run(self, trials: int) -> None:
        """Run until ``trials`` trials (a multiple of ``rows``) are in ``emissions``.

        Raises ``ContractMisuse``, ``TimeLimitReached`` or ``StaleDraw``. The trials before the time
        limit are kept.
        """
        watchdog.report_activity(f"the sampled tier on {self.instance.name}")
        begin_instance()
        results: list[tuple[Tokens, int]] = []
        try:
            self._extend(results, trials - len(self.emissions))
        finally:
            self._keep(results[: len(results) // (self.rows or 1) * (self.rows or 1)])

    def _keep(self, results: list[tuple[Tokens, int]]) -> None:
        outputs, firsts, count = [x for x, _ in results], [x for _, x in results], len(results)
        lengths = np.array([len(x) for x in outputs], dtype=np.int64)
        padded = np.zeros((count, self.length), dtype=np.int64)
        for position, column in enumerate(itertools.zip_longest(*outputs, fillvalue=0)):
            padded[:, position] = column
        uniforms = self._completions.random((count, self.length))
        completed = self.tables.complete(padded, lengths, uniforms)
        self.emissions.extend(completed, lengths, np.array(firsts, dtype=np.int64) - 1)

    def replay(self, trial: int) -> Tokens:
        """Run trial number ``trial`` with its batch, and return what it emitted; raise as ``run``.

        To be asked of a runner that has run nothing.
        """
        rows = self.rows or 1
        self._call_number = trial // rows
        first = self._call_number * rows
        self._drafts.bit_generator.advance(first * self.instance.gamma)  # type: ignore[attr-defined]
        results: list[tuple[Tokens, int]] = []
        self._extend(results, rows)
        return results[trial - first][0]

    def _extend(self, results: list[tuple[Tokens, int]], count: int) -> None:
        """Add outputs up to ``count``, each with the number of tokens of its first call."""
        emitted = self._verify(count) if self._contract == "verify" else self._steps(count)
        while len(results) < count:
            self._slice(emitted, results, count)

    def _slice(
        self, emitted: Iterator[tuple[Tokens, int]], results: list[tuple[Tokens, int]], count: int
    ) -> None:
        """Run for a moment; a deadline strikes only where one call outlasts it."""
        left = math.inf if self._clock is None else self._seconds - self._clock.seconds()
        if left <= 0:
            raise TimeLimitReached
        watch = watchdog.Stopwatch()
        pause = watch.wall + _SLICE_SECONDS
        try:
            with watchdog.deadline(min(left, _SLICE_SECONDS + self._hang)), suppress_warnings():
                while len(results) < count and time.monotonic() < pause:
                    results.append(next(emitted))
        except watchdog.DeadlineExpired:
            # The call's part of them, by its part of the wall clock, which is cheap to read.
            now = time.monotonic()
            took = watch.seconds() * (now - self._call_started) / (now - watch.wall)
            if took >= self._hang:
                misuse = ContractMisuse(f"hangs: did not return within {self._hang:g} s")
                raise self._addressed(misuse) from None
            raise TimeLimitReached from None
        except ContractMisuse as misuse:
            raise self._addressed(misuse) from None

    def _addressed(self, misuse: ContractMisuse) -> ContractMisuse:
        """Return ``misuse`` with the address of the last call's first trial."""
        misuse.number, misuse.pilot = self.number, self.pilot
        misuse.trial = (self._call_number - 1 - self._ahead) * (self.rows or 1)
        return misuse

    def _verify(self, count: int) -> Iterator[tuple[Tokens, int]]:
        gamma = self.instance.gamma
        drafts = self.tables.drafts(gamma, self._drafts.random((count, gamma)))
        codes = self.tables.codes(drafts, gamma).tolist()
        _, draft, target = self.tables.blocks
        blocks = list(map(tuple, drafts.tolist()))
        rows = self.rows or 1

        def arguments(first: int) -> tuple[Any, ...]:
            index = slice(first, first + rows) if self.rows else first
            # Copies: code that writes into its arguments must not change our rows.
            return target[codes[index]].copy(), draft[codes[index]].copy(), drafts[index].copy()

        calls = range(0, count, rows)
        if hasattr(self._rule, "ask"):
            later = partial(setattr, self, "_ahead")
            how = self._call, self._next_rng, later
            returned = stream_calls(self._rule, arguments, calls, *how)
        else:
            returned = (self._call(self._rule, *arguments(n), self._next_rng()) for n in calls)
        for first, result in zip(calls, returned, strict=True):
            results = self._unstack(result, rows) if self.rows else [result]
            for block, tokens in zip(blocks[first : first + rows], results, strict=True):
                emitted = enumeration.cut_at_eos(self._checked(tokens), self.instance.eos)
                if len(emitted) > gamma + 1:
                    message = f"too-many: returned {len(emitted)} tokens for gamma = {gamma}"
                    raise ContractMisuse(message)
                if emitted[:-1] != block[: len(emitted) - 1]:
                    raise ContractMisuse(
                        f"not-a-prefix: returned {emitted} for the draft {block}: all but the "
                        "last token must be an accepted prefix of the draft"
                    )
                yield emitted, len(emitted)

    def _unstack(self, result: Any, rows: int) -> list[Any]:
        raw = result.tolist() if hasattr(result, "tolist") else result
        if not isinstance(raw, list | tuple) or len(raw) != rows:
            what = f"a {type(result).__name__} of another length"
            raise ContractMisuse(f"shape: a call of {rows} rows returned {what}")
        ended = []
        for row in raw:
            tokens = list(row) if hasattr(row, "__iter__") else [row]
            while tokens and tokens[-1] == -1:
                tokens.pop()
            ended.append(tokens)
        return ended

    def _steps(self, count: int) -> Iterator[tuple[Tokens, int]]:
        gamma = self.instance.gamma
        is_step = enumeration.takes_step_arguments(self._rule)
        target = _memoised_rows(self.instance.model.target, self.length + gamma)
        draft = _memoised_rows(self.instance.model.draft, self.length + gamma)
        # One object for all: one that seeds itself when it is built would repeat itself.
        rule: Any = None

        def generate() -> tuple[Tokens, int]:
            nonlocal rule
            rng = self._next_rng()
            if rule is None and not is_step:
                rule = self._rule()
            step = self._rule if rule is None else rule.step
            firsts = []

            def more(emitted: Tokens) -> Tokens:
                tokens = self._checked(step(emitted, target, draft, gamma, rng))
                if not emitted:
                    firsts.append(len(tokens))
                return tokens

            out = enumeration.decode_generation(
                more,
                getattr(rule, "reset", None),
                length=self.length,
                eos=self.instance.eos,
                earlier_calls=self.instance.earlier_calls,
            )
            return out[: self.length], firsts[-1]

        for _ in range(count):
            yield self._call(generate)

    def _checked(self, result: Any) -> Tokens:
        try:
            tokens = enumeration.read_tokens(result)
            enumeration.check_token_ids(tokens, self.tables.vocab_size)
        except InvalidTokens as error:
            raise ContractMisuse(f"{error.kind}: {error}") from None
        return tokens

    def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._call_started = time.monotonic()
        for _ in range(_MAX_STALE_CALLS):
            try:
                return call_monitored(call, *arguments)
            except CannotEnumerate:
                continue  # draws that the code kept from the exact tier are gone after a few calls
            except (watchdog.DeadlineExpired, ContractMisuse, SimverifyError):
                raise
            except (InvalidTokens, CallBroken) as error:
                raise ContractMisuse(f"{error.kind}: {error}") from None
            except BaseException as error:  # the code may raise anything, SystemExit too
                if watchdog.is_user_interrupt(error):
                    raise
                if _is_stale_tracer(error):
                    continue
                raise ContractMisuse(f"raises: {describe_exception(error)}") from None
        raise StaleDraw

    def _next_rng(self) -> np.random.Generator:
        """Return the generator, put at the start of the next call's own stream."""
        address = self._address
        address["state"]["counter"][:] = (0, 0, self._call_number, 0)
        address["buffer_pos"], address["has_uint32"] = 4, 0
        self._bits.state = address
        self._call_number += 1
        return self._rng


def _is_stale_tracer(error: BaseException) -> bool:
    """Whether JAX or MLX met a draw that the code kept from the exact tier."""
    if type(error).__name__ == "UnexpectedTracerError" and "DrawTracer" in str(error):
        return True
    return STALE_ARRAY in str(error) or (is_held_function(error) and stale_arrays_exist())


def _memoised_rows(row: Callable[[Tokens], Floats], depth: int) -> Callable[[Tokens], Floats]:
    """Return a function that gives copies of rows computed once, for short prefixes."""
    known: dict[Tokens, Floats] = {}

    def recall(prefix: Tokens) -> Floats:
        key = tuple(prefix)
        if len(key) > depth:
            return row(key)
        if key not in known:
            known[key] = row(key)
        return known[key].copy()

    return recall
