"""Drafting with a draft model: token by token, or by EasySpec (Wu et al.), and what each costs.

In EasySpec fuzzy passes run the attention blocks of a group of layers on one input, at the same
time (:mod:`~simverify.drafting.fuzzy`). The keys and values that they leave in the cache are off,
and so would be all later laws. Bonus calibration drops them, those of accepted drafts too, and runs
the accepted tokens and the one behind them through the model as it is, which refills the cache and
gives the law of the first draft; the others of a phase are fuzzy.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np
import torch

from simverify.checks import check_ranges
from simverify.drafting.fuzzy import LayerGroup, decoder_layers, group_layers
from simverify.drafting.groups import layer_groups
from simverify.drafting.texts import Logits
from simverify.drafting.time_model import BlockTimes
from simverify.errors import UsageError
from simverify.models.kv_cache import CachedModel, UncachedModel, cache_argument
from simverify.results import LayerSimilarity

# The plain drafter: token by token, the baseline of the others.


class PlainDrafter:
    """Drafts of a causal model, which is fed every token once, for a batch of ``requests``.

    ``whole``: nothing can be taken back from the model's memory, so that it gets none.
    """

    through: Any = None
    """What drafts are fed through, in the place of the model itself."""

    def __init__(self, model: Any, requests: int, *, whole: bool = False) -> None:
        self.cached = (UncachedModel if whole else CachedModel)(model, requests)
        self.drafted = 0
        """Drafts of this phase that were fed to each request's chain."""

    def read(self, request: int, tokens: Sequence[int]) -> None:
        """Begin a request with its prompt, but for the prompt's last token."""
        self.cached.read(request, tokens)

    def begin(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Begin a phase; return float32 (requests, V), the logits for the first drafts."""
        return last_logits(self.cached.feed(tokens))

    def extend(self, tokens: Sequence[int]) -> Logits:
        """Append one draft to each request's; return float32 (requests, V), for the next ones."""
        self.drafted += 1
        self._count([[token] for token in tokens])
        return last_logits(self.cached.feed([[token] for token in tokens], through=self.through))

    def grow(
        self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]
    ) -> list[Logits]:
        """Append nodes to the requests' draft trees; return (n_r, V), the logits after each."""
        self._count(tokens)
        return self.cached.grow(tokens, parents, through=self.through)

    def accept(self, kept: Sequence[Sequence[int]]) -> None:
        """End the phase: of each request the drafts that have come into the text, by number."""
        if self.drafted:
            self.cached.take_back([self.drafted - len(way) for way in kept])
        else:
            self.cached.keep(kept)
        self.drafted = 0

    def end(self, requests: Sequence[bool]) -> None:
        """Forget the texts of the requests that have ended."""
        self.cached.take_back(np.where(requests, self.cached.lengths, 0).tolist())

    def select(self, requests: Sequence[int]) -> None:
        """Go on with these requests of the batch, in this order."""
        self.cached.select(requests)

    def _count(self, tokens: Sequence[Sequence[int]]) -> None:
        """Note the next drafts of each request."""


def last_logits(logits: Sequence[Logits]) -> Logits:
    """Stack the last row of each request: float32 (requests, V)."""
    return np.stack([own[-1] for own in logits])


