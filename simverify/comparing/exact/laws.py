"""The exact tier for the project's own rules: their whole law against the target's."""

import itertools
import math
from typing import Any

from simverify.models.base import MarkovModel, Model
from simverify.results import ExactCheck
from simverify.simulators.exact.calls import (
    CallLaw,
    CallLaws,
    TooManyCalls,
    first_tokens,
    laws_by_paths,
    laws_by_tree,
)
from simverify.simulators.exact.rows import START, Rows, markov_rows
from simverify.simulators.exact.tree import grow
from simverify.verifiers import Verifier

FLOAT_TOLERANCE = 1e-9
"""Deviations up to this are rounding where rows are float64; rational rows allow none."""

MAX_PATH_GAMMA = 4
"""Up to this draft length the rule itself is run, on every path of its choices."""

MAX_PATH_LEAVES = 1024
"""Most drafted blocks V^gamma for running the rule: some ten thousand paths, a second."""

_MAX_CALL_LEAVES = 2_500
"""Work limit for a rule with state: drafted blocks times distinct calls."""

_FEWEST_TOKENS = 3
"""A check of a rule with state reaches this far: a debt of the first call, as short as one
token, has been judged by then, and a state that is lost or frozen shows from token 2 on."""

_MOST_TREE_LEAVES = 40_000
"""Work limit up to there by tree law, below a second, where running the rule ends sooner."""


def exact_check(verifier: Verifier, model: Model, gamma: int) -> ExactCheck | None:
    """Compare the rule's own law with the target's, in fractions where the model has them.

    The drafted blocks of the model are to be enumerable. Returns None where the law itself is too
    large to write out, or where float64 cannot hold it. A
    rule with state is judged on the first tokens of a generation, as many as the work limit
    allows, over all the calls that they take; None if those are fewer than 3 (2 at gamma 1).
    Any other rule is judged on one call's tokens completed with the target's own.
    """
    assert isinstance(model, MarkovModel)
    rows = markov_rows(model)
    paths = gamma <= MAX_PATH_GAMMA and model.vocab_size**gamma <= MAX_PATH_LEAVES
    if verifier.contract == "step":
        found = None
        if paths:
            laws = laws_by_paths(verifier, rows, gamma)
            found = _check_stateful(laws, rows, gamma, whole_calls=True)
        if found is None:
            paths = False
            laws = laws_by_tree(verifier, rows, gamma)
            found = _check_stateful(laws, rows, gamma, whole_calls=False)
        if found is None:
            return None
        scope, largest, tv = found
    elif paths:
        completed = _completed(
            laws_by_paths(verifier, rows, gamma)(START, (), gamma + 1), rows, gamma
        )
        largest, tv = _deviation(completed, rows, gamma + 1)
        scope = _one_call(gamma)
    else:
        tree = grow(verifier, rows, gamma)
        largest, tv = tree.max_abs_deviation, tree.total_variation
        scope = _one_call(gamma)
    # The sum, for a maximum may pass over what is no number: that is no fault of the rule.
    if not math.isfinite(tv):
        return None
    return ExactCheck(
        method="paths" if paths else "tree law",
        arithmetic="rational" if model.rational else "float64",
        scope=scope,
        max_abs_deviation=float(largest),
        tv=float(tv),
    )


def passes(check: ExactCheck) -> bool:
    """Whether the deviation is none, or rounding."""
    return check.max_abs_deviation <= (0 if check.arithmetic == "rational" else FLOAT_TOLERANCE)


def _one_call(gamma: int) -> str:
    return f"every completed output of a call, {gamma + 1} tokens"


def _check_stateful(
    laws: CallLaws, rows: Rows, gamma: int, *, whole_calls: bool
) -> tuple[str, Any, Any] | None:
    """Scope, largest deviation and TV; None where too few tokens can be reached.

    ``whole_calls``: a call is run to its end; else it is cut where the tokens are full.
    """
    found = None
    for length in range(1, gamma + 2):
        leaves = rows.vocab_size ** (gamma if whole_calls else length)
        few = length <= _FEWEST_TOKENS and not whole_calls
        work = _MOST_TREE_LEAVES if few else _MAX_CALL_LEAVES
        if leaves > work:
            break
        try:
            law = first_tokens(laws, length, max_laws=max(work // leaves, 2))
        except TooManyCalls:
            break
        found = length, law
    if found is None or found[0] < min(_FEWEST_TOKENS, gamma + 1):
        return None
    length, law = found
    return f"first {length} tokens from reset, over calls", *_deviation(law, rows, length)


def _completed(law: CallLaw, rows: Rows, gamma: int) -> dict[tuple[int, ...], Any]:
    """Law of gamma+1 tokens: one call's, completed with the target's own."""
    result: dict[tuple[int, ...], Any] = {}
    for (tokens, _), weight in law.items():
        for rest in itertools.product(range(rows.vocab_size), repeat=gamma + 1 - len(tokens)):
            share = weight * _joint(rows, rest, tokens[-1])
            result[tokens + rest] = result.get(tokens + rest, 0) + share
    return result


def _deviation(law: dict[tuple[int, ...], Any], rows: Rows, length: int) -> tuple[Any, Any]:
    """Largest absolute deviation from the target's joint law, and the TV distance."""
    differences = [
        abs(law.get(tokens, 0) - _joint(rows, tokens, START))
        for tokens in itertools.product(range(rows.vocab_size), repeat=length)
    ]
    return max(differences), sum(differences) / 2


def _joint(rows: Rows, tokens: tuple[int, ...], last: int) -> Any:
    """Return the target's probability of ``tokens`` after ``last``."""
    probability: Any = 1
    for token in tokens:
        probability = probability * rows.target[last][token]
        last = token
    return probability
