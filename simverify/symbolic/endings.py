"""How a call of code under audit ends, and the exact law of its ends."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from simverify.symbolic.enumeration.paths import Choice, Path
from simverify.symbolic.errors import Finding
from simverify.symbolic.whose import user_line

Tokens = tuple[int, ...]


class BadTokens(Exception):
    """What the code returned is not a sequence of tokens; carries the finding's text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Outcome:
    """One call's end: the tokens, or what went wrong."""

    tokens: Tokens | None
    kind: str = ""
    message: str = ""


def what_was_raised(error: BaseException) -> str:
    """Return ``ValueError: its message (file:line)``, the line being the user's innermost.

    Of the message the first line, cut to a readable length; a bare ``raise ValueError`` has none,
    which is said.
    """
    name = type(error).__name__
    try:
        lines = str(error).splitlines()
    except Exception:
        lines = ["(its message cannot be printed)"]
    what = f"{name}: {lines[0][:200]}" if lines and lines[0] else f"{name} without a message"
    return what + user_line(error)


@dataclass
class End:
    """Paths that end alike: the same tokens, and the same mark made at their ends.

    ``ways``: the choices of the first of them, and of one that chose otherwise, if any.
    """

    tokens: Tokens
    mark: Hashable
    weight: float = 0.0
    ways: list[tuple[Choice, ...]] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Count one more path."""
        self.weight += float(path.weight)
        if len(self.ways) < 2:
            self.ways.append(tuple(path.choices[: path.position]))


@dataclass(frozen=True)
class ExactLaw:
    """The exact law of what a piece of code emits.

    ``probabilities`` maps each emitted tuple of tokens to its probability; ``lost`` is the
    mass of paths that emitted nothing usable (see ``findings``) and ``pruned`` bounds the
    mass of what was not run or not followed to the last bit. The three sum to 1.
    ``complete`` is false if the code never came back and the rest was not run. ``dtypes``: the
    precisions below float64 of numbers that met a draw. ``ends``: the same law with the marks
    of its paths; ``lost_by``: what was lost, by kind of finding.
    """

    probabilities: dict[Tokens, float]
    paths: int
    pruned: float
    lost: float
    findings: tuple[Finding, ...]
    complete: bool = True
    dtypes: frozenset[str] = frozenset()
    ends: tuple[End, ...] = ()
    lost_by: tuple[tuple[str, float], ...] = ()

    @property
    def open(self) -> dict[Tokens, float]:
        """Sequences after which nothing is known: none, every path was run to its end."""
        return {}
