"""A recording that is killed at any shard goes on to be the one that was not."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.traces import record

from simverify.errors import UsageError
from simverify.models import trace
from simverify.models.trace import MANIFEST_FILE, PARTIAL_MANIFEST, open_trace


class Killed(BaseException):
    """Ends a recording that may clean nothing up."""


def killed(folder, monkeypatch, after, **options):
    """Record ``after`` shards and no more."""
    save = trace.TraceWriter._save

    def stop(self, name, arrays, blocks):
        if name == f"shard-{after:05}.safetensors":
            (folder / f".{name}.part").write_bytes(b"half")
            raise Killed
        save(self, name, arrays, blocks)

    with monkeypatch.context() as patch:
        patch.setattr(trace.TraceWriter, "_save", stop)
        patch.setattr(trace.TraceWriter, "__exit__", lambda *_: None)
        with pytest.raises(Killed):
            record(folder, **options)
    assert not (folder / MANIFEST_FILE).exists()


@pytest.mark.parametrize("after", [0, 1, 2, 4, -1])
@pytest.mark.thorough
def test_it_goes_on_to_the_same_blocks(tmp_path, monkeypatch, after):
    monkeypatch.setattr(trace, "SHARD_BYTES", 20_000)
    whole = record(tmp_path / "whole")
    if after < 0:
        after += len(whole.shards)
    killed(tmp_path / "t", monkeypatch, after)
    said = []
    made = record(tmp_path / "t", progress=said.append)
    assert any("kept from a recording that was killed" in line for line in said) == (after > 0)
    assert made.blocks == whole.blocks
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == sorted(
        path.name for path in (tmp_path / "whole").iterdir()
    )
    due = list(open_trace(tmp_path / "whole").blocks())
    for block, own in zip(due, open_trace(tmp_path / "t").blocks(), strict=True):
        assert (block.lane, block.drafts, block.emitted) == (own.lane, own.drafts, own.emitted)
        np.testing.assert_allclose(block.p, own.p, atol=1e-5)
        np.testing.assert_allclose(block.q, own.q, atol=1e-5)


def test_what_was_there_is_not_decoded_again(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "SHARD_BYTES", 20_000)
    killed(tmp_path / "t", monkeypatch, 3)
    first = (tmp_path / "t" / "shard-00000.safetensors").stat().st_mtime_ns
    record(tmp_path / "t")
    assert (tmp_path / "t" / "shard-00000.safetensors").stat().st_mtime_ns == first


def test_another_recording_does_not_go_on_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "SHARD_BYTES", 20_000)
    killed(tmp_path / "t", monkeypatch, 2)
    before = sorted(path.name for path in (tmp_path / "t").iterdir())
    with pytest.raises(UsageError, match="unfinished recording that was asked for otherwise"):
        record(tmp_path / "t", seed=8)
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == before
    (tmp_path / "t" / "shard-00001.safetensors").write_bytes(b"x")
    with pytest.raises(UsageError, match="cannot be read"):
        record(tmp_path / "t")
    (tmp_path / "t" / PARTIAL_MANIFEST).unlink()
    with pytest.raises(UsageError, match="holds files already"):
        record(tmp_path / "t")
