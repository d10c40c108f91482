"""Which catalogued fault a law resembles, and which ones a clean law refutes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from simverify.auditing.exact.generations.calls import NOWHERE, Beyond
from simverify.auditing.exact.generations.enumerate import CannotEnumerate, OutOfTime, TooManyPaths
from simverify.auditing.exact.generations.trees import first_call
from simverify.auditing.exact.instances.drafts import draft_instances
from simverify.auditing.exact.instances.made import SmallModel, battery
from simverify.auditing.exact.instances.trees import most_trees, telling_trees, tree_instances
from simverify.auditing.exact.judging.comparison import Comparison
from simverify.auditing.exact.judging.examiner import Examiner, Judged, generates
from simverify.auditing.exact.judging.tree import distance
from simverify.auditing.subject import Contract, Subject
from simverify.faults import FAULTS
from simverify.faults.base import Fault
from simverify.results import Diagnosis


def as_step(verify: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a ``verify`` rule as a ``step`` rule that drafts from the draft itself."""

    def step(
        prefix: Sequence[int],
        target: Callable[[tuple[int, ...]], Any],
        draft: Callable[[tuple[int, ...]], Any],
        gamma: int,
        rng: Any,
    ) -> Any:
        context = tuple(prefix)
        p, q, tokens = [target(context)], [], []
        for _ in range(gamma):
            q.append(draft(context))
            tokens.append(int(rng.choice(len(q[-1]), p=q[-1])))
            context = (*context, tokens[-1])
            p.append(target(context))
        return verify(np.array(p), np.array(q), np.array(tokens), rng)

    return step


_SECONDS = 5.0
_RIGHT = 1e-9
"""TV under which a fault's law is the target's."""

_MOST_COMPARED = 300
"""On instances with more draft trees the laws of all faults would take minutes."""

_TRUSTED = 10_000
"""As many leaves of a catalogued fault count as seen: nothing in it is untracked, and so few
of its paths are run again."""


def resemble(
    subject: Subject, judged: Judged, contract: Contract, *, most: int = 3
) -> tuple[Diagnosis, ...]:
    """Return the catalogued faults whose laws are nearest to the subject's.

    On the failing instance, and on a rich one that tells more faults apart if the subject can
    be enumerated there. ``distance`` is the larger TV distance of the completed outputs;
    faults that cannot be enumerated are left out, and so are those whose law is right there.
    """
    comparison = judged.comparison
    if contract == "tree" and generates(subject, contract):
        # The catalogue's faults keep nothing: what they do shows in the first call, or they differ.
        subject = replace(subject, rule=first_call(subject.rule))
        first = _comparison(Examiner(subject, contract, 0.0), judged.model)
        if first is None or first.tv <= _RIGHT:
            return ()
        comparison = first
    laws = [(judged.model, comparison)]
    rich = rich_instance(contract, judged.model)
    richer = _comparison(Examiner(subject, contract, 0.0), rich)
    # A rule for draft trees may be made for one shape alone.
    if richer is not None and not (contract in ("tree", "draft") and richer.findings):
        laws.append((rich, richer))
    laws = [x for x in laws if x[0].drafting is None or most_trees(x[0]) <= _MOST_COMPARED]
    if not laws:
        return ()
    # The cheaper instance first: what is far off there need not be run on the other.
    (cheap, its_law), *others = sorted(laws, key=lambda x: _drafts(x[0]))
    bounds = []
    for fault in _candidates(contract, cheap):
        if (law := _law(fault, contract, cheap)) is not None:
            bounds.append((_distance(law, its_law), fault.name, law))
    found: list[Diagnosis] = []
    for least, name, law in sorted(bounds, key=lambda bound: bound[:2]):
        if len(found) == most and least > found[-1].distance:
            break
        pairs = [(law, its_law)]
        for model, other in others:
            if (at := _law(FAULTS[name], contract, model)) is not None:
                pairs.append((at, other))
        # A fault that is right here, but for its probes or seeds, is like every small deviation.
        if len(pairs) == len(laws) and any(at.tv > _RIGHT for at, _ in pairs):
            found.append(Diagnosis(fault=name, distance=max(_distance(*pair) for pair in pairs)))
            found = sorted(found, key=lambda d: (d.distance, d.fault))[:most]
    return tuple(found)


