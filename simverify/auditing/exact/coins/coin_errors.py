"""What keeps a law from being found by bisection of its coins."""

from simverify.symbolic.enumeration.endings import Tokens
from simverify.symbolic.errors import CallBroken, CannotEnumerate, Finding

HIDDEN = (
    "two calls with the same coins gave different tokens: the code draws more than its coins, "
    "use the sampled tier"
)


class Hidden(ValueError):
    """Two calls with the same coins gave different tokens."""

    def __init__(self) -> None:
        super().__init__(HIDDEN)


class ReadsMore(Exception):
    """Coins that the code says it does not read change its tokens: from number ``first`` on."""

    def __init__(self, first: int, tokens: Tokens, found: Tokens) -> None:
        super().__init__(
            f"says that it read {first} coins, and later ones change its tokens from {tokens} to "
            f"{found}"
        )


class NotMonotone(Exception):
    """An output comes back along a coin: bisection cannot find where.

    ``coin`` is the coin's index; ``points`` are three values of it in ascending order, the
    others being held at ``held``: the outer two give ``outer``, the one between ``inner``.
    """

    def __init__(
        self, coin: int, points: tuple[float, float, float], held: tuple[float, ...],
        outer: Tokens, inner: Tokens,
    ) -> None:  # fmt: skip
        low, mid, high = points
        super().__init__(
            f"coin {coin} is not monotone: {low:.17g} and {high:.17g} give {outer} but "
            f"{mid:.17g} gives {inner} (all coins {held}): use the sampled tier"
        )
        self.coin, self.points, self.held = coin, points, held
        self.outer, self.inner = outer, inner


class TooManyCalls(Exception):
    """The budget ended before the first box was settled."""

    def __init__(self, budget: int, coins: int) -> None:
        super().__init__(
            f"max_calls={budget} is less than the {2**coins} corners of {coins} coins: raise it "
            "or audit a shorter draft"
        )
        self.budget = budget


NOT_BISECTED = (NotMonotone, Hidden, ReadsMore, CallBroken)
"""What stops the tier: the code as a whole, and not the size of one instance."""


class CallsBroken(CannotEnumerate):
    """Calls broke their contract in a way after which nothing can be asked.

    ``line``: what a program in another language was asked then, where it is one.
    """

    def __init__(self, finding: Finding, line: str | None) -> None:
        super().__init__("code whose calls are broken", "", (finding,))
        self.line = line


def limit_of(error: Exception, name: str) -> CannotEnumerate:
    """Return what stopped the tier on the instance of that name.

    Where that is a broken contract it is with its finding, for nothing more can be asked.
    """
    if isinstance(error, NotMonotone):
        return CannotEnumerate(f"coins: {error}")
    kind = error.kind if isinstance(error, CallBroken) else "own-randomness"
    kind = "coins" if isinstance(error, ReadsMore) else kind
    finding = Finding(kind, "violation", f"{error}, on {name}")
    return CallsBroken(finding, getattr(error, "line", None))
