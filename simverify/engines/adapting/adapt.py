"""Wrapping a batched, logit or torch function as a plain ``verify`` callable."""

import importlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simverify.engines.adapting.batch import PAD, Batch, Emitted
from simverify.engines.adapting.requests import Requests
from simverify.errors import UsageError

Verify = Callable[[Any, Any, Any, Any], Any]
"""``verify(target_probs, draft_probs, draft_tokens, rng) -> tokens``."""

Randomness = Literal["global", "numpy", "torch", "coins"]
"""Where a function takes its randomness from.

``global``: the global generators of numpy, ``random`` or torch; nothing is passed.
``numpy``: the ``numpy.random.Generator`` is passed. ``torch``: torch's global generator is
passed, so that the exact tier follows it. ``coins``: (B, G+1) uniforms are passed; a caller may
hand its own over in the place of a generator.
"""


torch: Any = None
"""The module, from the first tensor on. A global, so that rounding to a coarse dtype here is
lifted together with the rounding in the function that is wrapped."""

COIN_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Coins of a dtype are multiples of 2^-bits: rounding finer ones could give 1.0, which none is."""


@dataclass(frozen=True)
class Signature:
    """How a function wants to be called.

    The function is ``function(draft_tokens, target, draft, draft_len[, source])`` on (B, G),
    (B, G+1, V), (B, G, V) or None, and (B,); ``source`` is what ``randomness`` passes. If not
    ``batched``, without the batch axis and without ``draft_len``. It returns tokens (B, G+1)
    padded with -1, or (tokens, num_emitted), whose tokens beyond the count are then ignored.

    Attributes
    ----------
    randomness
        Where it takes its randomness from.
    arrays, dtype, device
        What it takes: numpy arrays, or torch tensors; ``device`` is torch's.
    logits
        Pass logarithms of the probabilities: -inf where a row is zero.
    batched
        Whether it has a batch axis.
    requests
        Pass the batch itself too, before ``source``: a
        :class:`~simverify.engines.adapting.requests.Requests`, which says who is greedy, and the
        seeds.

    Raises ``UsageError`` on values that do not go together.
    """

    randomness: Randomness = "global"
    arrays: Literal["numpy", "torch"] = "numpy"
    dtype: str = "float64"
    device: str = "cpu"
    logits: bool = False
    batched: bool = True
    requests: bool = False

    def __post_init__(self) -> None:
        _signature_iv(self)

    def arguments(self, batch: Batch, rng: Any) -> list[Any]:
        """Return a call's arguments: copies, an engine may write into them."""
        given = [
            self.array(batch.draft_tokens, "int64"),
            self.rows(batch.target_probs),
            None if batch.draft_probs is None else self.rows(batch.draft_probs),
            self.array(batch.draft_len, "int64"),
            *([batch] if self.requests else []),
        ]
        source = self.source(rng, (batch.size, batch.gamma + 1))
        if not self.batched:
            del given[3]
            given = [None if x is None else x[0] for x in given]
            source = [x[0] for x in source] if self.randomness == "coins" else source
        return given + source

    def source(self, rng: Any, coins: tuple[int, ...]) -> list[Any]:
        """Return what is passed for randomness, if anything: of uniforms an array of this shape."""
        if self.randomness == "numpy":
            return [rng]
        if self.randomness == "torch":
            return [_torch_generator(self.device)]
        if self.randomness == "global":
            return []
        floats = _element(self.arrays, self.dtype)
        bits = COIN_BITS[str(floats).removeprefix("torch.")]
        drawn = _coins(rng, coins, bits)
        on_numpy = self.arrays == "numpy"
        return [drawn.astype(floats) if on_numpy else self.array(drawn, self.dtype)]

    def rows(self, probs: Any) -> Any:
        """Return rows of probabilities as the function takes them."""
        if self.logits:
            with np.errstate(divide="ignore", invalid="ignore"):
                probs = np.log(probs)
        return self.array(probs, self.dtype)

    def array(self, values: Any, dtype: str) -> Any:
        """Return a new array of ``values``, numpy's or torch's."""
        element = _element(self.arrays, dtype)
        if self.arrays == "numpy":
            return np.array(values, dtype=element)
        return torch.tensor(values, dtype=element, device=self.device)


def _element(arrays: str, dtype: str) -> Any:
    """Return the numpy or torch dtype of this name, or what an audit has put in its place."""
    global torch
    if arrays == "numpy":
        return np.dtype(getattr(np, dtype))
    torch = torch or importlib.import_module("torch")
    return getattr(torch, dtype)


def as_verify(function: Callable[..., Any], signature: Signature, company: str = "") -> Verify:
    """Return a ``verify`` callable that calls ``function`` on one block.

    What it returns is only freed of its padding: a wrong result is the audit's to find. The
    callable says by ``takes_batches`` that it is not for ``--batch``.

    ``company``: the kinds of requests, "ragged,greedy", that ``function`` takes side by side. With
    some, ``--batch-mix`` judges its ``in_company(batch, rng)``, which hands it whole batches.
    """

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        batch = Requests.of_block(target_probs, draft_probs, draft_tokens)
        result = function(*signature.arguments(batch, rng))
        return unpadded(result, batched=signature.batched)

    verify.__name__ = getattr(function, "__name__", "verify")
    verify.takes_batches = False  # type: ignore[attr-defined]
    if company:

        def in_company(batch: Requests, rng: Any) -> Any:
            return function(*signature.arguments(batch, rng))

        vars(verify).update(in_company=in_company, company=company)
    return verify


