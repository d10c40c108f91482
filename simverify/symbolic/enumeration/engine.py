"""Depth-first re-execution of code under audit: the exact law of what it emits."""

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from simverify.symbolic.enumeration.endings import (
    Call,
    End,
    ExactLaw,
    Outcome,
    Tokens,
    attempt,
    confirmed,
)
from simverify.symbolic.enumeration.paths import Choice, Heaviest, Path, explore
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.enumeration.trails import Trail, plans_of
from simverify.symbolic.errors import (
    UNTRACKED,
    ArrayOfDraws,
    CannotEnumerate,
    FloatOfDraw,
    IntOfDraw,
    OnSymbolsAlone,
    OutOfTime,
    StandInsChanged,
    TooLarge,
    TooManyValues,
    Untracked,
)
from simverify.symbolic.guards.watchdog import Expired, Stopwatch, deadline, now
from simverify.symbolic.stand_ins.compiled import naming_kernels
from simverify.symbolic.stand_ins.intercept import global_states_kept, intercepted, real_states
from simverify.symbolic.stand_ins.lift import Lift
from simverify.symbolic.whose import boundary

RARE = 1e-6
"""Up to this probability what goes wrong is an event at the edge of a draw: a warning."""

HANG_SECONDS = 1.0
"""A path that was cut off sooner than this had too little time to be called a hang."""

LONGER = 20
"""Nor is one a hang that took less than so many times the longest path that came to its end:
slow code, which a slower machine or a shorter limit cuts off, is no code that never returns."""


