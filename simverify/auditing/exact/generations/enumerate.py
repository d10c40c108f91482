"""The exact tier's entry: the law of what a verifier emits, over all its random choices."""

import inspect
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from simverify.arrays import Row
from simverify.auditing.coverage.watch import watched
from simverify.symbolic import CannotEnumerate, Enumeration, ExactLaw, Finding, OutOfTime
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.enumeration.endings import BadTokens, Tokens
from simverify.symbolic.enumeration.paths import TooManyPaths

__all__ = [
    "CannotEnumerate",
    "ExactLaw",
    "Finding",
    "OutOfTime",
    "TooManyPaths",
    "enumerate_verify",
    "law_of_block",
]

MAX_PATHS = 200_000
SECONDS = 60.0


def enumerate_verify(
    verify: Callable[..., Any],
    target_probs: npt.ArrayLike,
    draft_probs: npt.ArrayLike,
    draft_tokens: npt.ArrayLike,
    *,
    max_paths: int = MAX_PATHS,
    prune: float = 1e-12,
    seconds: float | None = SECONDS,
) -> ExactLaw:
    """Exact law of the tokens that ``verify`` emits for one drafted block.

    Parameters
    ----------
    verify
        ``verify(target_probs, draft_probs, draft_tokens, rng) -> tokens``.
    target_probs, draft_probs, draft_tokens
        float64 (gamma+1, V), float64 (gamma, V) and int (gamma,); handed over as given.
    max_paths, prune, seconds
        Budget of paths; conditional weight under which a branch is not run; processor
        seconds (of the wall clock where the code sleeps).

    Raises
    ------
    CannotEnumerate
        The code uses a draw in a way that cannot be followed; says which and where.
    TooManyPaths, OutOfTime
        A budget ended first.
    """
    block = _block_iv(target_probs, draft_probs, draft_tokens)
    with Enumeration(verify, prune=prune) as enumeration:
        return law_of_block(enumeration, verify, *block, max_paths=max_paths, seconds=seconds)


def law_of_block(
    enumeration: Enumeration,
    verify: Callable[..., Any],
    target_probs: Row,
    draft_probs: Row,
    draft_tokens: npt.NDArray[np.int64],
    *,
    max_paths: int = MAX_PATHS,
    seconds: float | None = SECONDS,
    enough: float | None = None,
) -> ExactLaw:
    """As :func:`enumerate_verify`, inside an enumeration that is already set up.

    ``enough``: see :meth:`.Enumeration.run`.
    """
    drafted = tuple(int(x) for x in draft_tokens)

    def wrong(tokens: Tokens) -> str:
        if tokens[:-1] == drafted[: len(tokens) - 1]:
            return ""
        return (
            f"returned {tokens} for the draft {drafted}: all but the last token must be an "
            "accepted prefix of the draft"
        )

    given = {"target_probs": target_probs, "draft_probs": draft_probs, "draft_tokens": draft_tokens}
    call = checked_call(enumeration, verify, given, len(drafted), wrong)
    return enumeration.run(call, max_paths=max_paths, seconds=seconds, enough=enough)


def checked_call(
    enumeration: Enumeration,
    rule: Callable[..., Any],
    arguments: dict[str, npt.NDArray[Any]],
    gamma: int,
    wrong: Callable[[Tokens], str],
) -> Callable[[], Tokens]:
    """Return what calls ``rule`` on copies of ``arguments`` and checks what it does and returns.

    ``wrong(tokens)``: why what was accepted is no part of the draft, or "".
    """
    vocab = arguments["target_probs"].shape[1]
    given = [x.copy() for x in arguments.values()]
    images = [x.tobytes() for x in arguments.values()]
    find = enumeration.source.find

    def call() -> Tokens:
        try:
            tokens = read_tokens(watched(rule, *given, enumeration.rng))
        finally:
            for i, (name, original) in enumerate(arguments.items()):
                if given[i].shape != original.shape or given[i].tobytes() != images[i]:
                    find("inputs-modified", "violation", f"changes its argument {name} in place")
                    given[i] = original.copy()
        if len(tokens) > gamma + 1:
            raise BadTokens("too-many", f"returned {len(tokens)} tokens, gamma + 1 = {gamma + 1}")
        check_ids(tokens, vocab)
        if why := wrong(tokens):
            find("not-a-prefix", "violation", why)
        return tokens

    return call


