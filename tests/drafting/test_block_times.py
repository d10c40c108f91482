"""Times of blocks: what is called, how often, and what is made of it."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import deep_model  # noqa: E402

from simverify.drafting import easyspec  # noqa: E402
from simverify.drafting.easyspec import measure_blocks  # noqa: E402
from simverify.drafting.time_model import (  # noqa: E402
    fit_time_model,
    predict_drafting,
)
from simverify.errors import UsageError  # noqa: E402


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_a_measurement_gives_a_prediction():
    model = deep_model("qwen2")
    found = measure_blocks(model, 4, lanes=3, context=7, repeats=2)
    assert (found.layers, found.layer_parallel, found.group_size) == (10, 4, 4)
    assert found.workers == 1
    assert min(found.attention, found.mlp) > 0
    assert found.group > found.attention
    assert found.exact_pass > found.attention + found.mlp
    assert [own.devices for own in predict_drafting(fit_time_model(found), 5)] == [1, 2, 4, 8]


@pytest.mark.usefixtures("two_threads")
def test_two_threads_are_two_workers():
    assert measure_blocks(deep_model(), 4, lanes=2, context=5, repeats=1).workers == 2
    alone = measure_blocks(deep_model(), 1, lanes=2, context=5, repeats=1)
    assert (alone.workers, alone.group_size) == (1, 1)
    assert alone.group < alone.exact_pass


def test_medians_in_seconds_behind_a_cache_of_the_same_length(monkeypatch):
    """Clocked by a clock of ours: each attention takes 2 s, an MLP 3 s, whatever the machine."""
    now, lengths = [0.0], set()
    monkeypatch.setattr(easyspec.time, "perf_counter", lambda: now[0])
    model = deep_model()
    hooks = []
    for layer in model.model.layers:

        def after_attention(module, args, kwargs, found):
            now[0] += 2.0
            lengths.add(
                (kwargs.get("cache") or kwargs["past_key_values"])
                .layers[module.layer_idx]
                .keys.shape[2]
            )

        def after_mlp(module, args, found):
            now[0] += 3.0

        hooks += [
            layer.self_attn.register_forward_hook(after_attention, with_kwargs=True),
            layer.mlp.register_forward_hook(after_mlp),
        ]
    try:
        found = measure_blocks(model, 4, lanes=2, context=5, repeats=3)
    finally:
        for hook in hooks:
            hook.remove()
    assert (found.attention, found.mlp, found.group) == (2.0, 3.0, 8.0)
    assert found.exact_pass == found.fuzzy_pass == 10 * (2.0 + 3.0)
    assert fit_time_model(found).rest == 0
    assert lengths == {5, 6}  # what fills the cache, and each step behind it


@pytest.mark.parametrize("wrong", ["lanes", "context", "repeats"])
def test_counts_of_none(wrong):
    counts = {"lanes": 2, "context": 5, "repeats": 1} | {wrong: 0}
    with pytest.raises(UsageError, match=f"{wrong} is 0: expected 1 or more"):
        measure_blocks(deep_model(), 4, **counts)
