"""What an audit says of the code's lines and branches that ran."""

from msgspec import UNSET, UnsetType

from simverify.results.common import Struct


class MissedLines(Struct, frozen=True):
    """Lines ``first`` to ``last`` of a file that no watched call reached.

    ``why``: the head of the arm that was not entered, as ``if vocab > 1000``; "" if it has none.
    """

    file: str
    first: int
    last: int
    why: str


class Coverage(Struct, frozen=True):
    """Which lines and branches of the code under audit ran, in the calls that were watched.

    Counted are the functions that the rule reaches by name, in its file's folder. A branch is an
    outcome of a test; ``not_taken`` tells in words those that never came, where no line of
    ``not_reached`` does. ``numbers``: those in the code that instances were made for.
    ``prefix``: the longest prefix that a rule which drafts itself was called on. ``calls``: of code
    that keeps something, or whose state cannot be read, the most calls between two resets, or all
    where there is none. What begins beyond them was not looked for.
    """

    lines: int
    lines_reached: int
    branches: int
    branches_reached: int
    not_reached: tuple[MissedLines, ...]
    not_taken: tuple[str, ...]
    numbers: tuple[float, ...] = ()
    prefix: int | UnsetType = UNSET
    calls: int | UnsetType = UNSET
