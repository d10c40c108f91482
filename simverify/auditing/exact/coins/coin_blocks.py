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
from simverify.symbolic import ExactLaw, Finding
from simverify.symbolic.enumeration.endings import BadTokens, Tokens, what_was_raised
from simverify.symbolic.guards.containment import from_user
from simverify.symbolic.guards.watchdog import Expired

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
) -> Comparison:
    """As :func:`~.exact.judging.law.compare_blocks`, for code that is given its coins.

    ``bits``: 24 for code that reads its coins as float32, which draws its own from that grid.
    ``max_calls`` is for all blocks together, shared evenly. ``Comparison.paths`` counts constant
    boxes. Raises as :func:`~simverify.auditing.exact.coins.coins.law_from_coins`.
    """
    vocab = len(model.target(()))
    laws: list[tuple[Tokens, float, ExactLaw]] = []
    left = max_calls
    for n, block in enumerate(itertools.product(range(vocab), repeat=gamma)):
        draft = np.array([model.draft(block[:i]) for i in range(gamma)])
        mass = float(np.prod(draft[np.arange(gamma), block]))
        if mass <= 0:
            continue
        target = np.array([model.target(block[:i]) for i in range(gamma + 1)])
        call = _Block(function, target, draft, np.array(block, dtype=np.int64))
        share = left // (vocab**gamma - n)
        law = law_from_coins(call, gamma + 1, bits=bits, max_calls=share, probes=probes)
        left -= law.calls
        laws.append((block, mass, call.exact_law(law)))
    return compare_laws(laws, model, gamma, tolerance)


class _Block:
    """One drafted block: what the function does wrong becomes a finding, not an error.

    Unusable results are the empty tuple, which no verifier may return.
    """

    def __init__(
        self, function: CoinVerify, target: Row, draft: Row, tokens: npt.NDArray[np.int64]
    ) -> None:
        self._function = function
        self._block: tuple[Row, Row, npt.NDArray[np.int64]] = (target, draft, tokens)
        self._images = [x.tobytes() for x in self._block]
        self._findings: dict[str, Finding] = {}

    def __call__(self, coins: Row) -> Tokens:
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
        except Expired:
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
        findings = tuple(self._findings.values())
        return ExactLaw(probabilities, law.cells, law.unresolved, lost, findings)

    def _find(self, kind: str, message: str) -> None:
        self._findings.setdefault(kind, Finding(kind, "violation", message))