class EasySpec(PlainDrafter):
    """Drafts of a causal model whose layers run in groups.

    With one layer a group (``layer_parallel``) no pass is fuzzy, nothing has to be mended, and
    drafts are plain ones to the last bit. ``calibration`` replaces fuzzy entries of the cache by
    exact ones. Without it those of accepted drafts stay, and the first draft of a phase is fuzzy
    too.

    Raises ``UsageError`` if ``layer_parallel`` is below 1, or the model is no Llama or Qwen2.
    """

    def __init__(
        self, model: Any, requests: int, layer_parallel: int, *, calibration: bool = True
    ) -> None:
        super().__init__(model, requests)
        groups = layer_groups(model.config.num_hidden_layers, layer_parallel)
        self.through = group_layers(model, layer_parallel, devices=group_devices(model.device))
        self._calibrates = calibration and any(len(group) > 1 for group in groups)
        self._exactly = None if self._calibrates else self.through
        # Of this phase the drafts of each request; of the last one those to be run again.
        self._drafts: list[list[int]] = [[] for _ in range(requests)]
        self._owed: list[list[int]] = [[] for _ in range(requests)]

    def begin(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Begin a phase; return float32 (requests, V), the logits for the first drafts."""
        pending = [[*owed, *own] for owed, own in zip(self._owed, tokens, strict=True)]
        self._owed = [[] for _ in tokens]
        return last_logits(self.cached.feed(pending, through=self._exactly))

    def accept(self, kept: Sequence[Sequence[int]]) -> None:
        """End the phase: of each request the drafts that have come into the text, by number."""
        if self._calibrates:
            self._owed = [
                [own[number] for number in way] for own, way in zip(self._drafts, kept, strict=True)
            ]
            super().accept([()] * len(kept))
        else:
            super().accept(kept)
        self._drafts = [[] for _ in kept]

    def end(self, requests: Sequence[bool]) -> None:
        """Forget the texts of the requests that have ended."""
        super().end(requests)
        self._owed = [
            [] if ended else owed for owed, ended in zip(self._owed, requests, strict=True)
        ]

    def select(self, requests: Sequence[int]) -> None:
        """Go on with these requests of the batch, in this order."""
        super().select(requests)
        self._drafts = [self._drafts[r] for r in requests]
        self._owed = [self._owed[r] for r in requests]

    def _count(self, tokens: Sequence[Sequence[int]]) -> None:
        for drafts, new_tokens in zip(self._drafts, tokens, strict=True):
            drafts.extend(new_tokens)


def group_devices(home: torch.device) -> list[torch.device] | None:
    """Return the GPUs among which a group is shared, that of the model first; None for one."""
    if home.type != "cuda" or torch.cuda.device_count() < 2:
        return None
    others = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    return [home, *(device for device in others if device != home)]


# Similarity of a fuzzy pass and the exact one, layer by layer.


_RECORDED_TENSORS = ("hidden", "attention", "q", "k", "v")


@torch.no_grad()
def layer_similarities(
    model: Any, input_ids: Any, layer_parallel: int, *, exact_tokens: int = 0
) -> list[LayerSimilarity]:
    """Compare a fuzzy pass over texts with the exact one.

    Every layer of the fuzzy pass works on what the fuzzy layers below it gave, so that deviations
    add up as they do in drafting. ``model``: a causal model of Transformers, of type llama or
    qwen2, in ``eval`` mode. ``layer_parallel``: layers of a group at most; at 1 all similarities
    are 1, up to rounding. ``exact_tokens``: so many tokens at the start of each of the
    texts (batch, n) are read exactly by both, as after calibration; the others alone are compared.
    At 0 the fuzzy pass reads fuzzy keys and values throughout. (Table 4 of Wu et al., "EasySpec:
    Layer-Parallel Speculative Decoding for Efficient Multi-GPU Utilization".)

    Raises ``UsageError`` if the model has no layers to group, or no token is left to compare.
    """
    from transformers import DynamicCache

    ids = torch.as_tensor(input_ids, device=model.device)
    if ids.ndim != 2 or not 0 <= exact_tokens < ids.shape[1] or not len(ids):
        raise UsageError(
            f"token ids of shape {tuple(ids.shape)} with {exact_tokens} exact tokens leave none "
            "to compare: expected (batch, n) and exact tokens from 0 to n - 1"
        )
    passes = []
    for run in (model, group_layers(model, layer_parallel)):
        cache = DynamicCache(config=model.config)
        if exact_tokens:
            model(ids[:, :exact_tokens], use_cache=True, **cache_argument(model, cache))
        with _record_attention(decoder_layers(model)) as seen:
            run(ids[:, exact_tokens:], use_cache=True, **cache_argument(run, cache))
        passes.append(seen)
    exact, fuzzy = passes
    return [
        LayerSimilarity(
            layer=i,
            **{what: _mean_cosine(exact[i, what], fuzzy[i, what]) for what in _RECORDED_TENSORS},
        )
        for i in range(len(decoder_layers(model)))
    ]


@contextmanager
def _record_attention(layers: list[Any]) -> Iterator[dict[tuple[int, str], torch.Tensor]]:
    """Note what the attention blocks of ``layers`` read and give while this is open."""
    seen: dict[tuple[int, str], torch.Tensor] = {}
    hooks = []

    def note(i: int, what: str) -> Callable[..., None]:
        def hook(_: Any, given: Any, *output: Any) -> None:
            value = output[0] if output else given
            seen[i, what] = value[0] if isinstance(value, tuple) else value

        return hook

    try:
        for i, layer in enumerate(layers):
            norm, attention = layer.input_layernorm, layer.self_attn
            hooks.append(norm.register_forward_pre_hook(note(i, "hidden")))
            hooks.append(attention.register_forward_hook(note(i, "attention")))
            for what in ("q", "k", "v"):
                projection = getattr(attention, f"{what}_proj")
                hooks.append(projection.register_forward_hook(note(i, what)))
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _mean_cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the mean over tokens of the cosine of vectors (batch, n, width)."""
    a, b = (x.cpu().double() for x in (one, other))
    return float(torch.nn.functional.cosine_similarity(a, b, dim=-1, eps=1e-300).mean())


# Measured times of a draft model's attention and MLP blocks, for the time model.


_WARM_UP_ROUNDS = 3
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

    Each figure, in seconds, is a median over ``repeats`` rounds through all layers, or all groups
    of the largest size, so that no block finds its weights where it alone left them. On CUDA each
    timing waits for the device and so includes the start of its kernels. ``model``: a causal model
    of Transformers, of type llama or qwen2, in ``eval`` mode. ``context``: tokens that
    each request holds in the cache. Threads that run at once on a CPU, streams and ``devices``
    count as workers.

    Raises ``UsageError`` if the model has no layers to group, or a count is below 1.
    """
    counts = {"lanes": lanes, "context": context, "repeats": repeats}
    check_ranges((name, count, count >= 1, "1 or more") for name, count in counts.items())
    fuzzy = group_layers(model, layer_parallel, devices=devices)
    step, layers = _TimedStep(model, lanes, context), decoder_layers(model)
    groups = [run for run in fuzzy.base_model.layers if isinstance(run, LayerGroup)]
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
        workers=_worker_count(model.device, size, devices),
        exact_pass=exact_pass,
        fuzzy_pass=fuzzy_pass,
    )


class _TimedStep:
    """One token for each request behind a filled cache, as often as it is asked for."""

    def __init__(self, model: Any, lanes: int, context: int) -> None:
        from transformers import DynamicCache

        self._device, dtype = model.device, model.dtype
        vocabulary, width = model.config.vocab_size, model.config.hidden_size
        rng = torch.Generator().manual_seed(0)
        ids = torch.randint(vocabulary, (lanes, context + 1), generator=rng).to(self._device)
        cache = DynamicCache(config=model.config)
        model(ids[:, :-1], use_cache=True, **cache_argument(model, cache))
        self._layers: list[Any] = list(cache.layers)
        self._kept = [(layer.keys, layer.values) for layer in self._layers]
        self._hidden = torch.randn((lanes, 1, width), generator=rng).to(self._device, dtype)
        positions = torch.full((lanes, 1), context, device=self._device)
        # Requests of different lengths have a mask.
        mask = torch.zeros((lanes, 1, 1, context + 1), dtype=dtype, device=self._device)
        self._memory = {
            "attention_mask": mask,
            "position_ids": positions,
            "use_cache": True,
            **cache_argument(model, cache),
        }
        self._ids = ids[:, -1:]
        self._turns = model.base_model.rotary_emb(self._hidden, positions)

    def attention(self, layer: Any) -> object:
        normed = layer.input_layernorm(self._hidden)
        return layer.self_attn(
            hidden_states=normed, position_embeddings=self._turns, **self._memory
        )

    def mlp(self, layer: Any) -> object:
        return layer.mlp(layer.post_attention_layernorm(self._hidden))

    def group(self, group: LayerGroup) -> object:
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
        for turn in range(_WARM_UP_ROUNDS + repeats):
            for samples, (run, over) in zip(taken, runs, strict=True):
                times = [self._timed(run, one) for one in over]
                samples += times if turn >= _WARM_UP_ROUNDS else []
        return [median(own) for own in taken]

    def _timed(self, run: Callable[[Any], object], one: Any) -> float:
        for layer, (keys, values) in zip(self._layers, self._kept, strict=True):
            layer.keys, layer.values = keys, values
        start = self._now()
        run(one)
        return self._now() - start

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


def _worker_count(
    device: torch.device, size: int, devices: Sequence[str | torch.device] | None
) -> int:
    if devices is not None:
        return min(size, len(set(map(torch.device, devices))))
    return size if device.type == "cuda" else min(size, torch.get_num_threads())
