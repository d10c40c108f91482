"""How two engines are compared: error rates, and how often each prompt is asked."""

import math
from dataclasses import dataclass

from simverify import stats
from simverify.checks import MIN_ALPHA, MIN_DETECT, ranges_iv
from simverify.errors import UsageError

POWER = 0.9
MAX_TOKENS = 64
LEAST_REPEATS = 8
MOST_ANSWERS = 1_000_000

_UNITS = 1000
"""Tokens whose rates are looked at, for the plan."""

DEVIATION = "mean one-token TV, of one token whose rate moves alike in all contexts"


@dataclass(frozen=True)
class AgainstSettings:
    """How two engines are compared.

    ``repeats``: how often each prompt is asked of each; None: what ``detect`` needs, 8 or more.
    """

    repeats: int | None = None
    alpha: float = 1e-6
    detect: float = 0.04
    seed: int = 0

    def __post_init__(self) -> None:
        rules = (
            ("repeats", self.repeats, self.repeats is None or 2 <= self.repeats <= MOST_ANSWERS,
             f"2 to {MOST_ANSWERS}"),
            ("alpha", self.alpha, MIN_ALPHA <= self.alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            ("detect", self.detect, MIN_DETECT <= self.detect < 1,
             f"{MIN_DETECT:g} or more, below 1"),
            ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
        )  # fmt: skip
        ranges_iv(rules)

    def shares(self) -> dict[str, float]:
        """Return each test's share of alpha."""
        return stats.split_alpha(
            self.alpha,
            {"contexts": 1.0, "prefixes": 1.0, "n-grams": 1.0, "pooled": 1.0, "twos": 1.0,
             "rates": 2.0, "summaries": 1.0, "swaps": 1.0},
        )  # fmt: skip

    def planned(self, prompts: int, max_tokens: int) -> int:
        """Return how often each of so many prompts is asked of each engine.

        Raises
        ------
        UsageError
            If that is more than a million answers.
        """
        if self.repeats is not None:
            if self.repeats * prompts > MOST_ANSWERS:
                raise UsageError(
                    f"repeats is {self.repeats:,} with {prompts:,} prompts: expected "
                    f"{MOST_ANSWERS:,} answers of each at most"
                )
            return self.repeats
        # A token of rate 1/2 varies most: by 1/2 in each pair of tokens.
        alpha, many = self.shares()["rates"], 1e12
        sigmas = stats.needed_shift(alpha, _UNITS, many) / math.sqrt(many)
        fewest = stats.needed_shift(alpha, _UNITS, 0.0)
        tokens = max(sigmas**2 / (2.0 * self.detect**2), fewest / self.detect)
        wanted = max(math.ceil(tokens / (prompts * max_tokens)), LEAST_REPEATS)
        if wanted * prompts > MOST_ANSWERS:
            raise UsageError(
                f"detect is {self.detect:g}: that takes {wanted * prompts:,} answers of each, more "
                f"than {MOST_ANSWERS:,}; ask for a larger deviation, or name --repeats"
            )
        return wanted

    def plan(self, prompts: int, max_tokens: int) -> str:
        """Say before anything is asked what will be asked, and what it can find."""
        repeats = self.planned(prompts, max_tokens)
        tokens = repeats * prompts * max_tokens
        price = stats.needed_shift(self.shares()["rates"], _UNITS, tokens / 2.0)
        found = min(price / tokens, 1.0)
        return (
            f"plan: {prompts:,} prompts, each {repeats:,} times of either, in pairs: "
            f"{2 * repeats * prompts:,} answers of {max_tokens:,} tokens at most; false-alarm rate "
            f"{self.alpha:g}; power {POWER:g} against a TV of {found:.2g} of one token whose rate "
            f"moves alike in all contexts, if no answer ends early"
        )