def _distance(one: Comparison, other: Comparison) -> float:
    # Rounded, so that rounding does not order what is equally far.
    return round(distance(one.emitted, other.emitted), 12)


def _drafts(model: SmallModel) -> int:
    """Return how many blocks or trees can be drafted."""
    return most_trees(model) if model.drafting else int(model.vocab_size**model.gamma)


def rich_instance(contract: Contract, failing: SmallModel) -> SmallModel:
    """Return an instance like the failing one whose rows have no zeros and are all different."""
    if failing.drafting is not None:
        made = draft_instances if contract == "draft" else tree_instances
        models = made(failing.drafting.scheme, max_gamma=2, max_vocab=3, seed=0)
        return next(model for model in models if model.name == "plain, V=3, tree 2,1")
    name = "plain, V=3, gamma=2" if contract == "verify" else "plain, V=2, gamma=2"
    return next(model for model in battery(3, 3) if model.name == name)


def refuted(
    contract: Contract, models: list[SmallModel], tolerance: float | None
) -> tuple[str, ...]:
    """Return the catalogued faults that the passed instances ``models`` would have shown."""
    telling = _telling(contract, models)
    # Few faults need the calls that look for what is hidden; only these get them.
    calls: tuple[Beyond | None, ...] = (NOWHERE, None) if contract == "step" else (None,)
    return tuple(
        fault.name
        for fault in (_candidates(contract, telling[0]) if telling else ())
        if any(
            _deviates(fault, contract, model, tolerance, beyond)
            for beyond in calls
            for model in telling
        )
    )


def _candidates(contract: Contract, model: SmallModel) -> list[Fault]:
    """Return the faults of blocks and steps, or those of trees or drafters as on ``model``.

    On another scheme the rule that a fault is a slip of is lossy too, and tells nothing.
    """
    scheme = model.drafting.scheme.name if model.drafting else None
    drafts = contract == "draft"
    return [f for f in FAULTS.values() if (f.scheme, f.contract == "draft") == (scheme, drafts)]


def _telling(contract: Contract, models: list[SmallModel]) -> list[SmallModel]:
    """Return the few of ``models`` that are cheap and show most."""
    if contract in ("tree", "draft"):
        return telling_trees(models)
    # Most faults show on a plain one of two drafts, whose paths are few; some on rich ones alone.
    rich = sorted(models, key=lambda m: (m.vocab_size != 3, -m.gamma, m.family != "plain"))
    # Of a step rule, two drafts of three tokens have the most paths.
    first = [(3, 2)] if contract == "verify" else [(2, 2), (3, 1)]
    by_size = {(m.vocab_size, m.gamma): m for m in reversed(rich)}
    return [*(by_size[size] for size in first if size in by_size), *rich[:2]]


# Both are remembered: they depend on nothing but the catalogue.
@lru_cache(maxsize=1024)
def _deviates(
    fault: Fault,
    contract: Contract,
    model: SmallModel,
    tolerance: float | None,
    beyond: Beyond | None,
) -> bool:
    subject = _subject(fault, contract)
    if subject is None:
        return False
    examiner = Examiner(subject, contract, tolerance, leaves=_TRUSTED, beyond=beyond)
    return examiner.fails(model)


@lru_cache(maxsize=1024)
def _law(fault: Fault, contract: Contract, model: SmallModel) -> Comparison | None:
    subject = _subject(fault, contract)
    if subject is None:
        return None
    return _comparison(Examiner(subject, contract, 0.0, leaves=_TRUSTED), model)


def _comparison(examiner: Examiner, model: SmallModel) -> Comparison | None:
    try:
        return examiner.judge(model, _SECONDS).comparison
    except (CannotEnumerate, OutOfTime, TooManyPaths):
        return None


def _subject(fault: Fault, contract: Contract) -> Subject | None:
    """Return the fault under ``contract``, None if it has no form there.

    The faults of whole batches are right on every single block.
    """
    if fault.batch is not None:
        return None
    if fault.contract == contract:
        return Subject(fault.name, fault.rule, contract)
    if (fault.contract, contract) == ("verify", "step"):
        return Subject(fault.name, as_step(fault.rule), contract)
    return None
