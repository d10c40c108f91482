"""What a comparison says of acceptance: expected and measured tokens, the optimum, speed."""

from typing import Literal

from simverify.results.common import Struct


class Expected(Struct, frozen=True):
    """Exact E[tau] of one call.

    ``exact``: null for a statistical interval and for ``counting``, an upper bound alone, and
    for ``measured``, where nobody knows the law; with ``dp`` the middle of the certain bounds.
    ``fraction``: the same number as "a/b" where it is rational. ``lower``, ``upper``:
    enclosing bounds; certain, unless ``confidence`` says with what probability they hold.
    """

    exact: float | None
    fraction: str | None
    lower: float
    upper: float
    method: Literal[
        "enumeration",
        "closed-form",
        "dp",
        "rao-blackwell",
        "linear-programme",
        "counting",
        "measured",
    ]
    confidence: float | None = None


class Measured(Struct, frozen=True):
    """A mean over blocks with a two-sided confidence interval.

    Of simulated blocks it is valid at any n; of real models' by Student's t over lanes,
    approximate.
    """

    mean: float
    ci_low: float
    ci_high: float
    confidence: float
    blocks: int


class Optimum(Struct, frozen=True):
    """What the rule is measured against: ``block`` without state, ``coupling`` with it.

    On draft trees ``memoryless``: the best rule without state for the tree and its scheme.
    ``by``: how that was found; ``coupling`` and ``counting`` are bounds on it. ``bound``: no rule
    may reach ``expected_accepted``, and ``optimality`` is the least that it can be.
    """

    name: Literal["block", "coupling", "memoryless"]
    expected_accepted: float
    by: Literal["closed-form", "linear-programme", "coupling", "counting"] | None = None
    bound: bool = False


class Curve(Struct, frozen=True):
    """Pr(tau >= l) for l = 1..gamma: bounds (equal where exact) and measured frequencies."""

    exact: tuple[float, ...] | None
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    measured: tuple[float, ...]


class Speedup(Struct, frozen=True):
    """Latency model: (E[tau] + 1) / (gamma cost_ratio + 1), target calls costing 1.

    ``cost_ratio``: as given. What was measured on real models is :class:`Latency`. A call of
    ``batch_size`` sequences and ``rows`` each costs max(1, batch_size rows / ``free_rows``), of
    the draft's calls too, and so does one without a draft; null: all rows are free.
    """

    cost_ratio: float
    predicted: float
    batch_size: int = 1
    free_rows: float | None = None
    rows: int | None = None


class AfterCalls(Struct, frozen=True):
    """Tokens out after ``calls`` calls, judged under ``acceptance`` where ``exact`` is known."""

    calls: int
    exact: float | None
    fraction: str | None
    measured: Measured


class Paired(Struct, frozen=True):
    """E[tau] on the drafted blocks of another rule's run, less that rule's, block by block.

    Both are what the rows let expect, so the coins drop out of the difference; the interval is
    by Student's t over lanes, approximate.
    """

    baseline: str
    difference: float
    ci_low: float
    ci_high: float
    confidence: float
    blocks: int
