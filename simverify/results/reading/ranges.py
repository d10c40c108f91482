"""Numbers of a run file that no run can have: negative sizes, rates outside (0, 1]."""

import math
from collections.abc import Iterator

import msgspec

_RANGES = {
    **dict.fromkeys(("gamma", "vocab_size"), (1, math.inf, "1 or more")),
    **dict.fromkeys(
        ("paths", "samples", "n", "blocks", "calls", "looks", "tv", "seconds", "df", "predicted",
         "block_efficiency", "blocks_per_second", "temperature"),
        (0, math.inf, "0 or more"),
    ),
    **dict.fromkeys(
        ("alpha", "delta", "power", "confidence", "level", "strength", "detect"),
        (5e-324, 1, "above 0, at most 1"),
    ),
    "draft_distance": (0, 1, "0 to 1"),
    "log_pvalue": (-math.inf, 0, "0 or less"),
}  # fmt: skip
"""By a field's name, wherever it stands: least, most, and that in words."""


def out_of_range(value: object, where: str = "") -> Iterator[str]:
    """Name each number of a document, or of a part of it, that is out of its field's range."""
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from out_of_range(part, f"{where}[{i}]")
    if not isinstance(value, msgspec.Struct):
        return
    for name in value.__struct_fields__:
        part, here = getattr(value, name), f"{where}.{name}" if where else name
        number = isinstance(part, int | float) and not isinstance(part, bool)
        if number and name in _RANGES:
            least, most, words = _RANGES[name]
            if not least <= part <= most:
                yield f"{here} is {part}: expected {words}"
        yield from out_of_range(part, here)
