"""The cells of a sweep: a comparison of one rule on one model each, or an audit."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from simverify.errors import UsageError
from simverify.verifiers import get_verifier

if TYPE_CHECKING:
    from simverify.trees import Drafting


PartName = Literal["run", "first calls"]

NGRAM = "ngram"
"""The model whose rows no kernel on draft trees has."""


class Cell(msgspec.Struct, frozen=True):
    """One verifier on one model; ``temperature`` and ``distance`` are null but for markov-V.

    ``index``: its place in the sweep. ``drafts``, ``scheme``: so many drafts of ``gamma`` tokens
    and how they are drawn, of a rule for draft trees; null for a single draft.
    """

    index: int
    model: str
    temperature: float | None
    distance: float | None
    gamma: int
    seed: int
    verifier: str
    drafts: int | None = None
    scheme: str | None = None

    @property
    def name(self) -> str:
        """What progress and a dashboard call it."""
        knobs = "" if self.temperature is None else f" T {self.temperature:g} d {self.distance:g}"
        drafts = "" if self.drafts is None else f" drafts {self.drafts} {self.scheme}"
        return f"{self.verifier} on {self.model}{knobs} gamma {self.gamma}{drafts} seed {self.seed}"

    @property
    def drafting(self) -> "Drafting | None":
        """The draft trees; None: a single draft."""
        return drafting_of(self.gamma, self.drafts, self.scheme)

    @property
    def one_draft(self) -> bool:
        """Whether the rule judges a single draft, beside rules for draft trees or not."""
        return one_draft(self.verifier, self.drafts is not None)

    @property
    def parts(self) -> tuple[PartName, ...]:
        """What is counted before the cell is judged."""
        return parts_of(self.verifier, self.model, self.drafts is not None)


class AuditCell(msgspec.Struct, frozen=True):
    """One SPEC with one gamma and one seed; ``index`` goes on behind the cells."""

    index: int
    spec: str
    gamma: int | None
    seed: int

    @property
    def name(self) -> str:
        """What progress and a dashboard call it."""
        sized = "" if self.gamma is None else f" gamma {self.gamma}"
        return f"audit of {self.spec}{sized} seed {self.seed}"


def drafting_of(gamma: int, drafts: int | None, scheme: str | None) -> "Drafting | None":
    """Return the trees of so many drafts. Raises ``UsageError`` where they are none."""
    if drafts is None:
        return None
    from simverify.comparing.trees.asked import drafting_asked

    return drafting_asked(drafts, None, scheme, gamma)


def one_draft(verifier: str, on_trees: bool) -> bool:
    """Whether a rule judges a single draft; ``on_trees``: beside rules for draft trees."""
    if not on_trees:
        return True
    from simverify.comparing.trees.rules import ONE_DRAFT

    return verifier in ONE_DRAFT


@lru_cache(maxsize=256)
def parts_of(verifier: str, model: str, on_trees: bool) -> tuple[PartName, ...]:
    """Return what is counted of a verifier: of one with state its first calls besides.

    Nothing of a readable rule on draft trees, which is called where the cell is judged.
    """
    if one_draft(verifier, on_trees):
        step = get_verifier(verifier).contract == "step"
        return ("run", "first calls") if step else ("run",)
    from simverify.verifiers.trees import get_tree_verifier

    return ("run",) if get_tree_verifier(verifier).kernel is not None and model != NGRAM else ()


def there_iv(spec: str) -> None:
    """Raise ``UsageError`` for a SPEC whose name nobody knows, or whose file is not there.

    No code is loaded, so that its module and its attribute may still turn out to be none.
    """
    from simverify.auditing.subject import known_iv

    place, colon, attribute = spec.rpartition(":")
    if not colon:
        known_iv(spec)
    elif not place or not attribute:
        raise UsageError(f"{spec!r}: expected module:attribute or path/file.py:attribute")
    elif place.endswith(".py") and not Path(place).is_file():
        raise UsageError(f"no file {place}")
