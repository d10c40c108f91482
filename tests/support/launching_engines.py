"""The engines whose kernels are launched, and how the function of each is called on a batch."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from support.kernel_launches import Drafted, Kernels, Load, compiled, interpreted

import simverify
from simverify.engines.catalogue.vllm import V1_WARMUPS, V2_DRAWING_FUNCTIONS
from simverify.triton_cpu import LIBDEVICE, dispatcher, load_tiles, tl


def vllm_v1(load: Load, path: Path) -> Kernels:
    """Kernels of vLLM's V1 runner, and of Aphrodite's, whose function is called alike."""
    given = {"triton_kernel_dispatcher_with_warmup": dispatcher, **V1_WARMUPS}
    module = load(path, ["rejection_sample"], **given)

    def calls(given: Drafted) -> None:
        tokens, size = given.flat(given.tokens), len(given.lengths)
        if len(tokens) > 2:
            tokens[-2] = -1  # a placeholder, which is to be rejected
        target = given.logits(given.flat(given.target))
        draft = torch.nn.functional.pad(given.flat(given.draft), (0, given.padding))
        for q in (draft, None):
            for greedy in (given.greedy, torch.zeros(size, dtype=torch.bool)):
                asked = SimpleNamespace(all_greedy=False, all_random=not greedy.any(),
                                        generators={}, temperature=(~greedy).float())  # fmt: skip
                module.rejection_sample(tokens, given.lengths, given.gamma, given.ends, q,
                                        target.clone(), given.bonus, asked)  # fmt: skip

    return Kernels((module,), calls)


def vllm_v2(load: Load, path: Path) -> Kernels:
    """Kernels of vLLM's V2 runner: token and block verification, with and without draft rows."""
    math = _math(load)
    noise = load(path.parents[1] / "sample/gumbel.py", V2_DRAWING_FUNCTIONS)
    own = {name: getattr(noise, name) for name in V2_DRAWING_FUNCTIONS}
    module = load(path, ["rejection_sample"], tldevice=math, philox_gumbel_block_argmax=None, **own)

    def calls(given: Drafted) -> None:
        size, counts = len(given.lengths), torch.tensor([n + 1 for n in given.lengths])
        tokens = given.flat(torch.nn.functional.pad(given.drawn, (1, 0)), 1)
        slots = torch.cat([torch.arange(n) for n in counts])
        whose = torch.arange(size).repeat_interleave(counts)
        ends = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        target = given.logits(given.flat(given.target, 1))
        for draft in (given.draft.log(), None):
            for block in (False, True):
                module.rejection_sample(
                    target, draft, tokens, ends, slots + 10, torch.arange(size), whose, slots,
                    (~given.greedy).float(), given.seeds, given.gamma,
                    use_block_verification=block,
                )  # fmt: skip

    return Kernels((module, noise), calls)


def _math(load: Load) -> Any:
    if load is compiled:
        return importlib.import_module("triton.language.extra.libdevice")
    return LIBDEVICE if load is load_tiles else SimpleNamespace(log1p=_log1p)


def _log1p(x: Any) -> Any:
    """Compute what the interpreter has no function of its own for."""
    semantic = importlib.import_module("triton.runtime.interpreter")
    held = semantic.TensorHandle(np.log1p(x.handle.data), x.handle.dtype)
    return importlib.import_module("triton.language").core.tensor(held, x.type)


def sglang(load: Load, path: Path) -> Kernels:
    """SGLang's kernel, which judges as many drafts for each request: token and block."""
    module = load(path, ["chain_speculative_sampling_triton"])

    def calls(given: Drafted) -> None:
        size, slots = len(given.lengths), given.gamma + 1
        places = torch.arange(size * slots).reshape(size, slots)
        for block in (False, True):
            kept = torch.full((size, slots), -1, dtype=torch.int32)
            module.chain_speculative_sampling_triton(
                kept.flatten().clone(), kept, kept[:, 0].clone(),
                torch.nn.functional.pad(given.tokens, (1, 0)), places, None, None,
                given.coins[:, :-1].contiguous(), given.coins[:, -1].contiguous(),
                given.target, given.draft, 1.0, 1.0, True, block_verification=block,
            )  # fmt: skip

    return Kernels((module,), calls)


OWN = ("sum_tiles", "weigh", "sum_laws", "draw", "fill_uniforms")
BACKENDS = Path(simverify.__file__).parent / "backends"


def own(load: Load, path: Path) -> Kernels:
    """Our own fused kernels, on probabilities and on logits; and the one that fills coins."""
    fused = importlib.import_module("simverify.backends.fused")
    kernels = load(path.with_name("kernels.py"), OWN)
    known = {name: getattr(fused, name) for name in ("check_verify", "Verified", "UsageError")}
    here = load_tiles(path, ["verify"], **known, _kernels=lambda device: kernels,
                      _running=lambda device: nullcontext(),
                      _triton_dtype=lambda kind: tl.float32)  # fmt: skip

    def calls(given: Drafted) -> None:
        tokens = given.tokens.clone()
        for row, n in zip(tokens, given.lengths, strict=True):
            row[n:] = -1
        coins = given.coins.double()
        for rule in ("token", "block"):
            for logits in (False, True):
                rows = (x.log() if logits else x for x in (given.target, given.draft))
                here.verify(rule, *rows, tokens, coins, logits=logits, check=False)
        filled = torch.zeros(len(tokens), given.gamma + 1, dtype=torch.float64)
        kernels.fill_uniforms[(1,)](filled, int(given.seeds[0]), 3, 1, len(tokens),
                                    GAMMA=given.gamma, BLOCK=16)  # fmt: skip

    return Kernels((kernels,), calls)


V1 = "v1/sample/rejection_sampler.py"
ENGINES: dict[str, tuple[Path, Callable[[Load, Path], Kernels]]] = {
    "own": (BACKENDS / "fused.py", own),
    "vllm-v1": (Path("vllm") / V1, vllm_v1),
    "vllm-v2": (Path("vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py"), vllm_v2),
    "aphrodite": (Path("aphrodite") / V1, vllm_v1),
    "sglang": (Path("sglang/kernels/ops/speculative/reject_sampling.py"), sglang),
}
"""The file of each engine's kernels, in a folder of packages, and how they are called."""

SHAPES = ((1, 1, 2, 0), (3, 3, 5, 3), (4, 2, 1500, 36), (5, 4, 8, 0))
"""B, gamma, V and columns behind it."""


def both(
    make: Callable[[Load, Path], Kernels], path: Path, other: Load = interpreted
) -> tuple[Kernels, Kernels]:
    """Return an engine's kernels on tiles and, if nothing is said, in the interpreter."""
    return make(load_tiles, path), make(other, path)


def drafted(shapes: Any = SHAPES, seeds: int = 1) -> Iterator[Drafted]:
    """Yield random batches of these shapes."""
    for seed in range(seeds):
        yield from (Drafted(seed, *shape) for shape in shapes)
