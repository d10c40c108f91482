"""The probe of batched code: what a row emits must not depend on the rows beside it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from simverify.auditing.probes.calls import Rule
from simverify.auditing.probes.line import Line
from simverify.symbolic.endings import one_line
from simverify.symbolic.whose import user_line

CALLS = 24
VOCAB, GAMMA = 5, 3


def batch_rows(line: Line, rule: Rule, rows: int, seeded: Callable[[int], Any]) -> str:
    """Rows whose targets are one-hot: each has one output, whatever stands beside it.

    Row and position have a token of their own, and a row's drafts agree with it up to a
    length of its own, so that a row that is swapped, shifted or padded wrongly shows.
    """
    for seed in range(CALLS):
        rng = seeded(seed)
        due = rng.integers(VOCAB, size=(rows, GAMMA + 1))
        drafted = np.where(rng.random((rows, GAMMA)) < 0.7, due[:, :-1], rng.integers(VOCAB))
        target = np.eye(VOCAB)[due]
        draft = np.full((rows, GAMMA, VOCAB), 1 / VOCAB)
        problem = _problem(line, rule, (target, draft, drafted, rng), due)
        if problem:
            line.add("violation", problem)
            break
    return f"{CALLS} calls of {rows} rows of one possible output each gave each row its own"


def _problem(line: Line, rule: Rule, batch: tuple[Any, ...], due: Any) -> str:
    try:
        results = list(rule(*batch))
    except Exception as error:
        return f"raised {type(error).__name__}: {one_line(error)}{user_line(error)}"
    line.calls += 1
    if len(results) != len(due):
        return f"returned {len(results)} rows for {len(due)}"
    for b, row in enumerate(results):
        tokens = [int(x) for x in (row.tolist() if hasattr(row, "tolist") else row)]
        tokens = tokens[: tokens.index(-1)] if -1 in tokens else tokens
        if not tokens or tokens != due[b, : len(tokens)].tolist():
            return (
                f"row {b} of {len(due)} emitted {tokens} where its target allows only "
                f"{due[b].tolist()}"
            )
    return ""
