"""What a check of two runs says, item by item, and the verdict that follows."""

from dataclasses import dataclass
from typing import Literal

from simverify.results import Verdict

ALPHA = 1e-6
DETECT = 0.02
"""Of a check for which nobody asked for others."""

Outcome = Literal["same", "worse", "better", "too short", "shown"]


@dataclass(frozen=True)
class Item:
    """One thing that was held against the baseline.

    ``low``, ``high``: interval of the difference, new less old; all intervals of a check hold
    together with probability 1 - alpha. ``pvalue``: adjusted by Holm for all tests of the check;
    both null where nothing was estimated. ``outcome``: "shown" where nothing is judged, and
    "too short" where the drop that was asked for would not be found. ``note``: a sentence.
    """

    subject: str
    what: str
    old: str
    new: str
    outcome: Outcome
    low: float | None = None
    high: float | None = None
    pvalue: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Check:
    """A run held against a baseline.

    ``alpha``: probability that the tests of a check in which nothing changed call something worse
    or better; ``verdicts``: the same of the runs' own verdicts, by the alpha of each.
    ``detect``: relative drop of E[tau] that is found with power .9, or the verdict is
    INCONCLUSIVE. ``tests``: how many share ``alpha``. ``blocks``: what would do, of each run
    ("both") or of the new one; null where the run is long enough. ``cells``: how many cells and
    audits of sweeps were held against each other; null where no sweeps were.
    """

    items: tuple[Item, ...]
    alpha: float
    detect: float
    tests: int
    blocks: int | None = None
    both: bool = False
    notes: tuple[str, ...] = ()
    verdicts: float = 0.0
    cells: int | None = None

    @property
    def rate(self) -> float:
        """Probability of a false word in all, at most: of the tests and of both runs' verdicts."""
        return min(1.0, (self.alpha if self.tests else 0.0) + self.verdicts)

    @property
    def verdict(self) -> Verdict:
        """FAIL if anything is worse, INCONCLUSIVE if anything cannot be told, else PASS."""
        outcomes = {item.outcome for item in self.items}
        if "worse" in outcomes:
            return "FAIL"
        return "INCONCLUSIVE" if "too short" in outcomes else "PASS"

    def of(self, outcome: Outcome) -> tuple[Item, ...]:
        """Return the items with this outcome."""
        return tuple(item for item in self.items if item.outcome == outcome)
