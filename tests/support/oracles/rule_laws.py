"""The readable rules as they stand: their exact deviation, and calls on numpy rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from support.oracles.oracle_laws import add_up, completed, distance, target_law

from simverify.models.base import MarkovModel
from simverify.simulators.exact.laws import START, first_tokens, laws_by_paths, markov_rows
from simverify.verifiers import Verifier


def deviation(verifier: Verifier, model: MarkovModel, gamma: int) -> Any:
    """TV of one call's tokens, completed with the target's own, from the target; exact."""
    law = laws_by_paths(verifier, markov_rows(model), gamma)(START, (), gamma + 1)
    tokens = add_up((tokens, weight) for (tokens, _), weight in law.items())
    return distance(completed(tokens, model, gamma), target_law(model, gamma + 1))


def generation_deviation(verifier: Verifier, model: MarkovModel, gamma: int, length: int) -> Any:
    """TV of a generation's first ``length`` tokens, over calls, from the target; exact."""
    laws = laws_by_paths(verifier, markov_rows(model), gamma)
    return distance(first_tokens(laws, length, max_laws=2000), target_law(model, length))


def sample_call(
    verifier: Verifier, model: MarkovModel, gamma: int, calls: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (emitted, drafted) of calls of a ``verify`` rule on float64 rows.

    Inputs are read-only; what is emitted must be a list of 1 to gamma+1 ints.
    """
    rng = np.random.default_rng(11)
    for _ in range(calls):
        drafted: list[int] = []
        for _ in range(gamma):
            q = model.draft(drafted)
            drafted.append(int(rng.choice(len(q), p=q)))
        p_rows = np.array([model.target(drafted[:i]) for i in range(gamma + 1)])
        q_rows = np.array([model.draft(drafted[:i]) for i in range(gamma)])
        tokens = np.array(drafted)
        for array in (p_rows, q_rows, tokens):
            array.flags.writeable = False
        emitted = verifier.rule(p_rows, q_rows, tokens, rng)
        assert type(emitted) is list
        assert all(type(token) is int for token in emitted)
        assert 1 <= len(emitted) <= gamma + 1
        assert all(p_rows[i][token] > 0 for i, token in enumerate(emitted))
        yield emitted, drafted
