"""Prompts from a file: JSONL, such as Spec-Bench's ``question.jsonl``, or a text file."""

import json
from pathlib import Path

from simverify.errors import UsageError

_FIELDS = ("prompt", "text", "turns")


def read_prompts(path: Path) -> tuple[str, ...]:
    """Return the prompts of a file, one or more.

    A ``.jsonl`` file holds an object a line with ``prompt`` or ``text``, a string, or
    ``turns``, a list of strings of which the first is taken (Spec-Bench). Any other file is
    text: its paragraphs, parted by empty lines, are the prompts.

    Raises
    ------
    UsageError
        If the file cannot be read, is not UTF-8, a line is no such object, or none is there.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"prompts: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"prompts: {path} is not UTF-8 text (byte {error.start})") from None
    if path.suffix == ".jsonl":
        lines = enumerate(text.split("\n"), 1)
        prompts = [prompt_iv(f"{path}, line {n}", line) for n, line in lines if line.strip()]
    else:
        prompts = [part.strip() for part in text.replace("\r\n", "\n").split("\n\n")]
    prompts = [prompt for prompt in prompts if prompt]
    if not prompts:
        raise UsageError(f"prompts: {path} holds none: write one a paragraph, or JSONL")
    return tuple(prompts)


def unicode_iv(text: str, where: str) -> str:
    """Return ``text`` from JSON if a tokenizer can take it; ``UsageError`` otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{where} is no Unicode text: half a surrogate pair at character {error.start}"
        ) from None
    return text


def prompt_iv(where: str, line: str) -> str:
    """Return the prompt of a line of JSONL at ``where``; ``UsageError`` if it has none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"prompts: {where} is no JSON: {error}") from None
    for field in _FIELDS:
        if isinstance(value, dict) and field in value:
            found = value[field]
            if field == "turns" and isinstance(found, list) and found:
                found = found[0]
            if isinstance(found, str):
                return unicode_iv(found, f"prompts: {where}: {field!r}")
            raise UsageError(f"prompts: {where}: {field!r} holds no string")
    raise UsageError(f"prompts: {where} is no object with one of {', '.join(_FIELDS)}")
