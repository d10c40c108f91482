"""A coins-in verifier on trial: the joint law of a call over all drafted blocks."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Row
from simverify.auditing.coverage.watch import watched
from simverify.auditing.exact.coins.coins import MAX_CALLS, PROBES, CoinLaw, law_from_coins
from simverify.auditing.exact.generations.enumerate import check_ids, read_tokens
from simverify.auditing.exact.judging.comparison import Comparison
from simverify.auditing.exact.judging.law import Rows, compare_laws
from simverify.errors import SimverifyError
from simverify.symbolic import ExactLaw, Finding
from simverify.symbolic.enumeration.endings import BadTokens, Tokens, what_was_raised
from simverify.symbolic.errors import CallBroken, OutOfTime
from simverify.symbolic.guards.containment import from_user
from simverify.symbolic.guards.watchdog import Expired, Stopwatch, now

_LOOK = 16
"""Calls between two looks at the watch, once the time may have passed."""

CoinVerify = Callable[[Row, Row, npt.NDArray[np.int64], Row], Any]
"""``function(target_probs, draft_probs, draft_tokens, coins) -> tokens``: as ``verify``, with
``coins`` float64 (gamma+1,) in [0, 1), the last one for the residual or bonus token."""


def compare_coins(
    function: CoinVerify,
    model: Rows,
    gamma: int,
    *,
    bits: int = 53,
    tolerance: float | None = None,
    max_calls: int = MAX_CALLS,
    probes: int = PROBES,
    coins: int | None = None,
    seconds: float | None = None,
) -> Comparison:
    """As :func:`~.exact.judging.law.compare_blocks`, for code that is given its coins.

    ``bits``: 24 for code that reads its coins as float32, which draws its own from that grid.
    ``max_calls`` is for all blocks together, shared evenly. ``coins``: those of a call, gamma + 1
    if None; code with an attribute ``used`` says there how many of them its last call read.
    ``Comparison.paths`` counts constant boxes. Raises as
    :func:`~simverify.auditing.exact.coins.coins.law_from_coins`; ``OutOfTime`` after ``seconds``;
    and as the code does, ``CallBroken`` and ``SimverifyError``.
    """
    vocab = len(model.target(()))
    laws: list[tuple[Tokens, float, ExactLaw]] = []
    left, clock = max_calls, Clock(seconds)
    used, cuts = used_of(function), list[int]()
    for n, block in enumerate(itertools.product(range(vocab), repeat=gamma)):
        draft = np.array([model.draft(block[:i]) for i in range(gamma)])
        mass = float(np.prod(draft[np.arange(gamma), block]))
        if mass <= 0:
            continue
        target = np.array([model.target(block[:i]) for i in range(gamma + 1)])
        call = CoinBlock(function, target, draft, np.array(block, dtype=np.int64), clock)
        share = left // (vocab**gamma - n)
        law = law_from_coins(
            call,
            coins or gamma + 1,
            bits=bits,
            max_calls=share,
            probes=probes,
            used=used,
            cuts=cuts,
        )
        left -= law.calls
        laws.append((block, mass, call.exact_law(law)))
    return compare_laws(laws, model, gamma, tolerance)


def used_of(function: Any) -> Callable[[], int] | None:
    """Return what tells how many coins the last call read; None where the code does not say."""
    if getattr(function, "used", None) is None:
        return None
    return lambda: int(function.used)


class Clock:
    """The limit of a search: looked at now and then, for the watch itself takes time."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds, self._watch, self._calls = seconds, Stopwatch(), 0

    def tick(self) -> None:
        """Count a call; raises ``OutOfTime`` once the limit has passed."""
        self._calls += 1
        if self._seconds is None or now() - self._watch.wall < self._seconds:
            return
        if self._calls % _LOOK == 0 and (spent := self._watch.seconds()) >= self._seconds:
            raise OutOfTime(spent, self._calls)


class CoinBlock:
    """One drafted block: what the function does wrong becomes a finding, not an error.

    Unusable results are the empty tuple, which no verifier may return. ``findings``: what it did
    wrong, by kind.
    """

    def __init__(
        self, function: CoinVerify, target: Row, draft: Row, tokens: npt.NDArray[np.int64],
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
        self._function, self._clock = function, clock or Clock(None)
        self._block: tuple[Row, Row, npt.NDArray[np.int64]] = (target, draft, tokens)
        self._images = [x.tobytes() for x in self._block]
        self.findings: dict[str, Finding] = {}

    def __call__(self, coins: Row) -> Tokens:
        """Return the tokens of one call; () where they are unusable, which becomes a finding."""
        self._clock.tick()
        target, _, drafted = self._block
        given: list[Any] = [x.copy() for x in self._block]
        try:
            tokens = read_tokens(
                watched(self._function, given[0], given[1], given[2], coins.copy())
            )
            if len(tokens) > len(target):
                raise BadTokens("too-many", f"returned {len(tokens)}, gamma + 1 = {len(target)}")
            check_ids(tokens, target.shape[1])
        except BadTokens as error:
            self._find(error.kind, str(error))
            return ()
        except (CallBroken, Expired, SimverifyError):
            raise
        except BaseException as error:  # the code may raise anything, SystemExit too
            if from_user(error):
                raise
            self._find("raises", f"raised {what_was_raised(error)}")
            return ()
        if any(x.tobytes() != image for x, image in zip(given, self._images, strict=True)):
            self._find("inputs-modified", "changes its arguments in place")
        if tokens[:-1] != tuple(drafted[: len(tokens) - 1].tolist()):
            self._find("not-a-prefix", f"returned {tokens} for the draft {drafted.tolist()}")
        return tokens

    def exact_law(self, law: CoinLaw) -> ExactLaw:
        """Return ``law`` in the path enumerator's form; unresolved mass counts as pruned."""
        probabilities = dict(law.probabilities)
        lost = probabilities.pop((), 0.0)
        findings = tuple(self.findings.values())
        return ExactLaw(probabilities, law.cells, law.unresolved, lost, findings)

    def _find(self, kind: str, message: str) -> None:
        self.findings.setdefault(kind, Finding(kind, "violation", message))
