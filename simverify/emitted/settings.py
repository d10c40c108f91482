"""How emitted tokens are judged: N, error rates and the ball, fixed before anything is seen."""

from dataclasses import dataclass

from simverify.checks import MIN_ALPHA, MIN_DETECT, ranges_iv
from simverify.emitted.judging.judge import detectable, plan_tokens
from simverify.errors import UsageError

POWER = 0.9
TOKENS = 20_000
"""N by default, at least."""

MOST_TOKENS = 100_000_000


@dataclass(frozen=True)
class OutputSettings:
    """How emitted tokens are judged.

    ``tokens``: N, fixed beforehand; None: what ``detect`` needs, ``TOKENS`` or more. ``ball``:
    TV of the engine's own rows from the rescored ones, on average over contexts; None:
    what rescoring in the target's own precision moves.
    """

    tokens: int | None = None
    alpha: float = 1e-6
    detect: float = 0.04
    ball: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        rules = (
            ("tokens", self.tokens, self.tokens is None or 1 <= self.tokens <= MOST_TOKENS,
             f"1 to {MOST_TOKENS}"),
            ("alpha", self.alpha, MIN_ALPHA <= self.alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            ("detect", self.detect, MIN_DETECT <= self.detect < 1,
             f"{MIN_DETECT:g} or more, below 1"),
            ("ball", self.ball, self.ball is None or 0 <= self.ball < 1, "0 or more, below 1"),
            ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
        )  # fmt: skip
        ranges_iv(rules)

    def planned(self, proxy: bool) -> int:
        """N: the tokens that are judged, and no more, whatever they say."""
        if self.tokens is not None:
            return self.tokens
        radius = self.ball or 0.0
        if self.detect <= 2 * radius + 1e-4:
            raise UsageError(
                f"detect is {self.detect:g} with a ball of {radius:g}: expected more than twice "
                f"the ball, and 1e-4"
            )
        wanted = max(plan_tokens(self.detect, self.alpha, radius, proxy), TOKENS)
        if wanted > MOST_TOKENS:
            raise UsageError(
                f"detect is {self.detect:g}: that takes {wanted:,} tokens, more than "
                f"{MOST_TOKENS:,}; ask for a larger deviation"
            )
        return wanted

    def plan(self, proxy: bool) -> str:
        """Say before anything is scored what will be judged, and what it can find."""
        n = self.planned(proxy)
        found = detectable(n, n, self.alpha, self.ball or 0.0, proxy)
        beside = "" if self.ball else ", and the ball that rescoring shows"
        return (
            f"plan: the first {n:,} tokens, request after request; false-alarm rate "
            f"{self.alpha:g}; power {POWER:g} against TV {found:.2g}{beside}"
        )
