"""A report as one HTML file that needs no network: its style and script stand inside.

The content security policy allows exactly that style and that script, by their hashes, and
nothing else; the run file itself is embedded as data where it is small enough.
"""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape

from simverify.checks import clean
from simverify.reports.report import report_of
from simverify.reports.words import (
    shell,
)
from simverify.results import Document

MOST_EMBEDDED = 300_000
"""Characters of a run file that is embedded; a larger one stays beside the report."""


def html_report(run: Document) -> str:
    """Return the page of ``run``: the same bytes for the same document."""
    data = _data(run)
    style, script = _file("report.css"), _file("report.js")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report_of(run),
            style=Markup(style),
            script=Markup(script),
            policy=(
                f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
                "base-uri 'none'; form-action 'none'"
            ),
            data=Markup(data) if len(data) <= MOST_EMBEDDED else None,
            size=f"{len(data):,}",
        )
    )


def _data(run: Document) -> str:
    """The document as JSON that is plain ASCII and cannot end the element it stands in."""
    text = json.dumps(msgspec.to_builtins(run), ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _file(name: str) -> str:
    return files("simverify.reports").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shell"] = lambda text: escape(shell(text))
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment


def _shown(value: Any) -> Any:
    # Every text that a template prints is bounded and printable; markup is our own.
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
