"""Decoding loops over two models and a prompt, as step rules."""

from collections.abc import Callable, Sequence
from typing import Any

from simverify.engines.loading.rows_model import Rows, RowsModel, prompt

Loop = Callable[[Any, Any, Any, int], Any]
"""``loop(target, draft, ids, gamma)``: two models, the prompt int64 (1, L), and the tokens."""


class Over(Exception):
    """Raised by a model to end a loop that would go on: its only argument is what to return."""


def as_step(
    loop: Loop,
    model: Callable[[Rows, tuple[int, ...]], Any] = RowsModel,
    counted: Sequence[Any] | None = None,
) -> Callable[..., Any]:
    """Return a ``step`` callable of a loop.

    Parameters
    ----------
    loop
        Returns the tokens that it emitted, (N,), or, as many loops do, with the prompt before
        them, (1, L + N).
    model
        ``model(rows, prefix)`` makes each of its two models.
    counted
        Functions and classes whose lines an audit counts, with what they name; whatever the loop
        names, if None. For a loop that is a library's front door.
    """

    def step(prefix: Any, target: Rows, draft: Rows, gamma: int, rng: Any) -> Any:
        ids = prompt(prefix)
        try:
            tokens = loop(model(target, prefix), model(draft, prefix), ids, gamma)
        except Over as over:
            tokens = over.args[0]
        return tokens[0, ids.shape[1] :] if getattr(tokens, "ndim", 1) == 2 else tokens

    if counted is not None:
        vars(step)["__counted__"] = tuple(counted)
    return step
