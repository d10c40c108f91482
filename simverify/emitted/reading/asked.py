"""What a request was asked for, as its line says: the law that it is judged by."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from simverify.emitted.law import NEUTRAL, Law, as_law
from simverify.emitted.law.words import fields_of, said_in
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair


def asked_law(value: Mapping[str, Any], where: str, pair: TransformerPair) -> Law | None:
    """Return the law that a line names, None where it names none.

    Of ``asked``, what it does not name was not asked for; of fields of the line itself, it is as
    the declared law says. No line names a mask or an order, so those are always as declared.

    Raises
    ------
    UsageError
        If a value is no number or out of range.
    """
    kept, declared = value.get("asked"), as_law(pair.sampling)
    whole = isinstance(kept, dict)
    said = said_in(kept if isinstance(kept, dict) else {}, where) | said_in(value, where)
    if not said:
        return None
    base = Law(mask=declared.mask, order=declared.order) if whole else declared
    fields = fields_of(said, where, pair)
    try:
        return replace(base, **fields)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def contradictions(laws: Sequence[Law | None], given: Mapping[str, Any]) -> Iterator[str]:
    """Say which of the ``given`` parameters, by their names here, the lines contradict."""
    for name, value in given.items():
        if value is None:
            continue
        due = None if NEUTRAL.get(name) == value else value
        other = Counter(
            getattr(law, name) for law in laws if law is not None and getattr(law, name) != due
        )
        for own, count in other.items():
            yield (
                f"--{name.replace('_', '-')} {_shown(value)} contradicts the file: {count:,} "
                f"requests were asked with {_shown(own)}, and are judged by that"
            )


def _shown(value: Any) -> str:
    if value in (None, (), 0):
        return "none"
    return f"{value:g}" if isinstance(value, (int, float)) else f"{len(value)} entries"
