"""How two engines are compared: error rates, what a PASS promises, and how often is asked."""

import math
from dataclasses import dataclass

from simverify import stats
from simverify.checks import MIN_ALPHA, MIN_DETECT, ranges_iv
from simverify.errors import UsageError

POWER = 0.9
MAX_TOKENS = 4
MOST_ANSWERS = 1_000_000

TRIED = 64
"""Prompts that are tried, for those that are asked often."""

TRIES = 16
"""Pairs of answers to each prompt that is tried."""

OFTEN = 8
"""Prompts that are asked often, at most: of one budget, few tell more than many."""

SIZES = 3
"""How often is asked, if answers begin in more ways than planned: as planned, twice, four times."""

DEVIATION = "a mean TV between the laws of an answer's first two tokens"
ONE_TOKEN = "mean one-token TV, of one token whose rate moves alike in all contexts"

_CELLS, _ONCE, _AT = 85.0, 0.05, 2000.0
"""What the bundled prompts had, asked 2,000 times of two engines that answer alike: beginnings of
a prompt that come twice or more, and the share of answers that begin as no other does."""

_Z_POWER = 1.2816


@dataclass(frozen=True)
class AgainstSettings:
    """How two engines are compared.

    ``repeats``: how often each prompt is asked of each; None: a few prompts are chosen, and asked
    as often as ``detect`` needs.
    """

    repeats: int | None = None
    alpha: float = 1e-6
    detect: float = 0.1
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
            {"contexts": 1.0, "counts": 2.0, "scores": 2.0, "prefixes": 1.0, "n-grams": 1.0,
             "pooled": 1.0, "twos": 1.0, "rates": 1.0, "summaries": 1.0, "swaps": 1.0},
        )  # fmt: skip

    def planned(self, prompts: int) -> int:
        """Return how often each prompt that is asked often is asked of each engine.

        Raises
        ------
        UsageError
            If that is more than a million answers.
        """
        often = min(prompts, OFTEN)
        if self.repeats is not None:
            if self.repeats * prompts > MOST_ANSWERS:
                raise UsageError(
                    f"repeats is {self.repeats:,} with {prompts:,} prompts: expected "
                    f"{MOST_ANSWERS:,} answers of each at most"
                )
            return self.repeats
        wanted = TRIES
        while self.expected(often, wanted) > self.detect:
            wanted = math.ceil(1.02 * wanted)
            if wanted * often > MOST_ANSWERS:
                raise UsageError(
                    f"detect is {self.detect:g}: that takes more than {MOST_ANSWERS:,} answers of "
                    f"each; ask for a larger deviation, or name --repeats"
                )
        # Those that are asked often have to be told from those that are only tried.
        return wanted if wanted == TRIES else max(wanted, 2 * TRIES + 1)

    def expected(self, prompts: int, repeats: int) -> float:
        """Return the mean TV that is found with power .9, where prompts are as the bundled ones."""
        cells = prompts * _CELLS * (repeats / _AT) ** 0.72
        once = min(_ONCE * (_AT / repeats) ** 0.4, 0.9)
        price = math.log(1.0 / self.shares()["counts"])
        due = 2.0 * math.sqrt(cells * price) + 2.0 * price
        excess = due
        for _ in range(50):
            excess = due + _Z_POWER * math.sqrt(2.0 * cells + 4.0 * excess)
        return min(math.sqrt(excess / (2.0 * prompts * repeats * (1.0 - once))), 1.0)

    def more(self, repeats: int, found: float, prompts: int) -> int | None:
        """Return how often prompts are asked in all where ``found`` is too much; None: no more."""
        last = self.planned(prompts) * 2 ** (SIZES - 1)
        wanted = 2 * repeats
        enough = found <= self.detect or not math.isfinite(found)
        return None if enough or wanted > last or wanted * prompts > MOST_ANSWERS else wanted

    def plan(self, prompts: int, max_tokens: int) -> str:
        """Say before anything is asked what will be asked, and what it can find."""
        repeats = self.planned(prompts)
        if self.repeats is not None:
            answers, how = 2 * repeats * prompts, f"{prompts:,} prompts"
            found = self.expected(prompts, repeats)
        else:
            often, tried = min(prompts, OFTEN), min(prompts, TRIED)
            answers = 2 * (TRIES * tried + (repeats - TRIES) * often)
            found = self.expected(often, repeats)
            how = f"{tried:,} prompts {TRIES} times, then {often:,} of them"
        again = (
            f"; up to {2 ** (SIZES - 1)} times as many if answers begin in more ways"
            if self.repeats is None else ""
        )  # fmt: skip
        return (
            f"plan: {how}, each {repeats:,} times of either, in pairs: {answers:,} answers of "
            f"{max_tokens:,} tokens at most{again}; false-alarm rate {self.alpha:g}; power "
            f"{POWER:g} against a TV of {found:.2g} between the laws of an answer's first two "
            f"tokens, if answers begin in as few ways as to simverify's own prompts"
        )
