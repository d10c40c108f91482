"""A trace gives back what was recorded, to the last bit; a damaged one says where, in one line."""

import shutil
import weakref
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import VOCAB_SIZE
from support.traces import PROMPTS, record, reseal, rewrite, spelled_pair

from simverify.errors import UsageError
from simverify.models import trace as trace_module
from simverify.models.trace import (
    MANIFEST_FILE,
    PARTIAL_MANIFEST,
    Trace,
    bytes_per_block,
    open_trace,
)
from simverify.models.transformer import Sampling
from simverify.simulators.decoding.job import make_job
from simverify.simulators.decoding.loop import decode, verifier_factory
from simverify.verifiers import VERIFIERS


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A trace of several shards."""
    folder = tmp_path_factory.mktemp("traces") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "SHARD_BYTES", 20_000)
        record(folder)
    return folder


@pytest.fixture
def trace(whole, tmp_path):
    """A copy to damage."""
    return shutil.copytree(whole, tmp_path / "trace")


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, 5, 0.8), Sampling(0.0)])
def test_what_is_read_is_what_was_decoded(tmp_path, monkeypatch, sampling):
    monkeypatch.setattr(trace_module, "SHARD_BYTES", 20_000)
    made = record(tmp_path / "t", sampling=sampling)
    assert len(made.shards) > 3
    blocks = []
    pair = spelled_pair(sampling=sampling)
    job = make_job(pair, PROMPTS, gamma=3, tokens=400, lanes=32, request_tokens=13, seed=7)
    decode(pair, job, verifier_factory(VERIFIERS["token"]), blocks.append)
    found = list(open_trace(tmp_path / "t").blocks())
    assert len(found) == len(blocks) == made.blocks
    for block, read in zip(blocks, found, strict=True):
        assert (block.lane, block.drafts, block.emitted) == (read.lane, read.drafts, read.emitted)
        np.testing.assert_array_equal(block.p, read.p)
        np.testing.assert_array_equal(block.q, read.q)


def test_one_shard_is_in_memory_at_a_time(whole, monkeypatch):
    read, shards = Trace._arrays, []

    def arrays(trace, shard):
        assert not any(array() is not None for before in shards for array in before)
        found = read(trace, shard)
        shards.append([weakref.ref(array) for array in found.values()])
        return found

    monkeypatch.setattr(Trace, "_arrays", arrays)
    for _ in open_trace(whole).blocks():
        assert any(array() is not None for array in shards[-1])
    assert len(shards) > 1


def test_what_a_shard_took_is_handed_back_before_the_next(whole, monkeypatch):
    """The C library keeps what was freed: a long trace came to hold more with every shard."""
    done = []
    library = SimpleNamespace(malloc_trim=lambda pad: done.append(pad))
    monkeypatch.setattr(trace_module.ctypes, "CDLL", lambda _name: library)
    opened = open_trace(whole)
    shards = len(opened.manifest.shards)
    assert len(list(opened.blocks())) > shards
    assert done == [0] * shards
    # A system whose library has no such call reads the trace all the same.
    monkeypatch.setattr(trace_module.ctypes, "CDLL", lambda _name: SimpleNamespace())
    assert len(list(opened.blocks())) > shards


def test_the_manifest_says_how_it_was_made(whole):
    made = open_trace(whole).manifest
    assert (made.gamma, made.vocab_size, made.kind, made.seed) == (3, VOCAB_SIZE, "rows", 7)
    assert made.decoding.tokens == 32 * 13
    assert {"torch", "transformers", "simverify", "python"} <= set(made.versions)


def test_the_same_seed_gives_the_same_bytes(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(trace_module, "SHARD_BYTES", 20_000)
    record(tmp_path / "again")
    names = sorted(path.name for path in whole.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    assert all((whole / n).read_bytes() == (tmp_path / "again" / n).read_bytes() for n in names)


SHARD = "shard-00001.safetensors"


def cut(folder):
    path = folder / SHARD
    path.write_bytes(path.read_bytes()[:-1])


def flip(folder, name=SHARD):
    data = bytearray((folder / name).read_bytes())
    data[-5] ^= 1
    (folder / name).write_bytes(bytes(data))


def edit(folder):
    text = (folder / MANIFEST_FILE).read_text()
    assert '"temperature": 1.0' in text
    (folder / MANIFEST_FILE).write_text(text.replace('"temperature": 1.0', '"temperature": 0.9'))


def other_version(folder):
    text = (folder / MANIFEST_FILE).read_text()
    (folder / MANIFEST_FILE).write_text(text.replace('"version": 1', '"version": 2'))


def swap(folder):
    first, second = folder / "shard-00000.safetensors", folder / SHARD
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def set_entry(name, place, value):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return lambda folder: rewrite(folder, change, 1)


def forbid_draft(arrays):
    arrays["draft"] = arrays["draft"].copy()
    arrays["draft"][2, 0, arrays["drafts"][2, 0]] = -np.inf


def no_safetensors(folder):
    data = b"x" * (folder / SHARD).stat().st_size
    made = open_trace(folder).manifest
    import hashlib

    digest = hashlib.sha256(data).hexdigest()
    (folder / SHARD).write_bytes(data)
    shards = list(made.shards)
    shards[1] = msgspec.structs.replace(shards[1], sha256=digest)
    reseal(folder, shards=tuple(shards))


DAMAGE = {
    "cut shard": (cut, rf"{SHARD} has [\d,]+ bytes, expected [\d,]+: it was cut"),
    "missing shard": (lambda f: (f / SHARD).unlink(), rf"{SHARD} is missing"),
    "flipped byte": (flip, rf"{SHARD} has sha256 \w+\.\.\., expected \w+\.\.\.: it was changed"),
    "swapped shards": (swap, "shard-00000.safetensors has (sha256|[\\d,]+ bytes)"),
    "wrong hash in the manifest": (
        lambda f: flip(f, MANIFEST_FILE),
        f"{MANIFEST_FILE} (does not match its own sha256|is no manifest)",
    ),
    "edited manifest": (edit, f"{MANIFEST_FILE} does not match its own sha256"),
    "no manifest": (
        lambda f: (f / MANIFEST_FILE).unlink(),
        "holds no manifest.json: its recording",
    ),
    "no folder": (shutil.rmtree, "holds no manifest.json: there is no such folder"),
    "no JSON": (lambda f: (f / MANIFEST_FILE).write_text("{"), "is no manifest of a trace"),
    "other JSON": (lambda f: (f / MANIFEST_FILE).write_text('{"version": 1}'), "is no manifest"),
    "other version": (other_version, "is of version 2, expected 1"),
    "no safetensors file": (no_safetensors, f"{SHARD} is no safetensors file"),
    "NaN": (set_entry("target", (0, 1, 2), np.nan), f"{SHARD}, from block 0 on: logits hold NaN"),
    "infinite": (set_entry("draft", (3, 1, 2), np.inf), f"{SHARD}, from block 0 on: logits hold"),
    "draft out of range": (
        set_entry("drafts", (0, 0), VOCAB_SIZE),
        r"drafts spans \d+..12, expected 0..11",
    ),
    "lane out of range": (set_entry("lane", 0, 32), r"lane spans \d+..32, expected 0..31"),
    "impossible draft": (
        lambda f: rewrite(f, forbid_draft, 1),
        f"{SHARD}, block 2: a draft token has probability 0",
    ),
    "other vocabulary": (
        lambda f: reseal(f, vocab_size=13),
        r"shard-00000.safetensors: target is \('float32', \(\d+, 4, 12\)\), expected .* 13",
    ),
    "other gamma": (lambda f: reseal(f, gamma=4), r"target is .*, 4, 12\)\), expected .*, 5, 12"),
    "a shard twice": (
        lambda f: reseal(f, shards=open_trace(f).manifest.shards[:1] * 2),
        "expected one or more, ",
    ),
    "one lane": (
        lambda f: reseal(
            f, decoding=msgspec.structs.replace(open_trace(f).manifest.decoding, lanes=1)
        ),
        "has 1 lanes, expected 2 or more",
    ),
    "no shard": (lambda f: reseal(f, shards=()), "names 0 files of rows, expected one or more"),
    "statistics of no file": (
        lambda f: reseal(f, kind="statistics", shards=()),
        "names 0 files of statistics, expected",
    ),
    "missing array": (
        lambda f: rewrite(f, lambda arrays: arrays.pop("emitted")),
        "emitted is None, expected",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_trace_is_refused_with_the_reason(trace, kind):
    damage, says = DAMAGE[kind]
    damage(trace)
    with pytest.raises(UsageError, match=says) as found:
        for _ in open_trace(trace).blocks():
            pass
    assert "\n" not in str(found.value)


def test_rows_that_may_not_fit_are_refused_before_anything_is_written(tmp_path):
    each = bytes_per_block(3, VOCAB_SIZE)
    says = rf"max-bytes is {100 * each:,}: 100 tokens fit"
    with pytest.raises(UsageError, match=says):
        record(tmp_path / "t", max_bytes=100 * each)
    assert not (tmp_path / "t").exists()


def test_no_more_bytes_are_written_than_it_says(whole):
    made = open_trace(whole).manifest
    headers = 1000 * len(made.shards)
    assert (
        sum(s.bytes for s in made.shards) <= made.blocks * bytes_per_block(3, VOCAB_SIZE) + headers
    )
    assert made.blocks <= made.decoding.tokens


def test_a_taken_folder_is_refused(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine").write_text("")
    with pytest.raises(UsageError, match="holds files already"):
        record(tmp_path / "t")
    assert (tmp_path / "t" / "mine").exists()


def test_a_full_disk_is_said_before_anything_is_written(tmp_path, monkeypatch):
    left = type("Usage", (), {"free": 50 * bytes_per_block(3, VOCAB_SIZE)})
    monkeypatch.setattr(trace_module.shutil, "disk_usage", lambda _: left)
    with pytest.raises(UsageError, match=r"has [\d,]+ left: 50 tokens fit"):
        record(tmp_path / "t")


@pytest.mark.parametrize("error", [KeyboardInterrupt, UsageError("no")])
@pytest.mark.parametrize("made_before", [False, True])
def test_what_is_interrupted_leaves_nothing(tmp_path, monkeypatch, error, made_before):
    monkeypatch.setattr(trace_module, "SHARD_BYTES", 20_000)
    folder, written = tmp_path / "t", []
    if made_before:
        folder.mkdir()
    save = trace_module.TraceWriter._save

    def stop(self, name, arrays, blocks):
        save(self, name, arrays, blocks)
        written.append(sorted(path.name for path in folder.iterdir()))
        if len(written) == 2:
            raise error

    monkeypatch.setattr(trace_module.TraceWriter, "_save", stop)
    with pytest.raises(error if isinstance(error, type) else UsageError):
        record(folder)
    assert written[-1] == [PARTIAL_MANIFEST, "shard-00000.safetensors", "shard-00001.safetensors"]
    assert folder.exists() == made_before
    assert not made_before or not any(folder.iterdir())
