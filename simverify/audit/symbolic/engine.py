"""Depth-first re-execution of code under audit, with checks that it was really followed."""

import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from simverify.audit.containment import from_user
from simverify.audit.symbolic.compiled import compiled_calls
from simverify.audit.symbolic.errors import UNTRACKED, CannotEnumerate, Finding, OutOfTime
from simverify.audit.symbolic.floats import REFUSALS
from simverify.audit.symbolic.integers import MANY_VALUES
from simverify.audit.symbolic.intercept import intercepted, real_states
from simverify.audit.symbolic.lift import Lift
from simverify.audit.symbolic.source import Source
from simverify.audit.symbolic.watchdog import Expired, Stopwatch, deadline, now
from simverify.simulators.exact.paths import Path, explore

Tokens = tuple[int, ...]


REPLAYS = ((8, 8), (32, 2))
"""(n, k): of the leaves up to the n-th of an enumeration, each is run again k times."""

REPLAY_EVERY = 64
"""Beyond those, one leaf in this many is run again, once."""

RARE = 1e-6
"""Up to this probability what goes wrong is an event at the edge of a draw: a warning."""

HANG_SECONDS = 1.0
"""A path that was cut off sooner than this had too little time to be called a hang."""

REPEATS = 16
"""Runs of code that never forked."""


class BadTokens(Exception):
    """What the code returned is not a sequence of tokens; carries the finding's text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class ExactLaw:
    """The exact law of what a piece of code emits.

    ``probabilities`` maps each emitted tuple of tokens to its probability; ``lost`` is the
    mass of paths that emitted nothing usable (see ``findings``) and ``pruned`` bounds the
    mass of what was not run or not followed to the last bit. The three sum to 1.
    ``complete`` is false if the code never came back and the rest was not run. ``dtypes``: the
    precisions below float64 of numbers that met a draw.
    """

    probabilities: dict[Tokens, float]
    paths: int
    pruned: float
    lost: float
    findings: tuple[Finding, ...]
    complete: bool = True
    dtypes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Outcome:
    """One path's end: the tokens, or what went wrong."""

    tokens: Tokens | None
    kind: str = ""
    message: str = ""


