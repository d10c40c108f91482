"""Attention blocks of a group at once: the same bits as one after another."""

import threading
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from support.real_models import (  # noqa: E402
    VOCAB_SIZE,
    deep_model,
)

from simverify.drafting.fuzzy import (  # noqa: E402
    group_layers,
    run_members,
)
from simverify.models.kv_cache import cache_argument  # noqa: E402

IDS = torch.arange(3 * 9).reshape(3, 9) % VOCAB_SIZE
CPU = torch.device("cpu")


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("wide", [2, 3, 4, 8])
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_same_bits_at_once_and_in_order(kind, wide):
    model, found = deep_model(kind), []
    for at_once in (False, True):
        # A cache that was not told how many layers there are makes them as they come.
        cache = transformers.DynamicCache()
        fuzzy = group_layers(model, wide, at_once=at_once)
        with torch.no_grad():
            logits = [
                fuzzy(IDS[:, a:b], use_cache=True, **cache_argument(fuzzy, cache)).logits
                for a, b in ((0, 5), (5, 6), (6, 9))
            ]
        assert len(cache) == 10
        found.append([*logits, *(x for layer in cache.layers for x in (layer.keys, layer.values))])
    assert all(map(torch.equal, *found))


@pytest.mark.usefixtures("two_threads")
def test_members_run_on_two_threads_and_come_back_in_order():
    both = threading.Barrier(2, timeout=60)

    def run(member):
        both.wait()  # nobody passes unless two are here
        return member, threading.get_ident(), torch.get_num_threads()

    found = run_members(run, range(4), CPU, at_once=True)
    assert [member for member, *_ in found] == [0, 1, 2, 3]
    assert [computing for *_, computing in found] == [2] * 4  # or sums would be taken otherwise
    assert found[0][1] == found[2][1] == threading.get_ident() != found[1][1] == found[3][1]


@pytest.mark.parametrize("at_once", [True, False])
def test_one_thread_runs_them_in_order(at_once):
    torch.set_num_threads(1)
    seen = []
    run_members(lambda i: seen.append((i, threading.get_ident())), range(3), CPU, at_once=at_once)
    assert seen == [(i, threading.get_ident()) for i in range(3)]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("mode", "due"),
    [
        (torch.enable_grad, (True, False)),
        (torch.no_grad, (False, False)),
        (torch.inference_mode, (False, True)),
    ],
)
def test_the_modes_of_the_caller_hold_in_all_threads(mode, due):
    weights = torch.ones(2, requires_grad=True)
    with mode():
        found = run_members(lambda i: weights * i, range(4), CPU, at_once=True)
    assert [(x.requires_grad, x.is_inference()) for x in found] == [due] * 4


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_an_error_comes_through_when_all_have_ended(failing):
    running = []

    def run(member):
        if member == failing:
            raise MemoryError(f"member {member}")
        running.append(member)
        torch.ones(50_000).exp().sum()
        running.remove(member)

    with pytest.raises(MemoryError, match=f"member {failing}"):
        run_members(run, range(4), CPU, at_once=True)
    assert running == []


class Stream:
    """Stands for a stream of a GPU: it notes who waits for whom."""

    def __init__(self, told, name):
        self.told, self.name = told, name

    def wait_stream(self, other):
        self.told.append((self.name, "waits for", other.name))


def test_streams_begin_behind_the_present_one_and_end_before_it_goes_on(monkeypatch):
    """What is asked of CUDA, by way of stand-ins; tests marked gpu ask it itself."""
    told, active, made = [], [], []

    @contextmanager
    def entered(stream):
        active.append(stream.name)
        yield
        active.pop()

    def new(device):
        made.append(Stream(told, f"side {len(made)}"))
        return made[-1]

    present = Stream(told, "present")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: present)
    monkeypatch.setattr(torch.cuda, "stream", entered)
    monkeypatch.setattr(torch.cuda, "Stream", new)
    monkeypatch.setattr("simverify.drafting.fuzzy._CUDA_STREAMS", {})
    device = torch.device("cuda", 0)
    for members in (2, 3):  # the second time with one more stream, and the two of before
        told.clear()
        found = run_members(
            lambda i: told.append(("runs", i, *active)) or i, range(members), device, True
        )
        assert found == list(range(members))
        sides = [f"side {i}" for i in range(members)]
        begins = [
            step
            for i, side in enumerate(sides)
            for step in ((side, "waits for", "present"), ("runs", i, side))
        ]
        assert told == [*begins, *(("present", "waits for", side) for side in sides)]
    assert len(made) == 3
