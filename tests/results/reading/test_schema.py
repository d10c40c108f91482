import json

import jsonschema
import pytest

from simverify.results.reading.schema import generate_schema, schema_text, shipped_schema


def test_the_shipped_schema_is_the_generated_one():
    assert shipped_schema() == schema_text()
    assert json.loads(shipped_schema()) == generate_schema()


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(generate_schema())


def objects(schema):
    return {
        name: definition
        for name, definition in schema["$defs"].items()
        if definition.get("type") == "object"
    }


def test_every_object_is_closed():
    found = objects(generate_schema())
    assert {"CompareRun", "CompareResult", "Lossless", "Meta", "AuditRun"} <= set(found)
    for name, definition in found.items():
        assert definition["additionalProperties"] is False, name
        assert definition["required"], name


@pytest.mark.parametrize("document", [{}, [], {"command": "compare"}, {"schema_version": 1}])
@pytest.mark.thorough
def test_what_is_no_result_does_not_fit(document):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, generate_schema())
