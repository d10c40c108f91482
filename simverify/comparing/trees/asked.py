"""The draft tree that is asked for: K drafts, children per level, or a file."""

import json
from pathlib import Path
from typing import Any

from simverify.checks import MAX_GAMMA, clean
from simverify.errors import OptionError, UsageError
from simverify.trees import Drafting, TreeShape, get_scheme, shape_of_levels

MAX_DRAFTS = 64


def drafting_asked(
    drafts: int | None, tree: str | None, scheme: str | None, gamma: int | None
) -> Drafting:
    """Return how trees are drafted.

    ``drafts``: so many chains of ``gamma`` tokens. ``tree``: children per level, such as "3,2,1",
    or the path of a JSON file ``{"parents": [-1, 0, ...]}``.

    Raises ``UsageError`` for both, for a tree that is none, or one that is deeper than ``gamma``.
    """
    found = get_scheme("iid" if scheme is None else scheme)
    if drafts is not None and tree is not None:
        raise OptionError("{drafts} and {tree} are two ways to say one thing: name one of them")
    if tree is not None:
        shape = _shape(tree)
        if gamma is not None and shape.depth > gamma:
            raise OptionError(
                f"the tree has a depth of {shape.depth}, above {{gamma}} {gamma}: cut it, or raise "
                "{gamma}"
            )
        if shape.depth > MAX_GAMMA:
            raise UsageError(f"the tree has a depth of {shape.depth}: expected 1 to {MAX_GAMMA}")
        return Drafting(shape, found)
    assert drafts is not None
    if gamma is None:
        raise OptionError("{gamma} is missing: {drafts} are so many drafts of {gamma} tokens")
    if not 1 <= drafts <= MAX_DRAFTS:
        raise OptionError(f"{{drafts}} is {drafts}: expected 1 to {MAX_DRAFTS}")
    if not 1 <= gamma <= MAX_GAMMA:
        raise UsageError(f"gamma is {gamma}: expected 1 to {MAX_GAMMA}")
    return Drafting(shape_of_levels([drafts] + [1] * (gamma - 1)), found)


def _shape(tree: str) -> TreeShape:
    if not tree.strip():
        raise UsageError("tree is empty: expected children per level, such as 3,2,1, or a file")
    try:
        levels = [int(count) for count in tree.split(",")]
    except ValueError:
        return _read(Path(tree))
    return shape_of_levels(levels)


def _read(path: Path) -> TreeShape:
    """Return the tree of a file; ``UsageError`` in one line for whatever else it holds."""
    shown = clean(str(path), 200)
    example = '{"parents": [-1, 0, 0]}'
    try:
        data: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"tree {clean(str(path), 80)!r} is no file: expected children per level, such as "
            "3,2,1, or a JSON file of parents"
        ) from None
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{shown} is not JSON: {clean(str(error), 80)}; expected {example}"
        ) from None
    parents = data.get("parents") if isinstance(data, dict) and set(data) == {"parents"} else None
    if not isinstance(parents, list):
        raise UsageError(f"{shown} holds no tree: expected {example} and nothing else")
    try:
        return TreeShape(tuple(parents))
    except UsageError as error:
        raise UsageError(f"{shown}: {clean(str(error))}") from None
