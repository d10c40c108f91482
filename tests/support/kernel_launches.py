"""Every kernel that an engine's own function launches, in Triton's interpreter and on tiles.

The function is called on random batches as engines have them. What it launches is kept with what
it is given then, and launched again both ways: each kernel by itself, on the same bits.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simverify.backends.batch import interpreter, load_triton
from simverify.engines.extract import load_pieces
from simverify.triton_cpu import tl
from simverify.triton_cpu.blocks import Dtype
from simverify.triton_cpu.language import TritonKernel

Load = Callable[..., Any]
"""``load(path, names, **given)``: a module of these names, on tiles or in the interpreter."""

MINUS_INF = float("-inf")
_DTYPES = {tl.float32: "float32", tl.float64: "float64"}


@dataclass(frozen=True)
class Kernels:
    """Where an engine's kernels are, and the calls of its function that launch them.

    ``modules``: those that hold the kernels. ``calls``: the function on a random batch.
    """

    modules: tuple[Any, ...]
    calls: Callable[["Drafted"], None]

    @property
    def language(self) -> Any:
        """The ``tl`` of the kernels."""
        return self.modules[0].tl

    def __getitem__(self, name: str) -> Any:
        return next(vars(m)[name] for m in self.modules if name in vars(m))


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel: its name, the grid and what it is given."""

    kernel: str
    grid: Any
    args: tuple[Any, ...]
    named: dict[str, Any]

    def on(self, kernels: Kernels, device: str = "cpu") -> tuple[Callable[[], None], list[Any]]:
        """Return the launch on copies, to be made by these kernels, and the copies."""
        args = [_copy(x, kernels.language, device) for x in self.args]
        named = {name: _copy(x, kernels.language, device) for name, x in self.named.items()}
        kernel = kernels[self.kernel]
        tensors = [x for x in (*args, *named.values()) if isinstance(x, torch.Tensor)]
        return lambda: kernel[self.grid](*args, **named), tensors


class Drafted:
    """A random batch as engines have them, in float32.

    Requests draft other lengths, none among them; some are greedy; some drafts end in a -1; rows
    are cut to their largest probabilities, some of which a draft does not have; a target's rows
    have ``padding`` columns behind the vocabulary, which hold nothing.
    """

    def __init__(self, seed: int, batch: int, gamma: int, vocab: int, padding: int = 0) -> None:
        rng = np.random.default_rng([seed, batch, gamma, vocab])
        self.gamma, self.vocab, self.padding = gamma, vocab, padding
        self.lengths = [gamma, *(int(n) for n in rng.integers(gamma + 1, size=batch - 1))]
        self.tokens = torch.tensor(rng.integers(vocab, size=(batch, gamma)))
        self.target = _rows(rng, vocab, batch, gamma + 1)
        self.draft = _rows(rng, vocab, batch, gamma)
        # Ids that a drafter may have drafted: of others p / q may be 0 / 0, and of a NaN and a
        # number the interpreter's tl.minimum gives the NaN; a GPU, and tiles, give the number.
        likely = self.draft.flatten(0, 1).numpy().cumsum(-1) > rng.random((batch * gamma, 1))
        self.drawn = torch.tensor(likely.argmax(-1).reshape(batch, gamma))
        self.greedy = torch.tensor(rng.random(batch) < 0.3)
        self.seeds = torch.tensor(rng.integers(2**62, size=batch))
        self.coins = torch.tensor(rng.random((batch, gamma + 1)), dtype=torch.float32)
        self.bonus = torch.tensor(rng.integers(vocab, size=(batch, 1)))
        self.seed = seed

    @property
    def ends(self) -> Any:
        """Drafts up to the end of each request."""
        return torch.tensor(self.lengths).cumsum(0)

    def flat(self, rows: Any, more: int = 0) -> Any:
        """Return the rows of the drafted places, and ``more``, request by request."""
        return torch.cat([row[: n + more] for row, n in zip(rows, self.lengths, strict=True)])

    def logits(self, rows: Any) -> Any:
        """Return the logarithms of rows with what stands behind the vocabulary."""
        return torch.nn.functional.pad(rows.log(), (0, self.padding), value=MINUS_INF)


