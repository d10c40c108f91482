"""Rows computed from whole texts: those of a cache where there is one, and right without."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import emitted  # noqa: E402
from support.judged_tokens import judged  # noqa: E402
from support.small_models import (  # noqa: E402
    SEVERAL,
    WHOLE,
    made,
)

from simverify.errors import UsageError  # noqa: E402
from simverify.models import kv_cache  # noqa: E402
from simverify.models.kv_cache import (  # noqa: E402
    CachedModel,
    UncachedModel,
)
from simverify.models.transformer import (  # noqa: E402
    BUNDLED,
    load_pair,
)
from simverify.verifiers import VERIFIERS  # noqa: E402


@pytest.mark.parametrize("entries", [1 << 26, 1])
def test_rows_are_those_of_a_cache(monkeypatch, entries):
    monkeypatch.setattr(kv_cache, "_MAX_CALL_LOGITS", entries)
    model, rng = made("llama", **SEVERAL), np.random.default_rng(5)
    both = CachedModel(model, 3), UncachedModel(model, 3)

    def same(call):
        one, other = (call(own) for own in both)
        for a, b in zip(one, other, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, atol=1e-4)

    def some(*counts):
        return [rng.integers(50, size=n).tolist() for n in counts]

    (prompt,) = some(7)
    for own in both:
        own.read(1, prompt)
    for _ in range(3):
        new, nodes = some(2, 1, 4), some(3, 0, 2)
        same(lambda own, new=new: own.feed(new))
        same(lambda own, nodes=nodes: own.grow(nodes, [[-1, 0, -1], [], [-1, 0]]))
        for own in both:
            own.keep([[0, 1], [], [0]])
            own.take_back([1, 0, 2])
        assert both[0].lengths.tolist() == both[1].lengths.tolist()
    for own in both:
        own.select([2, 0])
    new = some(1, 3)
    same(lambda own: own.feed(new))


def saved(folder, kind, config):
    """A folder of a model of the bundled vocabulary."""
    model = made(kind, spread=2.0, **config | {
        "vocab_size": 1024, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0
    })  # fmt: skip
    model.save_pretrained(folder)
    for path in (BUNDLED / "tokenizer").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return str(folder)


@pytest.mark.distribution
@pytest.mark.parametrize("kind", ["gemma2", "mamba"])
@pytest.mark.thorough(by_day=1)
def test_a_model_that_takes_nothing_back_is_audited_and_decodes(tmp_path, kind):
    """Its own rows pass, decoded with drafts and the whole text anew; a window's rows do not."""
    torch.set_num_threads(1)
    name = saved(tmp_path, kind, WHOLE[kind])
    pair = load_pair(name, None)
    assert pair.is_whole(pair.target_model)
    prompts = ["def f(", "class A:"]
    objects = emitted(pair, VERIFIERS["token"], 1000, gamma=2, lanes=8, prompts=prompts, length=32)
    assert judged(pair, objects, 1000, detect=0.4).verdict == "PASS"
    wrong = load_pair("tiny-llama", None)
    assert judged(wrong, objects, 1000, detect=0.4).verdict == "FAIL"


def test_easyspec_keeps_what_such_a_model_has_not(tmp_path):
    from simverify.drafting.method import DraftMethod

    pair = load_pair(saved(tmp_path, "mistral", WHOLE["mistral"]), None)
    with pytest.raises(UsageError, match="has none of that could be taken back: take plain"):
        DraftMethod("easyspec", 2).make(pair, 2)


def test_a_text_ends_where_its_rows_depend_on_the_path(tmp_path):
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4,
            "rope_theta": 1e4}  # fmt: skip
    config = SEVERAL | {"rope_parameters": rope, "original_max_position_embeddings": 32}
    assert load_pair(saved(tmp_path, "phi3", config), None).context == 32
