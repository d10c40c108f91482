"""."""

import importlib
import json
import math
import os
import stat
import threading
from itertools import product
from pathlib import Path

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace
from support.audit_runs import FAILED, STARVED, finding

import simverify
from simverify.errors import UsageError
from simverify.results import Probe, overall, reading
from simverify.results.reading import (
    check_writable,
    decode_document,
    document_text,
    generate_schema,
    read_audit,
    schema_text,
    shipped_schema,
    write_whole,
)


@pytest.fixture(scope="module")
def run():
    return simverify.compare(
        ["toy", "markov-16"], ["block", "temperature-0"], gamma=6, calls=2, blocks=1000
    )


def test_the_round_trip_keeps_everything(run):
    assert decode_document(document_text(run).encode()) == run


def test_an_unknown_field_is_refused(run):
    text = document_text(run).replace('"seed"', '"sead"', 1)
    with pytest.raises(msgspec.ValidationError):
        decode_document(text.encode())


def test_the_text_is_plain_json_that_ends_a_line(run):
    text = document_text(run)
    assert text.endswith("}\n")
    assert document_text(run) == text

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    json.loads(text, parse_constant=refuse)


def test_timings_are_in_meta_and_nowhere_else(run):
    loaded = json.loads(document_text(run))
    meta = loaded.pop("meta")
    assert [set(timing) for timing in meta["timings"]] == [
        {"model", "verifier", "blocks_per_second"}
    ] * 4
    rest = json.dumps(loaded)
    for word in ("second", "started", "machine", "threads", "version"):
        assert word not in rest.replace("schema_version", "")


def test_a_run_fits_the_shipped_schema(run):
    jsonschema.Draft202012Validator(json.loads(shipped_schema())).validate(
        json.loads(document_text(run))
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [("verdict", "MAYBE"), ("schema_version", 2), ("gamma", "8"), ("more", 1), ("command", "x")],
)
def test_a_broken_run_does_not_fit_it(run, key, value):
    loaded = json.loads(document_text(run)) | {key: value}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json.loads(shipped_schema())).validate(loaded)


def test_what_tools_may_rely_on(run):
    loaded = json.loads(document_text(run))
    assert (loaded["schema_version"], loaded["command"], loaded["gamma"]) == (1, "compare", 6)
    assert [model["name"] for model in loaded["models"]] == ["toy", "markov-16"]
    for model in loaded["models"]:
        bound = model["bounds"]["coupling"]
        assert bound["lower"] <= bound["upper"]
    for row in loaded["results"]:
        assert row["verdict"] in ("PASS", "FAIL", "INCONCLUSIVE")
        assert row["lossless"]["tier"] in ("exact", "sampled")
        assert len(row["acceptance_ccdf"]["measured"]) == 6
        measured = row["measured"]
        assert 0 <= measured["ci_low"] <= measured["mean"] <= measured["ci_high"] <= 6
        assert [entry["calls"] for entry in row["calls"]] == [1, 2]
        certificate = row["lossless"]["certificate"]
        assert (certificate is not None) == (row["lossless"]["verdict"] == "PASS")
        if certificate is not None:
            assert set(certificate) == {"bound", "delta", "method", "assumption"}
        assert all(isinstance(test["rejected"], bool) for test in row["lossless"]["tests"])


def test_a_frozen_result(run):
    with pytest.raises(AttributeError):
        run.results[0].gamma = 3


def test_no_number_is_infinite(run):
    def numbers(value):
        if isinstance(value, float):
            yield value
        elif isinstance(value, dict | list):
            for part in value.values() if isinstance(value, dict) else value:
                yield from numbers(part)

    found = list(numbers(msgspec.to_builtins(run)))
    assert found
    assert all(math.isfinite(value) for value in found)


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (["PASS", "PASS"], "PASS"),
        (["PASS", "INCONCLUSIVE"], "INCONCLUSIVE"),
        (["INCONCLUSIVE", "FAIL", "PASS"], "FAIL"),
    ],
)
def test_the_worst_verdict_counts(verdicts, worst):
    assert overall(verdicts) == worst