def _rows(rng: Any, vocab: int, *shape: int) -> Any:
    x = rng.dirichlet(np.full(vocab, 0.7), shape)
    kept = x >= np.sort(x, axis=-1)[..., [-max(2, vocab // 2)]]
    x = np.where(kept | (rng.random(shape) < 0.5)[..., None], x, 0)
    return torch.tensor(x / x.sum(-1, keepdims=True), dtype=torch.float32)


def _copy(value: Any, language: Any = tl, device: str = "cpu") -> Any:
    if isinstance(value, Dtype):
        return getattr(language, _DTYPES[value])
    return value.clone().to(device) if isinstance(value, torch.Tensor) else value


def interpreted(path: Path, names: Any, **given: Any) -> Any:
    """Load names of a file with Triton itself, as ``load_tiles`` does without it."""
    triton, language = triton_itself()
    with interpreter():
        return load_pieces(path, names, **{"triton": triton, "tl": language, **given})


def compiled(path: Path, names: Any, **given: Any) -> Any:
    """Load names of a file with Triton itself, to be compiled for the GPU that is here."""
    triton, language = map(importlib.import_module, ("triton", "triton.language"))
    return load_pieces(path, names, **{"triton": triton, "tl": language, **given})


def triton_itself() -> tuple[Any, Any]:
    """Return triton and its language, to interpret; ``SimverifyError`` where it compiles."""
    parts = ("triton", "triton.language")
    (triton, language), device = load_triton(lambda: tuple(map(importlib.import_module, parts)))
    assert device == "cpu", "the interpreter is not chosen where there is a GPU"
    return triton, language


def launches(kernels: Kernels, batch: Drafted) -> list[Launch]:
    """Return what the function launches on a batch; ``kernels`` are those on tiles."""
    found: list[Launch] = []
    run = TritonKernel.run

    def kept(self: Any, *args: Any, grid: Any, **named: Any) -> None:
        copies = {name: _copy(x) for name, x in named.items()}
        found.append(Launch(self.__name__, grid, tuple(map(_copy, args)), copies))
        run(self, *args, grid=grid, **named)

    TritonKernel.run = kept  # type: ignore[method-assign]
    try:
        with torch.random.fork_rng():
            torch.manual_seed(batch.seed)
            kernels.calls(batch)
    finally:
        TritonKernel.run = run  # type: ignore[method-assign]
    return found


def differences(launch: Launch, tiles: Kernels, real: Kernels) -> list[int]:
    """Return which of a launch's tensors hold other bits afterwards."""
    (ours, mine), (theirs, its) = launch.on(tiles), launch.on(real)
    ours()
    with interpreter(), np.errstate(all="ignore"):  # numpy warns there of what a GPU just does
        theirs()
    return [i for i, (x, y) in enumerate(zip(mine, its, strict=True)) if _bits(x) != _bits(y)]


def apart(launch: Launch, tiles: Kernels, real: Kernels) -> tuple[int, float]:
    """Return how far a launch on a GPU is from that on tiles.

    Counts whole numbers that differ, and gives the largest difference of floats: relative to the
    larger one where that is above 1. What is no number on one side alone is infinitely far.
    """
    (ours, mine), (theirs, its) = launch.on(tiles), launch.on(real, "cuda")
    ours()
    theirs()
    wholes, floats = 0, 0.0
    for x, y in zip(mine, (y.cpu() for y in its), strict=True):
        if not x.is_floating_point():
            wholes += int((x != y).sum())
            continue
        same = (x == y) | (x.isnan() & y.isnan())
        far = (x - y).abs() / torch.maximum(x.abs(), y.abs()).clamp(min=1)
        far = torch.where(far.isfinite(), far, torch.inf)[~same]
        floats = max(floats, float(far.max()) if len(far) else 0.0)
    return wholes, floats


def _bits(x: Any) -> bytes:
    return bytes(x.contiguous().numpy().tobytes())