def seen_reset(instance: Any) -> Callable[[], Any] | None:
    """Return the reset of a step rule, if it has one, in sight of who watches."""
    reset = getattr(instance, "reset", None)
    return None if reset is None else partial(watched, reset)


def takes_step_arguments(rule: Callable[..., Any]) -> bool:
    """Tell a step function from a factory by what it can be called with."""
    if not callable(rule):
        raise ValueError(
            f"a step rule is a function, class or factory, got {type(rule).__name__}: an "
            "instance cannot be built anew for every path"
        )
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return not inspect.isclass(rule)
    try:
        signature.bind(*range(5))
    except TypeError:
        try:
            signature.bind()
        except TypeError:
            raise ValueError(
                f"{signature} is neither step(prefix, target, draft, gamma, rng) nor a class "
                "or factory without arguments"
            ) from None
        return False
    return not inspect.isclass(rule)


def read_tokens(result: Any) -> Tokens:
    """Read what the code returned; :class:`BadTokens` if it is not a row of integers."""
    if result is None:
        raise BadTokens("no-tokens", "returned None")
    raw = result.tolist() if hasattr(result, "tolist") else result
    # A generator that is asked again, as by a decoding loop, has nothing left; a set no order.
    row = hasattr(raw, "__len__") and hasattr(raw, "__getitem__")
    if isinstance(raw, str | bytes | dict) or not row:
        kind = type(result).__name__
        article = "an" if kind[:1].lower() in "aeiou" else "a"
        raise BadTokens(
            "shape", f"returned {article} {kind}, expected a list, array or tensor of integers"
        )
    tokens = tuple(_token(x) for x in raw)
    if not tokens:
        raise BadTokens("empty", "returned no tokens: at least one is due")
    return tokens


def _token(x: Any) -> int:
    if type(x) is int:
        return x
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        return int(x)
    if isinstance(x, Draw):
        x.source.refuse("a draw returned as a token")
    if isinstance(x, list | tuple) or getattr(x, "ndim", 0) > 0:
        raise BadTokens("shape", "returned nested rows: one row of tokens is due")
    if not isinstance(x, bool | np.bool_) and "float" not in str(getattr(x, "dtype", "")):
        try:
            return operator.index(x)
        except TypeError:
            pass
    raise BadTokens("not-integers", f"returned a {type(x).__name__} as a token")


def check_ids(tokens: Tokens, vocab: int) -> None:
    for token in tokens:
        if not 0 <= token < vocab:
            raise BadTokens("out-of-range", f"returned token {token}, vocabulary 0..{vocab - 1}")


def _block_iv(
    target_probs: npt.ArrayLike, draft_probs: npt.ArrayLike, draft_tokens: npt.ArrayLike
) -> tuple[Row, Row, npt.NDArray[np.int64]]:
    target = np.array(target_probs, dtype=np.float64)
    draft = np.array(draft_probs, dtype=np.float64)
    tokens = np.array(draft_tokens, dtype=np.int64)
    gamma = tokens.shape[0] if tokens.ndim == 1 else -1
    if gamma < 1 or target.ndim != 2 or target.shape[0] != gamma + 1:
        raise ValueError(
            f"draft_tokens {tokens.shape} and target_probs {target.shape}: pass (gamma,) with "
            "gamma at least 1 and (gamma+1, V)"
        )
    if draft.shape != (gamma, target.shape[1]):
        raise ValueError(
            f"draft_probs has shape {draft.shape}: pass (gamma, V) = {(gamma, target.shape[1])}"
        )
    if tokens.min() < 0 or tokens.max() >= target.shape[1]:
        raise ValueError(f"draft_tokens {tokens.tolist()}: pass ids in 0..{target.shape[1] - 1}")
    return target, draft, tokens
