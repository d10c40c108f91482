"""Limits that commands share."""

from collections.abc import Iterable, Sequence

from simverify.errors import UsageError

MIN_ALPHA = 1e-300
"""Least false-alarm rate of a run: its shares for single tests must stay numbers above 0."""

MIN_DETECT = 1e-6
"""Least deviation to promise: a TV falls with the root of the tokens, and no run has 10^12."""

MAX_SECONDS = 1e6
"""Longest time limit, eleven days: the system's own clocks take no infinite one."""

MAX_GAMMA = 64
MAX_COST_RATIO = 1e6


def ranges_iv(rules: Iterable[tuple[str, object, bool, str]]) -> None:
    """Raise ``UsageError`` for the first value that does not fit.

    ``rules``: its name, the value, whether it fits, and what would.
    """
    for name, value, fits, expected in rules:
        if not fits:
            raise UsageError(f"{name} is {value}: expected {expected}")


def comparison_iv(
    verifiers: Sequence[str],
    *,
    gamma: int,
    cost_ratio: float,
    alpha: float,
    detect: float,
    seed: int,
) -> None:
    """Check what every comparison is asked for, of simulated models, real ones or a trace.

    Raises ``UsageError`` that names the first value out of its range, or a verifier named twice.
    """
    below_one = "{:g} or more, below 1".format
    rules = (
        ("gamma", gamma, 1 <= gamma <= MAX_GAMMA, f"1 to {MAX_GAMMA}"),
        ("cost ratio", cost_ratio, 0 <= cost_ratio <= MAX_COST_RATIO, f"0 to {MAX_COST_RATIO:g}"),
        ("alpha", alpha, MIN_ALPHA <= alpha < 1, below_one(MIN_ALPHA)),
        ("detect", detect, MIN_DETECT <= detect < 1, below_one(MIN_DETECT)),
        ("seed", seed, 0 <= seed < 2**64, "0 to 2^64 - 1"),
    )
    ranges_iv(rules)
    for verifier in verifiers:
        if list(verifiers).count(verifier) > 1:
            raise UsageError(f"verifier {verifier!r} is named twice: name each once")
