"""What kind of rows a failure needs: any, equal ones, or zeros on one side or on both.

Engines mask and truncate, so zeros are real. But code that divides by zero where p and q are
disjoint, and is lossless elsewhere, is other news than code that is wrong on every row.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import Weights
from simverify.auditing.exact.judging.examiner import Judged

Kind = Literal["plain", "equal", "zeros of p", "zeros of q", "zeros of both", "disjoint"]

WHERE: dict[Kind, str] = {
    "plain": "on rows without zeros",
    "equal": "where p = q",
    "zeros of p": "where p has zeros",
    "zeros of q": "where q has zeros",
    "zeros of both": "where p and q have zeros",
    "disjoint": "where no token has both p > 0 and q > 0",
}
"""Kinds of instances, those with fewer peculiarities first, in words."""

_RIGHT: dict[Kind, str] = {
    "equal": "on rows without zeros in which p and q differ",
    "zeros of p": "on rows without zeros",
    "zeros of q": "on rows without zeros",
    "zeros of both": "on rows with zeros on one side at most",
    "disjoint": "on rows in which some token has both p > 0 and q > 0",
}
"""Where code is right whose first failing kind this is."""


_IMPLIED: dict[Kind, tuple[Kind, ...]] = {
    "zeros of p": ("zeros of both", "disjoint"),
    "zeros of q": ("zeros of both", "disjoint"),
    "zeros of both": ("disjoint",),
}
"""Kinds whose rows have what the first has too."""


@dataclass(frozen=True)
class Part:
    """The exact tier on instances of one kind: ``whole`` if it came to an end on them."""

    judged: tuple[Judged, ...]
    failure: Judged | None
    whole: bool


@dataclass(frozen=True)
class FailingRows:
    """What kind of rows a failure needs.

    ``kinds``: those on which the code fails; ``failures``: one each, with its kind.
    ``right``: instances without such rows, on which its law is the target's; empty where it
    fails on plain rows. ``known``: the kind of the failure that was found first.
    """

    known: Kind
    failures: tuple[tuple[Kind, Judged], ...]
    right: tuple[Judged, ...]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of rows on which the code fails."""
        return tuple(kind for kind, _ in self.failures)

    def words(self) -> str:
        """Say where the code is right, and how it fails where; "" where that is no news."""
        if self.known == "plain":
            return ""
        if self.kinds[0] == "plain":
            return f"fails on rows without zeros too: {how_it_fails(self.failures[0][1])}"
        worst = max(judged.comparison.max_abs_deviation for judged in self.right)
        tried = f"{len(self.right)} instances, largest deviation {worst:.2g}"
        said = [f"{how_it_fails(judged)} {WHERE[kind]}" for kind, judged in self._apart()]
        return f"lossless {_RIGHT[self.kinds[0]]} ({tried}); {'; '.join(said)}"

    def _apart(self) -> list[tuple[Kind, Judged]]:
        """Return the failures that another one, of rows with fewer zeros, does not explain."""
        apart: list[tuple[Kind, Judged]] = []
        for kind, judged in self.failures:
            same = [k for k, other in apart if other.violated == judged.violated]
            if not any(kind in _IMPLIED.get(k, ()) for k in same):
                apart.append((kind, judged))
        return apart


def how_it_fails(judged: Judged) -> str:
    """Say how the code fails on an instance: its contract first."""
    for finding in judged.comparison.findings:
        if finding.severity == "violation":
            return finding.message
    return f"its law is off by TV {judged.comparison.tv:.3g}"


def kind_of(model: SmallModel) -> Kind:
    """Return the kind of an instance: that of its most peculiar pair of rows."""
    pairs = [
        [(p * sum(drafts), q * sum(targets)) for p, q in zip(targets, drafts, strict=True)]
        for targets, drafts in zip(model.targets, model.drafts, strict=True)
    ]
    if not all(any(p and q for p, q in pair) for pair in pairs):
        return "disjoint"
    zero_p = any(p == 0 for pair in pairs for p, _ in pair)
    zero_q = any(q == 0 for pair in pairs for _, q in pair)
    if zero_p and zero_q:
        return "zeros of both"
    if zero_p or zero_q:
        return "zeros of p" if zero_p else "zeros of q"
    return "equal" if any(all(p == q for p, q in pair) for pair in pairs) else "plain"


def without_zeros(model: SmallModel) -> SmallModel:
    """Return ``model`` with rows of its shape in which p and q differ and nothing is zero.

    What fails on it as well needs no kind of rows: its size, its ids or its prompt may be why.
    """

    def filled(rows: tuple[Weights, ...], odd: int) -> tuple[Weights, ...]:
        return tuple(tuple(4 * w + 1 + (i + odd) % 2 for i, w in enumerate(row)) for row in rows)

    return replace(
        model,
        name=f"{model.name}, without zeros",
        targets=filled(model.targets, 0),
        drafts=filled(model.drafts, 1),
    )


def failing_rows(
    first: Judged, models: Iterable[SmallModel], run: Callable[[list[SmallModel], bool], Part]
) -> FailingRows | None:
    """Put the code on instances of each kind, plain ones first; None where that stays open.

    ``first``: the failure that is known. ``run(models, all)``: the exact tier on some
    instances, up to a failure; ``all`` of them, or the smallest that speak for the rest.
    """
    by_kind: dict[Kind, list[SmallModel]] = {kind: [] for kind in WHERE}
    for model in models:
        by_kind[kind_of(model)].append(model)
    known = kind_of(first.model)
    twin = without_zeros(first.model)
    if known != "plain":
        by_kind["plain"].append(twin)
    failures: list[tuple[Kind, Judged]] = []
    right: list[Judged] = []
    for kind, instances in by_kind.items():
        part = run(instances, kind == "plain") if kind != known else Part((), first, whole=True)
        if part.failure is not None:
            failures.append((kind, part.failure))
            if kind == "plain":
                return FailingRows(known, tuple(failures), ())
            continue
        tried = [judged.model for judged in part.judged]
        if kind == "plain" and not (part.whole and twin in tried):
            return None
        right += [] if failures else part.judged
    return FailingRows(known, tuple(failures), tuple(right)) if right else None
