"""Which tests run at once, which with every change, and which at night.

A test without a mark runs always. One that takes about two seconds, all its cases together, is
marked ``thorough``, and a file whose tests share so much work: they run in ``.ci/run``. Of a test
with many cases the first runs always. ``by_day`` of them, evenly spaced, run in ``.ci/run``, and
the others at night, as does what takes ten seconds or more and is ``slow``. The cases by day hold
the test's negative control.
"""

from collections.abc import Iterable
from typing import Any

import pytest

MANY = 4
"""Cases, of which the first is a small part."""


def leave_to_the_night(items: Iterable[pytest.Item]) -> None:
    """Mark as slow all of a thorough test's cases but ``by_day``, which are evenly spaced."""
    for own in _cases(i for i in items if not i.get_closest_marker("slow")).values():
        mark = next(mark for mark in own[0].own_markers if mark.name == "thorough")
        count = min(mark.kwargs.get("by_day", len(own)), len(own))
        by_day = {i * len(own) // count for i in range(count)}
        for i in set(range(len(own))) - by_day:
            own[i].add_marker("slow")


def at_night(cases: Iterable[Any], *, but: Iterable[Any]) -> list[Any]:
    """Return the cases of ``parametrize``: all but these are marked slow.

    A case of several arguments is a tuple. Raises ``ValueError`` for one of ``but`` that is no
    case, so that a case that is renamed does not leave the quick level unseen.
    """
    cases, quick = list(cases), list(but)
    if missing := [case for case in quick if case not in cases]:
        raise ValueError(f"no such cases: {missing}")
    return [case if case in quick else _slow(case) for case in cases]


def thorough_ones(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return those that are left to ``.ci/run``: not the first of many cases of a marked test."""
    thorough = [item for item in items if item.get_closest_marker("thorough")]
    first = {id(own[0]) for own in _cases(thorough).values() if len(own) >= MANY}
    return [item for item in thorough if id(item) not in first]


def _cases(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Return the cases of each test that is marked thorough itself, and not by its file."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if any(mark.name == "thorough" for mark in item.own_markers):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return cases


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
