"""Which cases of a test run with every change, and which at night."""

from collections.abc import Iterable
from typing import Any

import pytest


def at_night(cases: Iterable[Any], *, but: Iterable[Any]) -> list[Any]:
    """Return the cases of ``parametrize``: all but these are marked slow.

    A case of several arguments is a tuple. Raises ``ValueError`` for one of ``but`` that is no
    case, so that a case that is renamed does not leave the quick level unseen.
    """
    cases, quick = list(cases), list(but)
    if missing := [case for case in quick if case not in cases]:
        raise ValueError(f"no such cases: {missing}")
    return [case if case in quick else _slow(case) for case in cases]


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
