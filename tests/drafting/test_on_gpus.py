"""Groups on streams of a GPU and on several GPUs: the numbers of the pass in order."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.phases import phases  # noqa: E402
from support.real_models import (  # noqa: E402
    VOCAB_SIZE,
    deep_model,
)

from simverify.drafting.easyspec import (  # noqa: E402
    EasySpec,
    measure_blocks,
)
from simverify.drafting.fuzzy import (  # noqa: E402
    group_layers,
    run_members,
)
from simverify.models.kv_cache import cache_argument  # noqa: E402

pytestmark = pytest.mark.gpu

GPUS = torch.cuda.device_count()
needs_gpu = pytest.mark.skipif(GPUS < 1, reason="needs a GPU")
needs_two = pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
IDS = torch.arange(3 * 9).reshape(3, 9) % VOCAB_SIZE


def passes(model, fuzzy, home):
    """Logits of an exact prompt, fuzzy tokens, and an exact pass behind them; and the cache."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        logits = [
            run(IDS[:, a:b].to(home), use_cache=True, **cache_argument(run, cache)).logits
            for run, a, b in ((model, 0, 4), (fuzzy, 4, 5), (fuzzy, 5, 6), (model, 6, 9))
        ]
    kept = [x for layer in cache.layers for x in (layer.keys, layer.values)]
    return [x.cpu() for x in logits + kept], [x.device for x in kept[::2]]


@needs_gpu
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_two_streams_give_what_one_gives(kind):
    model = copy.deepcopy(deep_model(kind)).to("cuda")
    for wide in (3, 4):
        due, _ = passes(model, group_layers(model, wide, at_once=False), "cuda")
        for _ in range(20):  # a race shows itself now and then
            found, _ = passes(model, group_layers(model, wide), "cuda")
            assert all(map(torch.equal, found, due))


@needs_gpu
def test_members_have_streams_of_their_own_that_wait_for_what_went_before():
    device = torch.device("cuda", torch.cuda.current_device())
    present, x = torch.cuda.current_stream(device), torch.ones(2000, 2000, device=device)
    for _ in range(10):
        x = x @ x / 2000  # still under way when the members begin
    found = run_members(
        lambda i: (torch.cuda.current_stream(device).cuda_stream, x * i), range(3), device, True
    )
    assert len({stream for stream, _ in found} | {present.cuda_stream}) == 4
    assert np.allclose([float(y.mean()) for _, y in found], [0, 1, 2])


@needs_gpu
def test_blocks_are_timed_with_a_worker_for_each_member():
    model = copy.deepcopy(deep_model()).to("cuda")
    found = measure_blocks(model, 4, lanes=2, context=5, repeats=3)
    assert found.workers == found.group_size == 4
    assert found.exact_pass > found.attention + found.mlp > 0


@needs_two
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("at_once", [True, False])
def test_two_devices_give_what_one_gives(kind, at_once):
    model = copy.deepcopy(deep_model(kind)).to("cuda:0")
    due, _ = passes(model, group_layers(model, 4, at_once=False), "cuda:0")
    fuzzy = group_layers(model, 4, devices=["cuda:0", "cuda:1"], at_once=at_once)
    for _ in range(20):
        found, places = passes(model, fuzzy, "cuda:0")
        assert max(float((x - y).abs().max()) for x, y in zip(found, due, strict=True)) < 1e-5
        assert [place.index for place in places] == [0, 0, 1, 0, 0, 1, 0, 1, 0, 0]


@needs_two
def test_another_placement_brings_all_back():
    model = copy.deepcopy(deep_model()).to("cuda:0")
    due, _ = passes(model, group_layers(model, 4), "cuda:0")
    group_layers(model, 4, devices=["cuda:1", "cuda:0"])
    fuzzy = group_layers(model, 4, devices=["cuda:0"])
    assert {x.device.index for x in model.parameters()} == {0}
    assert all(map(torch.equal, passes(model, fuzzy, "cuda:0")[0], due))


@needs_gpu
def test_phases_are_those_of_the_cpu():
    """On one GPU by streams, on several with a group's attention spread over them."""
    here = EasySpec(deep_model(), 3, 4)
    there = EasySpec(copy.deepcopy(deep_model()).to("cuda"), 3, 4)
    for (*_, due), (*_, found) in zip(phases(here), phases(there), strict=True):
        np.testing.assert_allclose(found, due, atol=1e-4)
    devices = {layer.keys.device for layer in there.cached._cache.layers}
    assert len(devices) == min(GPUS, 4)
    for drafter in (here, there):
        drafter.select([2, 0])
    np.testing.assert_allclose(there.begin([[4], [5]]), here.begin([[4], [5]]), atol=1e-4)
