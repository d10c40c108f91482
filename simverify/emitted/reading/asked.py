"""What a request was asked for, as its line says: the law that it is judged by."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simverify.errors import UsageError
from simverify.models.real.sampling import Sampling

_LAW = ("temperature", "top_k", "top_p")

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "min_p": (0,), "typical_p": (1,), "presence_penalty": (0,), "frequency_penalty": (0,),
    "repetition_penalty": (1,), "repeat_penalty": (1,), "min_tokens": (0,), "logit_bias": ({}, []),
    "bad_words": ([],),
}  # fmt: skip
"""What changes the law, and the values with which it does not."""


def asked_law(value: Mapping[str, Any], where: str, otherwise: Sampling) -> Sampling | None:
    """Return the law that a line names, None where it names none.

    Of ``asked``, what it does not name was not asked for; of fields of the line itself, it is as
    ``otherwise`` says.

    Raises
    ------
    UsageError
        If a value is no number or out of range, or another parameter changes the law.
    """
    kept = value.get("asked")
    whole = isinstance(kept, dict)
    said = {name: value[name] for name in (*_LAW, *_NEUTRAL) if value.get(name) is not None}
    if isinstance(kept, dict):
        said = kept | said
    for name, neutral in _NEUTRAL.items():
        if said.get(name) is not None and said[name] not in neutral:
            raise UsageError(
                f"{where} was asked with {name} {json.dumps(said[name])[:40]}: expected none, as "
                f"temperature, top-k and top-p alone are judged here"
            )
    if not any(said.get(name) is not None for name in _LAW):
        return None
    for name in _LAW:
        _number_iv(said.get(name), name, where)
    base = Sampling() if whole else otherwise
    temperature, top_k, top_p = (said.get(name) for name in _LAW)
    if top_k is None:
        top_k = base.top_k
    top_p = base.top_p if top_p is None else top_p
    try:
        return Sampling(
            base.temperature if temperature is None else float(temperature),
            None if top_k is None or top_k <= 0 else top_k,  # servers take 0 or -1 for all tokens
            None if top_p is None or top_p == 1 else float(top_p),
        )
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _number_iv(value: Any, name: str, where: str) -> None:
    kinds = (int,) if name == "top_k" else (int, float)
    if value is not None and (type(value) not in kinds or not math.isfinite(value)):
        raise UsageError(f"{where} says {name} {json.dumps(value)[:40]}: expected a number")


def contradictions(
    laws: Sequence[Sampling | None], given: Mapping[str, float | None]
) -> Iterator[str]:
    """Say which of the ``given`` parameters, by their names here, the lines contradict."""
    for name, value in given.items():
        if value is None:
            continue
        due = None if name == "top_p" and value == 1 else value
        other = Counter(
            getattr(law, name) for law in laws if law is not None and getattr(law, name) != due
        )
        for own, count in other.items():
            shown = "none" if own is None else f"{own:g}"
            yield (
                f"--{name.replace('_', '-')} {value:g} contradicts the file: {count:,} requests "
                f"were asked with {shown}, and are judged by that"
            )
