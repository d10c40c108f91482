"""Numbers that are no JSON, NaN and infinities, which other programs write all the same."""

import json
import math
from collections.abc import Iterator


def not_finite(data: bytes) -> Iterator[str]:
    """Name each field of a JSON text that holds NaN or an infinity.

    A strict reader says no more than the byte at which it stopped. Yields nothing where the
    text is broken in another way.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    left: list[tuple[str, object]] = [("", document)]
    while left:
        where, value = left.pop()
        if isinstance(value, dict):
            parts = [(f"{where}.{key}" if where else key, part) for key, part in value.items()]
            left += reversed(parts)
        elif isinstance(value, list):
            left += reversed([(f"{where}[{i}]", part) for i, part in enumerate(value)])
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{where} is {value}: expected a finite number, or null where the schema has one"
