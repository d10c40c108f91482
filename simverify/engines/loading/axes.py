"""What decoding loops ask of einops: axes of length 1 put in and taken out."""

from typing import Any

ONE = "1"


def rearrange(tensor: Any, pattern: str) -> Any:
    """Return the tensor with axes of length 1 put in and taken out, as in ``b 1 d -> b d``.

    Raises ``ValueError`` on a pattern that does more than that, and on a longer axis.
    """
    before, after = (side.split() for side in pattern.split("->"))
    if _others(before) != _others(after):
        raise ValueError(f"{pattern!r} does more than put in and take out axes of length 1")
    # Behind an ellipsis axes count from the end, so that the last ones go first.
    for place in reversed([i for i, axis in enumerate(before) if axis == ONE]):
        axis = _axis(before, place)
        if tensor.shape[axis] != 1:
            raise ValueError(f"{pattern!r} of {tuple(tensor.shape)}: axis {axis} is longer than 1")
        tensor = tensor.squeeze(axis)
    for place in [i for i, axis in enumerate(after) if axis == ONE]:
        tensor = tensor.unsqueeze(_axis(after, place))
    return tensor


def _others(axes: list[str]) -> list[str]:
    return [axis for axis in axes if axis != ONE]


def _axis(axes: list[str], place: int) -> int:
    return place - len(axes) if "..." in axes[:place] else place