class TestWriting:
    def test_a_new_file_has_the_usual_mode(self, tmp_path):
        before = os.umask(0o027)
        try:
            write_whole(tmp_path / "new", "text")
        finally:
            os.umask(before)
        assert (tmp_path / "new").read_text() == "text"
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640

    def test_a_reader_of_the_old_file_keeps_it(self, tmp_path):
        path = tmp_path / "file"
        path.write_text("old")
        with path.open() as old:
            write_whole(path, "new")
            assert old.read() == "old"
        assert path.read_text() == "new"

    def test_a_link_is_followed(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to("folder/real")
        check_writable(tmp_path / "link")
        write_whole(tmp_path / "link", "new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "folder" / "real").read_text() == "new"

    def test_a_pipe_stays_a_pipe(self, tmp_path):
        path, read = tmp_path / "pipe", []
        os.mkfifo(path)
        check_writable(path)
        reader = threading.Thread(target=lambda: read.append(path.read_text()))
        reader.start()
        write_whole(path, "text")
        reader.join(timeout=30)
        assert read == ["text"]
        assert path.is_fifo()

    def test_checking_leaves_nothing_and_changes_nothing(self, tmp_path):
        (tmp_path / "old").write_text("old")
        for name in ("old", "new"):
            check_writable(tmp_path / name)
        assert os.listdir(tmp_path) == ["old"]
        assert (tmp_path / "old").read_text() == "old"

    @pytest.mark.parametrize("act", [check_writable, lambda path: write_whole(path, "new")])
    @pytest.mark.parametrize("name", ["folder", "none/file", "file/file", "x" * 300])
    def test_where_nothing_can_be_written(self, tmp_path, act, name):
        (tmp_path / "folder").mkdir()
        (tmp_path / "file").write_text("old")
        with pytest.raises(UsageError, match=r"cannot be written|is a folder"):
            act(tmp_path / name)
        assert sorted(os.listdir(tmp_path)) == ["file", "folder"]

    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt])
    @pytest.mark.parametrize("step", ["chmod", "replace"])
    def test_a_failure_on_the_way_keeps_the_old_file(self, tmp_path, monkeypatch, step, error):
        path = tmp_path / "file"
        path.write_text("old")

        def fail(*_):
            raise error

        monkeypatch.setattr(reading.Path, step, fail)
        with pytest.raises((UsageError, KeyboardInterrupt)):
            write_whole(Path(path), "new")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["file"]


# Run files that were saved before findings had kinds.


PROBES = (
    Probe(name="u = 0", outcome="violation", message="raised KeyError"),
    Probe(name="zero rows", outcome="warning", message="emitted token 2", failed=True),
    Probe(name="p = q", outcome="warning", message="drew nothing"),
)
TOLD = (
    finding("probe", "probe u = 0: raised KeyError"),
    finding("probe", "probe zero rows: emitted token 2"),
)
TESTS = (finding("tests", "G2: p = 1e-30"), finding("tests", "PIT: p = 1e-20"))
TIER = replace(STARVED.sampled, findings=TESTS)

RUNS = {
    "the law": replace(
        FAILED, findings=(finding("other", "the exact distribution on found differs"),)
    ),
    "probes and more": replace(
        FAILED, probes=PROBES, findings=(*TOLD, finding("other", "too-many: 9 tokens"))
    ),
    "the sampled tier": replace(
        STARVED, verdict="FAIL", inconclusive=None, probes=PROBES, sampled=TIER,
        findings=(*TOLD, *TESTS),
    ),
}  # fmt: skip


def saved(run, path):
    """Write ``run`` as it was written when findings were texts."""
    plain = json.loads(document_text(run))
    for part in filter(None, (plain, plain["sampled"])):
        part["findings"] = [found["text"] for found in part["findings"]]
    path.write_text(json.dumps(plain))
    return path


@pytest.mark.parametrize("name", RUNS)
def test_findings_get_the_kinds_that_can_be_told(name, tmp_path):
    assert read_audit(saved(RUNS[name], tmp_path / "run.json")) == RUNS[name]


@pytest.mark.parametrize(
    "change", [{"findings": "broke"}, {"findings": [7]}, {"probes": 3}, {"sampled": []}]
)
def test_what_is_broken_otherwise_is_refused(change, tmp_path):
    plain = json.loads(saved(RUNS["the law"], tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(plain | change))
    with pytest.raises(UsageError, match="is not a result document of this version: Expected"):
        read_audit(tmp_path / "run.json")


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


# The verdict of a run, from those of its parts.


WORST_FIRST = ("FAIL", "INCONCLUSIVE", "PASS")


@pytest.mark.parametrize("verdicts", list(product(WORST_FIRST, repeat=3)), ids=" ".join)
def test_a_run_is_as_good_as_its_worst_part(verdicts):
    assert overall(list(verdicts)) == min(verdicts, key=WORST_FIRST.index)


def test_one_part_is_the_run():
    for verdict in WORST_FIRST:
        assert overall([verdict]) == verdict


def test_no_two_modules_of_documents_share_a_name():
    """A star import of the later one would hide the earlier."""
    homes = {}
    for module in ("audit", "common", "compare", "served", "surveys"):
        name = f"simverify.results.{module}"
        for kind in vars(importlib.import_module(name)).values():
            if isinstance(kind, type) and kind.__module__ == name:
                homes.setdefault(kind.__name__, []).append(module)
    assert {kind: where for kind, where in homes.items() if len(where) > 1} == {}
    assert len(homes) > 50
