"""The JSON Schema of the result document, generated from its structs and shipped as a file."""

from importlib.resources import files
from typing import Any

import msgspec

from simverify.results import Document

SCHEMA_FILE = "schema.json"


def generate_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the result document."""
    # As JSON has it: an empty tuple that is a default becomes a list.
    schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Document)))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def shipped_schema() -> str:
    """Text of the schema that this version ships."""
    return files("simverify.results.reading").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


def schema_text() -> str:
    """Generated schema as the text of the shipped file."""
    text = msgspec.json.format(msgspec.json.encode(generate_schema()), indent=2).decode()
    return text + "\n"