class Enumeration:
    """Interception of the randomness of ``code`` for the length of a ``with`` block.

    ``run`` may be called many times inside; setting up once per audit keeps paths cheap.
    ``rng`` is the symbolic generator to hand to the code. ``leaves`` counts the ends of paths
    so far, of which the first are replayed most; those of an earlier enumeration of the same
    code may be counted in. ``lift``: types that the code computes in as if they were float64.
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
        self._shadow_float = self._shadow_int = False
        self.release()
        # Made before interception: the replays need real numbers.
        self._replay_rng = np.random.Generator(np.random.PCG64(20251))

    def __enter__(self) -> "Enumeration":
        return self

    def _intercept(self, call: Callable[[], Tokens]) -> None:
        """Intercept from now on, after a plain run in which the code may import things.

        An import under interception would take its own random numbers from us, and torch can
        only be followed once the code has imported it.
        """
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(np.errstate(all="ignore"))
            self.source.begin(Path())
            with _global_states_kept():
                self._attempt(call)
            self.rng = stack.enter_context(
                intercepted(
                    self.source,
                    self._code,
                    shadow_float=self._shadow_float,
                    shadow_int=self._shadow_int,
                    lift=self._lift,
                )
            )()
            self._stack = stack.pop_all()
        self._intercepting = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def release(self) -> None:
        """Put everything back until the next run."""
        self._stack.close()
        self._intercepting = False
        self.rng = np.random.Generator(np.random.PCG64(20250))

    def run(
        self, call: Callable[[], Tokens], *, max_paths: int | None, seconds: float | None
    ) -> ExactLaw:
        """Enumerate ``call``, which runs the code once and returns canonical tokens.

        ``call`` raises :class:`BadTokens` for an unusable result. Raises
        :class:`CannotEnumerate`, :class:`OutOfTime` or ``TooManyPaths``.
        """
        watch, left = Stopwatch(), seconds
        while True:
            try:
                return self._run(call, max_paths, left)
            except CannotEnumerate as error:
                if not self._another_way(error):
                    raise self._naming_kernels(error) from None
            if seconds is not None:
                left = max(0.01, seconds - watch.seconds())

    def _another_way(self, error: CannotEnumerate) -> bool:
        """Whether to try again, with the stand-ins changed.

        Told apart from the first try, because what only looks like a float or an integer may
        itself stop code that never needed it.
        """
        if error.call in REFUSALS and not self._shadow_float:
            self.release()
            self._shadow_float = True
            return True
        if error.call == MANY_VALUES and not self._shadow_int:
            self.release()
            self._shadow_int = True
            self.source.refuses_many = False
            return True
        if self.source.postponed and not self.source.at_once:
            self.release()
            self._shadow_int = self.source.refuses_many = False
            self.source.at_once = True
            return True
        return False

    def _naming_kernels(self, error: CannotEnumerate) -> CannotEnumerate:
        """Say which compiled kernel may have drawn what was not tracked."""
        kernel, where = next(compiled_calls(self._code), (None, ""))
        if kernel is None or not error.call.startswith(UNTRACKED):
            return error
        call = f"{error.call}. Compiled code cannot be followed: {kernel}"
        return CannotEnumerate(call, where, error.findings)

    def _run(
        self, call: Callable[[], Tokens], max_paths: int | None, seconds: float | None
    ) -> ExactLaw:
        source = self.source
        law: dict[Tokens, float] = {}
        lost = slack = 0.0
        paths = 0
        watch, path_started = Stopwatch(), now()

        def one(path: Path) -> _Outcome:
            nonlocal path_started
            path_started = now()
            source.begin(path)
            outcome = self._attempt(call)
            if not path.choices and not source.draws:
                self._repeat(call, outcome)
            self.leaves += 1
            for _ in range(_replays(self.leaves, outcome)):
                self._replay(call, outcome)
            return outcome

        by_kind: dict[str, float] = {}
        try:
            with deadline(seconds):
                if not self._intercepting:
                    self._intercept(call)
                source.findings.clear()
                source.dtypes.clear()
                source.pruned = 0.0
                before = real_states()
                for outcome, weight in explore(one, max_paths=max_paths):
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
                if real_states() != before:
                    source.refuse(f"{UNTRACKED}: a global generator moved")
        except Expired:
            spent = watch.seconds()
            # The path's part of them, by its part of the wall clock, which is cheap to read.
            took = spent * (now() - path_started) / (now() - watch.wall)
            if took < max(HANG_SECONDS, spent / 2):
                raise OutOfTime(spent, paths) from None
            # No measured time: a result is the same on any machine.
            source.find("hangs", "violation", "did not return before the time limit")
            return self._law(law, paths, slack, lost, complete=False)
        return self._law(law, paths, slack, lost, complete=True)

    def _law(
        self, law: dict[Tokens, float], paths: int, slack: float, lost: float, *, complete: bool
    ) -> ExactLaw:
        findings = tuple(self.source.findings.values())
        pruned = self.source.pruned + slack
        dtypes = frozenset(self.source.dtypes)
        return ExactLaw(law, paths, pruned, lost, findings, complete, dtypes)

    def _attempt(self, call: Callable[[], Tokens]) -> _Outcome:
        source = self.source
        outcome: _Outcome
        try:
            outcome = _Outcome(call())
        except Expired:
            raise
        except CannotEnumerate:
            outcome = _Outcome(None)
        except BadTokens as error:
            outcome = _Outcome(None, error.kind, str(error))
        except BaseException as error:  # the user's code may raise anything, SystemExit too
            if from_user(error):
                raise
            message = f"raised {type(error).__name__}: {one_line(error)}{user_line(error)}"
            outcome = _Outcome(None, "raises", message)
        if source.cut:
            return _Outcome(None, "cut")
        if source.failure is not None:
            # The code may have swallowed it; the path was wrong from there on.
            raise source.failure
        return outcome

    def _repeat(self, call: Callable[[], Tokens], outcome: _Outcome) -> None:
        """Run code that drew nothing again: it may draw from something not intercepted."""
        for _ in range(REPEATS):
            again = self._attempt(call)
            if (again.tokens, again.kind) != (outcome.tokens, outcome.kind):
                self.source.refuse(f"{UNTRACKED}: the result changed")

    def _replay(self, call: Callable[[], Tokens], outcome: _Outcome) -> None:
        """Run the path again on plain numbers; it must end the same way."""
        source = self.source
        kept = source.snapshot()
        plan = source.plan_like_this_path(self._replay_rng)
        if plan is None:
            if outcome.tokens is None:
                source.refuse(f"code that {outcome.message}, where no numbers confirm it")
            return
        source.begin(Path(), plan)
        try:
            with source.builtins.plain():
                again = self._attempt(call)
        except CannotEnumerate:
            if outcome.kind == "raises":
                source.failure = None
                source.refuse(f"code that {outcome.message} on a symbolic draw")
            raise
        source.restore(kept)
        if (again.tokens, again.kind) == (outcome.tokens, outcome.kind):
            return
        if outcome.tokens is None:
            source.refuse(f"code that {outcome.message} on a symbolic draw")
        source.refuse(
            f"{UNTRACKED}: a repeated path emitted "
            f"{again.tokens or again.kind} instead of {outcome.tokens or outcome.kind}"
        )


@contextmanager
def _global_states_kept() -> Iterator[None]:
    """Put the process's own generators back: a run of the user's code moves or seeds them."""
    legacy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(legacy)  # noqa: NPY002
        random.setstate(python)


def _replays(leaf: int, outcome: _Outcome) -> int:
    if outcome.kind == "cut":
        return 0
    for last, times in REPLAYS:
        if leaf <= last:
            return times
    return int(outcome.tokens is None or leaf % REPLAY_EVERY == 0)


def one_line(error: BaseException) -> str:
    """First line of an error's message, cut to a readable length."""
    try:
        return str(error).splitlines()[0][:200] if str(error) else ""
    except Exception:
        return "(its message cannot be printed)"


def user_line(error: BaseException) -> str:
    """`` (file:line)`` of the innermost user code in the traceback, or nothing."""
    trace = error.__traceback__
    found = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        library = trace.tb_frame.f_globals.get("__name__", "").split(".")[0]
        ours = "simverify/audit" in file or "site-packages" in file
        if not ours and library not in sys.stdlib_module_names:
            found = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found
