"""Checks of what users give: names that are known, values in their range, printable texts."""

__simverify_role__ = "shared"


import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simverify.errors import OptionError, UsageError

MAX_SHOWN_TEXT = 600
"""Characters of one text that is shown: what is longer stands in the run file."""


def printable(text: str) -> str:
    """Return ``text`` without characters that could move the cursor or change colours."""
    return "".join(c if c.isprintable() else "?" for c in text)


def clean_line(text: str, longest: int = MAX_SHOWN_TEXT) -> str:
    """Return ``text`` on one line, printable and at most ``longest`` characters long.

    Control characters and those that turn the direction of writing become question marks.
    """
    shown = text if len(text) <= 2 * longest else text[: 2 * longest]  # the rest is not looked at
    line = printable(" ".join(shown.split()))
    if len(line) <= longest and len(shown) == len(text):
        return line
    return f"{line[:longest]}... ({len(text):,} characters)"


def pick_name(name: str, known: Iterable[str], kind: str) -> str:
    """Return ``name`` if it is known; otherwise raise ``UsageError`` with the nearest name."""
    names = list(known)
    if name in names:
        return name
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    known_ones = f"choose from {', '.join(names)}" if names else "there is none"
    hint = f"did you mean {nearest[0]!r}?" if nearest else known_ones
    raise UsageError(f"unknown {kind} {name!r}: {hint}")


MIN_ALPHA = 1e-300
"""Least false-alarm rate of a run: its shares for single tests must stay numbers above 0."""

MIN_DETECT = 1e-6
"""Least deviation to promise: a TV falls with the root of the tokens, and no run has 10^12."""

MAX_SECONDS = 1e6
"""Longest time limit, eleven days: the system's own clocks take no infinite one."""

MAX_GAMMA = 64
MAX_COST_RATIO = 1e6


def check_ranges(rules: Iterable[tuple[str, object, bool, str]]) -> None:
    """Raise ``UsageError`` for the first value that does not fit.

    ``rules``: its name, the value, whether it fits, and what would.
    """
    for name, value, fits, expected in rules:
        if not fits:
            raise UsageError(f"{name} is {value}: expected {expected}")


def check_comparison(
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
    check_ranges(rules)
    for verifier in verifiers:
        if list(verifiers).count(verifier) > 1:
            raise UsageError(f"verifier {verifier!r} is named twice: name each once")


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds. Raises ``UsageError`` if it cannot be read, or is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


def refuse_options(options: Mapping[str, object], why: str) -> None:
    """Raise ``OptionError`` for the first of ``options`` that was given.

    By parameter name; None, and False of a switch, is what was not. ``why``: the line, with
    the option's name for ``{option}``, and every other option by its name.
    """
    for name, value in options.items():
        if value is not None and value is not False:
            raise OptionError(why.replace("{option}", f"{{{name}}}"))
