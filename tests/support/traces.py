"""Traces of a pair of random little models, and ways to damage one."""

from dataclasses import replace
from types import SimpleNamespace

import msgspec
from support.real_models import little_pair

from simverify.comparing.capture import capture
from simverify.models.trace import MANIFEST_FILE, Manifest, TraceShard

PROMPTS = ("123", "4", "56", "789")


def spelled_pair(**options):
    """The little pair with a tokenizer: digits are their own tokens."""
    tokenizer = lambda text: SimpleNamespace(input_ids=[int(digit) for digit in text])  # noqa: E731
    return replace(little_pair(**options), tokenizer=tokenizer)


def record(folder, *, gamma=3, tokens=400, sampling=None, **options):
    pair = spelled_pair(sampling=sampling)
    options = {"request_tokens": 13, "seed": 7} | options
    return capture(pair, PROMPTS, folder, gamma=gamma, tokens=tokens, **options)


def reseal(folder, **fields):
    """Write fields of the manifest anew, so that its own hash is right."""
    path = folder / MANIFEST_FILE
    made = msgspec.structs.replace(msgspec.json.decode(path.read_bytes(), type=Manifest), **fields)
    path.write_bytes(msgspec.json.encode(made.sealed()))


def rewrite(folder, change, number=0):
    """Change the arrays of a shard in place and hash it anew: damage that no hash can see."""
    import hashlib

    from safetensors.numpy import load, save

    made = msgspec.json.decode((folder / MANIFEST_FILE).read_bytes(), type=Manifest)
    shard = made.shards[number]
    arrays = load((folder / shard.file).read_bytes())
    change(arrays)
    data = save(arrays)
    (folder / shard.file).write_bytes(data)
    fresh = TraceShard(
        file=shard.file, bytes=len(data), blocks=shard.blocks,
        sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    reseal(folder, shards=(*made.shards[:number], fresh, *made.shards[number + 1 :]))