class Enumeration:
    """Interception of the randomness of ``code`` for the length of a ``with`` block.

    ``run`` may be called many times inside; setting up once per audit keeps paths cheap.
    ``rng`` is the symbolic generator to hand to the code. ``leaves`` counts the ends of paths
    so far, of which the first are replayed most; those of an earlier enumeration of the same
    code may be counted in. ``lift``: types that the code computes in as if they were float64.
    ``trails``: a list, where every path is to be kept in it with numbers that lead down it;
    ``stuck``: the path on which the code did not come back.
    ``interceptions`` counts how often names were replaced, by other stand-ins each time;
    ``intercepting``: whether they are now.
    """

    rng: np.random.Generator

    def __init__(
        self,
        code: Any,
        *,
        prune: float = 1e-12,
        seed_once: bool = False,
        leaves: int = 0,
        lift: Lift | None = None,
    ) -> None:
        self._code = code
        self.source = Source(prune, seed_once=seed_once)
        self._stack = ExitStack()
        self.leaves = leaves
        self._lift = lift
        self._shadow_float = self._shadow_int = self._shadow_arrays = False
        self.interceptions = 0
        self._as_draws: tuple[CannotEnumerate, int] | None = None
        self.release()
        # Made before interception: the replays need real numbers.
        self._replay_rng = np.random.Generator(np.random.PCG64(20251))
        self._longest = 0.0
        self.trails: list[Trail] | None = None
        self.stuck: Trail | None = None

    def __enter__(self) -> "Enumeration":
        return self

    def _intercept(self, call: Call) -> None:
        """Intercept from now on, after a plain run in which the code may import things.

        An import under interception would take its own random numbers from us, and torch can
        only be followed once the code has imported it.
        """
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(np.errstate(all="ignore"))
            self.source.begin(Path())
            with global_states_kept():
                attempt(self.source, call)
            self.rng = stack.enter_context(
                intercepted(
                    self.source,
                    self._code,
                    shadow_float=self._shadow_float,
                    shadow_int=self._shadow_int,
                    shadow_arrays=self._shadow_arrays,
                    lift=self._lift,
                )
            )()
            self._stack = stack.pop_all()
        self.intercepting = True
        self.interceptions += 1

    def __exit__(self, *_raised: object) -> None:
        self.release()

    def release(self) -> None:
        """Put everything back until the next run."""
        self._stack.close()
        self.intercepting = False
        self.rng = np.random.Generator(np.random.PCG64(20250))

    @boundary
    def run(
        self,
        call: Call,
        *,
        max_paths: int | None,
        seconds: float | None,
        since: Sequence[Choice] = (),
        mark: Callable[[], Hashable] | None = None,
        enough: float | None = None,
    ) -> ExactLaw:
        """Enumerate ``call``, which runs the code once and returns canonical tokens.

        ``since``: only what follows these choices, on condition that they are made. ``mark``: asked
        at the end of each path that emitted tokens; then ends are kept. ``enough``: the mass that
        may be left out, heaviest paths first, of code whose paths have no end. ``call`` raises
        :class:`BadTokens` for an unusable result. Raises :class:`CannotEnumerate`,
        :class:`StandInsChanged` (``since`` alone), :class:`OutOfTime` or ``TooManyPaths``.
        """
        watch, left, kept = Stopwatch(), seconds, len(self.trails or ())
        while True:
            try:
                return self._run(call, max_paths, left, since, mark, enough)
            except CannotEnumerate as error:
                # The paths before the one that stopped it are kept: what they did may repeat.
                if not self._another_way(error):
                    raise naming_kernels(self._code, self._furthest(error)) from None
                del (self.trails or [])[kept:]
                if since:
                    raise StandInsChanged from None
            if seconds is not None:
                left = max(0.01, seconds - watch.seconds())

    def _another_way(self, error: CannotEnumerate) -> bool:
        """Whether to try again, with the stand-ins changed.

        Told apart from the first try, because what only looks like a float or an integer may
        itself stop code that never needed it.
        """
        # Draws in np.array([u, 0.3]) are doubles from then on, which numpy does not tell them.
        if isinstance(error, ArrayOfDraws):
            self._shadow_arrays, self.source.refuses_arrays = True, False
        elif isinstance(error, Untracked) and not self.source.signs_zeros:
            self._shadow_float = self.source.signs_zeros = True
        elif isinstance(error, FloatOfDraw | OnSymbolsAlone) and not self._shadow_float:
            self._shadow_float = True
        elif isinstance(error, IntOfDraw) and not self._shadow_int:
            self._shadow_int, self.source.refuses_many = True, False
        elif self.source.postponed and not self.source.at_once and not isinstance(error, TooLarge):
            self._shadow_int = self.source.refuses_many = False
            self.source.at_once = True
            self._as_draws = error, len(self.source.draws)
        else:
            return False
        self.release()
        return True

    def _furthest(self, error: CannotEnumerate) -> CannotEnumerate:
        """Return what stopped the try that got further, the last one or the one before it.

        To fork on each value of a draw is the last resort. Where a draw has too many for it, it
        stops there, and says nothing of what stopped the code as long as that stayed a draw.
        """
        if self._as_draws is None or not isinstance(error, TooManyValues):
            return error
        before, draws = self._as_draws
        if len(self.source.draws) > draws:
            return error
        return type(before)(before.call, before.where, error.findings)

    def _run(
        self,
        call: Call,
        max_paths: int | None,
        seconds: float | None,
        since: Sequence[Choice],
        mark: Callable[[], Hashable] | None,
        enough: float | None,
    ) -> ExactLaw:
        source = self.source
        law: dict[Tokens, float] = {}
        ends: dict[tuple[Tokens, Hashable], End] = {}
        lost = slack = 0.0
        paths = 0
        watch, path_started = Stopwatch(), now()

        def one(path: Path) -> Outcome:
            nonlocal path_started
            path_started = now()
            source.begin(path)
            outcome = attempt(source, call)
            self._longest = max(self._longest, now() - path_started)
            if self.trails is not None and outcome.kind != "cut":
                self.trails.append(self._trail(call, path, outcome))
            marked = None if outcome.tokens is None or mark is None else mark()
            self.leaves += 1
            if not confirmed(source, call, outcome, self._replay_rng, self.leaves):
                del (self.trails or [])[-1:]
                return Outcome(None, "cut")
            if mark is not None and outcome.tokens is not None:
                key = outcome.tokens, marked
                ends.setdefault(key, End(*key)).add(path)
            return outcome

        by_kind: dict[str, float] = {}
        complete = True
        try:
            with deadline(seconds):
                if not self.intercepting:
                    self._intercept(call)
                source.findings.clear()
                source.dtypes.clear()
                source.pruned = 0.0
                before = real_states()
                heaviest = None
                if enough is not None:
                    heaviest = Heaviest(one, enough=enough, max_paths=max_paths, since=since)
                for outcome, weight in heaviest or explore(one, max_paths=max_paths, since=since):
                    paths += 1
                    slack += float(weight) * source.slack
                    if outcome.kind == "cut":
                        source.pruned += float(weight)
                    elif outcome.tokens is None:
                        lost += float(weight)
                        kind = outcome.kind
                        by_kind[kind] = by_kind.get(kind, 0.0) + float(weight)
                        grave = by_kind[kind] > RARE
                        source.find(kind, "violation" if grave else "warning", outcome.message)
                    else:
                        law[outcome.tokens] = law.get(outcome.tokens, 0.0) + float(weight)
                if heaviest is not None:
                    source.pruned += heaviest.rest
                if real_states() != before:
                    source.refuse(f"{UNTRACKED}: a global generator moved", Untracked)
        except Expired:
            spent = watch.seconds()
            # The path's part of them, by its part of the wall clock, which is cheap to read.
            took = spent * (now() - path_started) / (now() - watch.wall)
            if took < max(HANG_SECONDS, spent / 2, LONGER * self._longest):
                raise OutOfTime(spent, paths) from None
            self.stuck = self._trail(call, source.path, Outcome(None, "hangs", "hangs"))
            # No measured time: a result is the same on any machine.
            source.find("hangs", "violation", "did not return before the time limit")
            complete = False
        return ExactLaw(
            law, paths, source.pruned + slack, lost, tuple(source.findings.values()), complete,
            frozenset(source.dtypes), tuple(ends.values()), tuple(by_kind.items()),
        )  # fmt: skip

    def _trail(self, call: Call, path: Path, outcome: Outcome) -> Trail:
        plans = plans_of(self.source, self._replay_rng)
        return Trail(call, outcome, float(path.weight), plans)

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Follow nothing: draws are numbers in the types of the libraries that draw them."""
        self.release()
        with (
            global_states_kept(),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            intercepted(self.source, self._code, shadow_float=False, plain=True) as generator,
        ):
            warnings.simplefilter("ignore")
            self.rng = generator()
            yield
        self.release()