def as_batched(
    function: Callable[..., Any], signature: Signature
) -> Callable[[Batch, Any], Emitted]:
    """Return ``f(batch, rng) -> Emitted`` for a function with a batch axis.

    Raises ``UsageError`` if what the function returned is no batch of tokens.
    """
    if not signature.batched:
        raise UsageError("batched=False: a function without a batch axis takes one block a call")

    def verify(batch: Batch, rng: Any) -> Emitted:
        result = function(*signature.arguments(batch, rng))
        tokens, count = result if isinstance(result, tuple) else (result, None)
        tokens = np.array(_plain(tokens))
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
            raise UsageError(f"tokens is {tokens.dtype} {tokens.shape}: return integers (B, G+1)")
        slots = np.arange(tokens.shape[1])
        if count is None:
            numbers = np.where(tokens != PAD, slots + 1, 0).max(axis=1)
        else:
            numbers = np.array(_plain(count))
            tokens = np.where(slots < numbers.reshape(-1, 1), tokens, PAD)
        return Emitted(tokens.astype(np.int64), numbers.astype(np.int64))

    return verify


def with_coins(function: Callable[..., Any], *, bits: int = 53, coins: int | None = None) -> Verify:
    """Return a ``verify`` that draws the coins which ``function`` is given, gamma+1 if not said.

    ``function(target_probs, draft_probs, draft_tokens, coins) -> tokens``, as
    :func:`simverify.auditing.exact.coins.coin_blocks.compare_coins` takes it: the sampled tier's
    view.
    Coins are multiples of 2^-``bits``: 24 for code that reads them as float32.

    A function with ``ask``, ``answer`` and ``repeat``, as
    :class:`~simverify.engines.bridge.command.CommandVerify` has, gives them to what is returned:
    many calls are asked before the first is answered.
    """
    streamed: Any = function

    def drawn(draft_tokens: Any, rng: Any) -> Any:
        return _coins(rng, (coins or len(draft_tokens) + 1,), bits)

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        return function(target_probs, draft_probs, draft_tokens, drawn(draft_tokens, rng))

    def ask(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        return streamed.ask(target_probs, draft_probs, draft_tokens, drawn(draft_tokens, rng))

    if hasattr(streamed, "ask"):
        vars(verify).update(ask=ask, answer=streamed.answer, repeat=streamed.repeat)
    return verify


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed the global generators of numpy, ``random`` and, if imported, torch; restore them after.

    For sampling functions with ``global`` or ``torch`` randomness reproducibly.
    """
    legacy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    torch = sys.modules.get("torch")
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)
    try:
        if torch is None:
            yield
        else:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                yield
    finally:
        np.random.set_state(legacy)  # noqa: NPY002
        random.setstate(python)


def _coins(rng: Any, shape: tuple[int, ...], bits: int) -> Any:
    if isinstance(rng, np.ndarray):
        return rng.reshape(shape)
    if bits == COIN_BITS["float32"]:
        # The same grid, and the exact tier follows a uniform further than an integer.
        return rng.random(shape, dtype=np.float32).astype(np.float64)
    return rng.random(shape) if bits == 53 else rng.integers(2**bits, size=shape) / 2**bits


def _plain(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def unpadded(result: Any, *, batched: bool) -> Any:
    """Return the first row without its padding; a -1 before a token is not padding."""
    count = None
    if isinstance(result, tuple) and len(result) == 2:
        result, count = result
        count = int(count[0] if batched else count)
    row = _plain(result[0] if batched else result)
    if count is not None:
        return row[:count]
    last = len(row)
    while last and row[last - 1] == PAD:
        last -= 1
    return row[:last]


def _torch_generator(device: str) -> Any:
    torch = importlib.import_module("torch")
    if device == "cpu":
        return torch.default_generator
    index = torch.device(device).index
    return torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]


def _signature_iv(given: Signature) -> None:
    known = {
        "randomness": ("global", "numpy", "torch", "coins"),
        "arrays": ("numpy", "torch"),
        "dtype": ("float64", "float32", "float16", "bfloat16"),
    }
    for name, values in known.items():
        value = getattr(given, name)
        if value not in values:
            raise UsageError(f"{name}={value!r}: choose from {', '.join(values)}")
    if given.arrays == "numpy" and (given.device != "cpu" or given.dtype == "bfloat16"):
        raise UsageError(
            f"device={given.device!r}, dtype={given.dtype!r} with numpy arrays: "
            "only arrays='torch' has other devices and bfloat16"
        )
    if given.arrays == "numpy" and given.randomness == "torch":
        raise UsageError("randomness='torch' passes a torch.Generator: pass arrays='torch' too")
