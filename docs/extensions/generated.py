"""Reference pages written from the code when the pages are built, so that they cannot drift.

A line ``<!-- generated: NAME -->`` in a page stands for what the function of that name returns.
"""

import io
import re
from typing import Any

from rich.console import Console

_MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def commands() -> str:
    """Return every command with its own help."""
    from simverify.cli.app import app

    sections = [_help([])]
    names = sorted(name for name in app if not name.startswith("-"))
    sections += [f"## simverify {name}\n\n{_help([name])}" for name in names]
    return "\n\n".join(sections)


def result_file() -> str:
    """Return every struct of the result document with its fields, from the JSON Schema."""
    from simverify.results.reading import generate_schema

    schema = generate_schema()
    commands = schema["discriminator"]["mapping"].items()
    roots = [f"- `{command}`: {_link(place)}" for command, place in commands]
    structs = [_struct(name, struct) for name, struct in schema["$defs"].items()]
    return "\n".join(["The field `command` says which document it is:", "", *roots, "", *structs])


def statistics() -> str:
    """Return the functions and classes of ``simverify.stats``, each with its first line."""
    from simverify import stats

    rows = []
    for name in stats.__all__:
        value = getattr(stats, name)
        if callable(value):
            rows.append(f"| `{name}` | {_line(value)} | `{value.__module__}` |")
    return "\n".join(["| name | what it is | where |", "| --- | --- | --- |", *rows])


def faults() -> str:
    """Return the catalogue: faults, and correct rules that are often called faulty."""
    from simverify.faults import CONTROLS, FAULTS

    lines = ["| fault | what it does | seen in |", "| --- | --- | --- |"]
    lines += [f"| `{f.name}` | {_cell(f.summary)} | {_cell(f.seen_in)} |" for f in FAULTS.values()]
    lines += ["", "| must pass | what it does | why it is right |", "| --- | --- | --- |"]
    lines += [f"| `{c.name}` | {_cell(c.summary)} | {_cell(c.why)} |" for c in CONTROLS.values()]
    return "\n".join(lines)


def generators() -> str:
    """Return what was measured of generators and samplers: simverify/samplers/table.json."""
    from simverify.reports.samplers import (
        call_words,
        measured_part,
        method_words,
        pairs_words,
        stream_title,
        uniform_words,
    )
    from simverify.samplers.catalogue import VOCABULARIES, measured_table

    table = measured_table()
    versions = ", ".join(f"{name or 'Python'} {value}" for name, value in table.versions.items())
    lines = [f"Measured with {versions}.", "", "## Uniform random numbers", ""]
    lines += ["| generator | type | numbers | seeds |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{one.grid.name}` | {one.grid.dtype} | {uniform_words(one.grid)} | "
        f"{pairs_words(one.seeds)} |"
        for one in table.uniforms
    ]
    sizes = " | ".join(f"V = {vocab:,}" for vocab in VOCABULARIES)
    lines += ["", "## Samplers", "", f"| sampler | type | {sizes} | invalid rows |"]
    lines += [" | ".join(["| ---", *["---"] * len(VOCABULARIES), "---", "--- |"])]
    for one in table.samplers:
        cells = [
            ", ".join(measured_part(row) for row in one.rows if row.vocab == vocab)
            for vocab in VOCABULARIES
        ]
        name = f"| `{one.name}` | {one.dtype} | "
        lines.append(name + " | ".join([*cells, pairs_words(one.strange)]) + " |")
    methods = {one.name: one.method for one in table.samplers}
    lines += ["", *(f"- `{name}` draws by {method}." for name, method in methods.items())]
    lines += ["", "## Integers, permutations and normal numbers", ""]
    lines += ["| function | calls | unusual parameters |", "| --- | --- | --- |"]
    lines += [
        f"| `{draw.name}` | "
        + "<br>".join(f"`{call.call}`: {call_words(call)}" for call in draw.calls)
        + f" | {'; '.join(f'`{call}`: {words}' for call, words in draw.unusual_calls.items())} |"
        for draw in table.draws
    ]
    lines += ["", *(f"- `{draw.name}`: {method_words(draw)}." for draw in table.draws)]
    lines += ["", "## Streams", "", "| library | one | the other | they share |"]
    lines += ["| --- | --- | --- | --- |"]
    lines += [
        f"| {stream_title(one.package, one.setting)} | `{one.one}` | `{one.other}` | {one.share} |"
        for one in table.streams
    ]
    return "\n".join(lines)


_PAGES = {f.__name__: f for f in (commands, result_file, statistics, faults, generators)}


def expand(text: str) -> str:
    """Return a page's source with its generated parts; ``KeyError`` for an unknown one."""
    return _MARK.sub(lambda mark: _PAGES[mark[1]](), text)


def _help(words: list[str]) -> str:
    from simverify.cli.app import app

    page = io.StringIO()
    app.help_print(words, console=Console(file=page, width=80, highlight=False))
    lines = [line.rstrip() for line in page.getvalue().strip().splitlines()]
    return "\n".join(["```text", *lines, "```"])


def _struct(name: str, struct: dict[str, Any]) -> str:
    required = struct.get("required", [])
    rows = [
        f"| `{field}` | {_type(kind)} | {'' if field in required else 'optional'} |"
        for field, kind in struct["properties"].items()
    ]
    words = re.sub(r"\s+", " ", struct.get("description", "")).replace("``", "`")
    words = re.sub(r":[a-z]+:`([^`]+)`", r"`\1`", words)
    table = ["| field | type | |", "| --- | --- | --- |", *rows]
    return "\n".join([f"## {name}", "", words, "", *table, ""])


def _type(kind: dict[str, Any]) -> str:
    if "$ref" in kind:
        return _link(kind["$ref"])
    if "enum" in kind:
        return " or ".join(f"`{value}`" for value in kind["enum"])
    if "anyOf" in kind:
        return " or ".join(_type(one) for one in kind["anyOf"])
    if kind.get("type") == "array":
        parts = kind.get("items") or {}
        return f"list of {_type(parts)}" if parts else "list"
    if kind.get("type") == "object" and isinstance(kind.get("additionalProperties"), dict):
        return f"object of {_type(kind['additionalProperties'])}"
    return str(kind.get("type", "any"))


def _link(place: str) -> str:
    name = place.rsplit("/", 1)[1]
    return f"[{name}](#{name.lower()})"


def _line(value: Any) -> str:
    words = " ".join((value.__doc__ or "").split("\n\n")[0].split()).replace("``", "`")
    return _cell(re.sub(r":[a-z]+:`([^`]+)`", r"`\1`", words))


def _cell(text: str) -> str:
    parts = text.replace("|", r"\|").split("`")  # every second one is code, where < is itself
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _on_read(_app: Any, _name: str, source: list[str]) -> None:
    source[0] = expand(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Fill the marked places of every page as it is read."""
    app.connect("source-read", _on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
