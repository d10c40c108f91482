"""What the loop over trees asks of a rule: one generic name, one implementation per family.

A family is a named tuple of arrays, computed once from a model and a shape; its type chooses the
implementation when the loop is compiled, as the type of a model's tables does in ``access``.
Formulas and citations stand with the readable rules in ``simverify.verifiers.trees``.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.extending import overload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Family:
    """What a rule's ``kernel`` names: how the tuple that :func:`judges` knows it by is made.

    ``build(tables, drafting)`` returns it, from the model's tables; ``rows(drafting)``: how many
    rows of scratch its implementation needs.
    """

    build: Callable[[Any, Any], Any]
    rows: Callable[[Any], int] = lambda drafting: 1


class Scratch(NamedTuple):
    """Room that one thread's trials write to, one after the other."""

    ints: Ints  # (3, levels + siblings)
    floats: Floats  # (4, levels + siblings)
    rows: Floats  # (as many as the family needs, V)


def judge(
    rule: Any,
    tables: Any,
    drafts: Any,
    u_draft: Any,
    u_accept: Any,
    u_last: Any,
    t: Any,
    states: Any,
    tokens: Any,
    scratch: Any,
) -> Any:
    """Draft and judge the tree of column ``t``.

    ``states`` int64 (depth+1, trials) has the state of the prefix in row 0. The kept tokens are
    written to ``tokens`` int64 (depth, trials) and the states after them to ``states``.
    ``u_draft``, ``u_accept`` float64 (n or more, trials) are uniforms by node, ``u_last`` float64
    (depth+1 or more, trials) by level. Returns (tau, last token).

    A node is drafted when it is first looked at. Its uniform has an address of its own, so the
    tree is the one that would have been drafted at once, and the law the same.
    """
    raise NotImplementedError


def judges(family: type) -> Callable[[Any], Any]:
    """Register the decorated function as :func:`judge` for rules of ``family``."""

    def register(function: Any) -> Any:
        def choose(rule: Any, *_: Any) -> Any:
            return function if getattr(rule, "instance_class", None) is family else None

        # numba compares the signatures of the generic name and of its implementation.
        choose.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        overload(judge, jit_options={"error_model": "numpy", "_nrt": False})(choose)
        return function

    return register
