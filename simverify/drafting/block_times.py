"""Measures what attention and MLP blocks of a draft model take, for the time model."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

from simverify.checks import ranges_iv
from simverify.drafting.fuzzy import Group, grouped, layers_of
from simverify.drafting.time_model import BlockTimes

_WARM_UP = 3
"""Rounds that are not counted: threads start, memory is taken, kernels are chosen."""


@torch.no_grad()
def measure_blocks(
    model: Any,
    layer_parallel: int,
    *,
    lanes: int,
    context: int,
    repeats: int = 30,
    devices: Sequence[str | torch.device] | None = None,
) -> BlockTimes:
    """Measure a draft model while each of ``lanes`` requests feeds one token.

    Each figure is a median over ``repeats`` rounds through all layers, or all groups of the
    largest size, so that no block finds its weights where it alone left them. On CUDA each
    timing waits for the device and so includes the start of its kernels.

    Parameters
    ----------
    model
        A causal model of Transformers, of type llama or qwen2, in ``eval`` mode.
    layer_parallel
        N, layers of a group at most.
    lanes
        Requests that decode side by side.
    context
        Tokens that each holds in the cache, one or more.
    repeats
        Rounds.
    devices
        As in :func:`simverify.drafting.fuzzy.grouped`, which is asked for the groups.

    Returns
    -------
    BlockTimes
        In seconds. Threads that run at once on a CPU, streams or devices count as workers.

    Raises
    ------
    UsageError
        If the model has no layers to group, or a count is below 1.
    """
    counts = {"lanes": lanes, "context": context, "repeats": repeats}
    ranges_iv((name, count, count >= 1, "1 or more") for name, count in counts.items())
    fuzzy = grouped(model, layer_parallel, devices=devices)
    step, layers = _Step(model, lanes, context), layers_of(model)
    groups = [run for run in fuzzy.base_model.layers if isinstance(run, Group)]
    size = max((len(group.layers) for group in groups), default=1)
    largest = [group for group in groups if len(group.layers) == size]
    attention, mlp, group, exact_pass, fuzzy_pass = step.medians(
        [
            (step.attention, layers),
            (step.mlp, layers),
            (step.group, largest) if largest else (step.attention, layers),
            (step.whole, [model]),
            (step.whole, [fuzzy]),
        ],
        repeats,
    )
    return BlockTimes(
        layers=len(layers),
        layer_parallel=layer_parallel,
        attention=attention,
        mlp=mlp,
        group=group,
        group_size=size,
        workers=_workers(model.device, size, devices),
        exact_pass=exact_pass,
        fuzzy_pass=fuzzy_pass,
    )


class _Step:
    """One token for each request behind a filled cache, as often as it is asked for."""

    def __init__(self, model: Any, lanes: int, context: int) -> None:
        from transformers import DynamicCache

        self._device, dtype = model.device, model.dtype
        vocabulary, width = model.config.vocab_size, model.config.hidden_size
        rng = torch.Generator().manual_seed(0)
        ids = torch.randint(vocabulary, (lanes, context + 1), generator=rng).to(self._device)
        cache = DynamicCache(config=model.config)
        model(ids[:, :-1], past_key_values=cache, use_cache=True)
        self._layers: list[Any] = list(cache.layers)
        self._kept = [(layer.keys, layer.values) for layer in self._layers]
        self._hidden = torch.randn((lanes, 1, width), generator=rng).to(self._device, dtype)
        positions = torch.full((lanes, 1), context, device=self._device)
        # Requests of different lengths have a mask.
        mask = torch.zeros((lanes, 1, 1, context + 1), dtype=dtype, device=self._device)
        self._memory = {"attention_mask": mask, "position_ids": positions,
                        "past_key_values": cache, "use_cache": True}  # fmt: skip
        self._ids = ids[:, -1:]
        self._turns = model.base_model.rotary_emb(self._hidden, positions)

    def attention(self, layer: Any) -> object:
        normed = layer.input_layernorm(self._hidden)
        return layer.self_attn(
            hidden_states=normed, position_embeddings=self._turns, **self._memory
        )

    def mlp(self, layer: Any) -> object:
        return layer.mlp(layer.post_attention_layernorm(self._hidden))

    def group(self, group: Group) -> object:
        return group.attended(self._hidden, position_embeddings=self._turns, **self._memory)

    def whole(self, model: Any) -> object:
        return model(self._ids, **self._memory)

    def medians(
        self, runs: Sequence[tuple[Callable[[Any], object], Sequence[Any]]], repeats: int
    ) -> list[float]:
        """Return the median time of each of ``runs`` on each of what it is for, in seconds.

        They take turns, so that a machine that slows down does so for all.
        """
        taken: list[list[float]] = [[] for _ in runs]
        for turn in range(_WARM_UP + repeats):
            for own, (run, over) in zip(taken, runs, strict=True):
                found = [self._timed(run, one) for one in over]
                own += found if turn >= _WARM_UP else []
        return [median(own) for own in taken]

    def _timed(self, run: Callable[[Any], object], one: Any) -> float:
        for layer, (keys, values) in zip(self._layers, self._kept, strict=True):
            layer.keys, layer.values = keys, values
        begun = self._now()
        run(one)
        return self._now() - begun

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


def _workers(device: torch.device, size: int, devices: Sequence[str | torch.device] | None) -> int:
    if devices is not None:
        return min(size, len(set(map(torch.device, devices))))
    return size if device.type == "cuda" else min(size, torch.get_num_threads())
