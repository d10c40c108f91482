import json
import math
import os
import stat
import threading
from pathlib import Path

import jsonschema
import msgspec
import pytest

import simverify
from simverify.errors import UsageError
from simverify.results import Document, overall
from simverify.results.reading import document
from simverify.results.reading.document import check_writable, document_text, write_whole
from simverify.results.reading.schema import shipped_schema


@pytest.fixture(scope="module")
def run():
    return simverify.compare(
        ["toy", "markov-16"], ["block", "temperature-0"], gamma=6, calls=2, blocks=1000
    )


def test_the_round_trip_keeps_everything(run):
    again = msgspec.json.decode(document_text(run), type=Document)
    assert again == run


def test_an_unknown_field_is_refused(run):
    text = document_text(run).replace('"seed"', '"sead"', 1)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Document)


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

        monkeypatch.setattr(document.Path, step, fail)
        with pytest.raises((UsageError, KeyboardInterrupt)):
            write_whole(Path(path), "new")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["file"]
