"""Adapters: batched, logit, torch or Triton functions as plain ``verify`` callables.

Batches of one or many requests, drafts laid out flat, draft trees as links or masks.
"""

__simverify_role__ = "wrapper"


import importlib
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.engines.base import Engine
from simverify.engines.extract import torch as lazy_torch
from simverify.errors import UsageError
from simverify.trees import DraftTree, Scheme, TreeShape
from simverify.triton_cpu import CPU_NOTE

# The canonical batch that engines' functions are adapted from, and their outputs.


PADDING_TOKEN = -1


@dataclass(frozen=True, eq=False)
class Batch:
    """Drafted blocks with their rows. Probabilities are canonical; adapters take logs.

    ``draft_tokens`` int64 (B, G), ids in 0..V-1; -1 from ``draft_len`` of the row on.
    ``target_probs`` float64 (B, G+1, V); row i follows ``draft_tokens[:, :i]``. ``draft_probs``
    float64 (B, G, V), or None: every draft is one-hot. ``draft_len`` int64 (B,), in 0..G.

    Shapes and ids are checked (``UsageError``); the rows' values are not, because probes put
    zero and NaN rows through the same door.
    """

    draft_tokens: Ints
    target_probs: Floats
    draft_probs: Floats | None
    draft_len: Ints

    def __post_init__(self) -> None:
        tokens, target, draft = self.draft_tokens, self.target_probs, self.draft_probs
        if tokens.ndim != 2 or tokens.dtype != np.int64:
            raise UsageError(f"draft_tokens is {tokens.dtype} {tokens.shape}: pass int64 (B, G)")
        size, gamma = tokens.shape
        if target.ndim != 3 or target.shape[:2] != (size, gamma + 1):
            raise UsageError(
                f"target_probs has shape {target.shape}, draft_tokens {tokens.shape}: "
                f"pass (B, G+1, V) = ({size}, {gamma + 1}, V)"
            )
        vocab = target.shape[2]
        if draft is not None and draft.shape != (size, gamma, vocab):
            raise UsageError(
                f"draft_probs has shape {draft.shape}: pass (B, G, V) = {(size, gamma, vocab)}, "
                "or None for one-hot drafts"
            )
        for name, rows in (("target_probs", target), ("draft_probs", draft)):
            if rows is not None and rows.dtype != np.float64:
                raise UsageError(
                    f"{name} is {rows.dtype}: pass float64, adapters round it themselves"
                )
        lengths = self.draft_len
        if lengths.shape != (size,) or lengths.dtype != np.int64:
            raise UsageError(f"draft_len is {lengths.dtype} {lengths.shape}: pass int64 ({size},)")
        if size and not (lengths.min() >= 0 and lengths.max() <= gamma):
            raise UsageError(f"draft_len {lengths.tolist()}: every length is in 0..{gamma}")
        drafted = np.arange(gamma) < lengths[:, None]
        bad = np.where(drafted, (tokens < 0) | (tokens >= vocab), tokens != PADDING_TOKEN)
        if bad.any():
            b, i = (int(k) for k in np.argwhere(bad)[0])
            expected = f"an id in 0..{vocab - 1}" if drafted[b, i] else "-1 beyond draft_len"
            raise UsageError(f"draft_tokens[{b}, {i}] = {tokens[b, i]}: pass {expected}")

    @classmethod
    def of_block(cls, target_probs: Any, draft_probs: Any, draft_tokens: Any) -> "Batch":
        """Return a batch of one from a ``verify`` call's arguments."""
        tokens = np.array(draft_tokens, dtype=np.int64)[None]
        return cls(
            tokens,
            np.array(target_probs, dtype=np.float64)[None],
            None if draft_probs is None else np.array(draft_probs, dtype=np.float64)[None],
            np.array([tokens.shape[1]], dtype=np.int64),
        )

    @property
    def size(self) -> int:
        """Number of blocks B."""
        return int(self.draft_tokens.shape[0])

    @property
    def gamma(self) -> int:
        """Longest draft G."""
        return int(self.draft_tokens.shape[1])

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.target_probs.shape[2])


@dataclass(frozen=True, eq=False)
class Emitted:
    """What an engine emitted: ``tokens`` int64 (B, G+1), -1 from ``num_emitted`` (B,) on.

    Ids are not checked: a wrong one is the audit's to find. Raises ``UsageError`` on shapes
    and on a padding that ``num_emitted`` contradicts.
    """

    tokens: Ints
    num_emitted: Ints

    def __post_init__(self) -> None:
        tokens, count = self.tokens, self.num_emitted
        if tokens.ndim != 2 or tokens.dtype != np.int64:
            raise UsageError(f"tokens is {tokens.dtype} {tokens.shape}: return int64 (B, G+1)")
        if count.shape != tokens.shape[:1] or count.dtype != np.int64:
            raise UsageError(
                f"num_emitted is {count.dtype} {count.shape}: return int64 ({len(tokens)},)"
            )
        if len(count) and not (count.min() >= 0 and count.max() <= tokens.shape[1]):
            raise UsageError(
                f"num_emitted {count.tolist()}: every count is in 0..{tokens.shape[1]}"
            )
        beyond = np.arange(tokens.shape[1]) >= count[:, None]
        if (tokens[beyond] != PADDING_TOKEN).any():
            raise UsageError("tokens beyond num_emitted: pad with -1")

    def row(self, b: int) -> list[int]:
        """Return the tokens of block ``b``, without padding."""
        return [int(token) for token in self.tokens[b, : self.num_emitted[b]]]


# Mixed batches of an engine's call: requests of different lengths, temperatures and seeds.


@dataclass(frozen=True, eq=False)
class MixedRequests(Batch):
    """A :class:`~simverify.engines.adapt.Batch` of requests that differ.

    ``draft_tokens``: from ``draft_len`` of the row on -1, or ids of an earlier call, which are none
    of this one; a -1 before that is a placeholder, and ends the draft. ``target_probs``,
    ``draft_probs``: (B, G+1, C) and (B, G, C) or None, with C = ``vocab`` or more columns. Rows sum
    to 1 over the first ``vocab``; what stands in the columns behind them is no probability. Rows
    behind the end of the draft are not this call's either.

    ``greedy`` bool (B,): the request is decoded at temperature 0, by the argmax of its target rows.
    ``seeds`` int64 (B,), or None: a request's tokens depend on its rows and its seed alone.
    ``vocab``: ids below it are tokens. 0: all columns.
    """

    greedy: Any = None
    seeds: Ints | None = None
    vocab: int = 0

    def __post_init__(self) -> None:
        size, gamma = self.draft_tokens.shape
        columns = self.target_probs.shape[-1]
        if self.target_probs.shape != (size, gamma + 1, columns):
            raise UsageError(
                f"target_probs has shape {self.target_probs.shape}: pass (B, G+1, C) = "
                f"({size}, {gamma + 1}, C)"
            )
        greedy = np.zeros(size, dtype=bool) if self.greedy is None else self.greedy
        object.__setattr__(self, "greedy", greedy)
        object.__setattr__(self, "vocab", self.vocab or columns)

    @property
    def ends(self) -> Ints:
        """Tokens drafted, int64 (B,): up to ``draft_len``, or to the first placeholder."""
        slots = np.arange(self.gamma)
        drafted = (slots < self.draft_len[:, None]) & (self.draft_tokens >= 0)
        return np.asarray(np.cumprod(drafted, axis=1).sum(axis=1), dtype=np.int64)


VerifyFunction = Callable[[Any, Any, Any, Any], Any]
"""``verify(target_probs, draft_probs, draft_tokens, rng) -> tokens``."""

RandomnessSource = Literal["global", "numpy", "torch", "coins"]
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

    ``arrays``, ``dtype``, ``device``: what it takes: numpy arrays, or torch tensors, and torch's
    device. ``logits``: pass logarithms of the probabilities, -inf where a row is zero.
    ``batched``: it has a batch axis. ``requests``: pass the batch itself too, before ``source``: a
    :class:`~simverify.engines.adapt.MixedRequests`, which says who is greedy, and the seeds.

    Raises ``UsageError`` on values that do not go together.
    """

    randomness: RandomnessSource = "global"
    arrays: Literal["numpy", "torch"] = "numpy"
    dtype: str = "float64"
    device: str = "cpu"
    logits: bool = False
    batched: bool = True
    requests: bool = False

    def __post_init__(self) -> None:
        known = {
            "randomness": ("global", "numpy", "torch", "coins"),
            "arrays": ("numpy", "torch"),
            "dtype": ("float64", "float32", "float16", "bfloat16"),
        }
        for name, values in known.items():
            if (value := getattr(self, name)) not in values:
                raise UsageError(f"{name}={value!r}: choose from {', '.join(values)}")
        if self.arrays == "torch":
            return
        if self.device != "cpu" or self.dtype == "bfloat16":
            raise UsageError(
                f"device={self.device!r}, dtype={self.dtype!r} with numpy arrays: "
                "only arrays='torch' has other devices and bfloat16"
            )
        if self.randomness == "torch":
            raise UsageError("randomness='torch' passes a torch.Generator: pass arrays='torch' too")

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
        floats = _array_dtype(self.arrays, self.dtype)
        bits = COIN_BITS[str(floats).removeprefix("torch.")]
        drawn = _draw_coins(rng, coins, bits)
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
        element = _array_dtype(self.arrays, dtype)
        if self.arrays == "numpy":
            return np.array(values, dtype=element)
        return torch.tensor(values, dtype=element, device=self.device)


def _array_dtype(arrays: str, dtype: str) -> Any:
    """Return the numpy or torch dtype of this name, or what an audit has put in its place."""
    global torch
    if arrays == "numpy":
        return np.dtype(getattr(np, dtype))
    torch = torch or importlib.import_module("torch")
    return getattr(torch, dtype)


def as_verify(
    function: Callable[..., Any], signature: Signature, company: str = ""
) -> VerifyFunction:
    """Return a ``verify`` callable that calls ``function`` on one block.

    What it returns is only freed of its padding: a wrong result is the audit's to find. The
    callable says by ``takes_batches`` that it is not for ``--batch``.

    ``company``: the kinds of requests, "ragged,greedy", that ``function`` takes side by side. With
    some, ``--batch-mix`` judges its ``in_company(batch, rng)``, which hands it whole batches.
    """

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any, rng: Any) -> Any:
        batch = MixedRequests.of_block(target_probs, draft_probs, draft_tokens)
        result = function(*signature.arguments(batch, rng))
        return strip_padding(result, batched=signature.batched)

    verify.__name__ = getattr(function, "__name__", "verify")
    verify.takes_batches = False  # type: ignore[attr-defined]
    if company:

        def in_company(batch: MixedRequests, rng: Any) -> Any:
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
        tokens = np.array(_as_numpy(tokens))
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
            raise UsageError(f"tokens is {tokens.dtype} {tokens.shape}: return integers (B, G+1)")
        slots = np.arange(tokens.shape[1])
        if count is None:
            numbers = np.where(tokens != PADDING_TOKEN, slots + 1, 0).max(axis=1)
        else:
            numbers = np.array(_as_numpy(count))
            tokens = np.where(slots < numbers.reshape(-1, 1), tokens, PADDING_TOKEN)
        return Emitted(tokens.astype(np.int64), numbers.astype(np.int64))

    return verify


def with_coins(
    function: Callable[..., Any], *, bits: int = 53, coins: int | None = None
) -> VerifyFunction:
    """Return a ``verify`` that draws the coins which ``function`` is given, gamma+1 if not said.

    ``function(target_probs, draft_probs, draft_tokens, coins) -> tokens``, as
    :func:`simverify.auditing.coins.compare_coins` takes it: the sampled tier's
    view.
    Coins are multiples of 2^-``bits``: 24 for code that reads them as float32.

    A function with ``ask``, ``answer`` and ``repeat``, as
    :class:`~simverify.engines.bridge.CommandVerify` has, gives them to what is returned:
    many calls are asked before the first is answered.
    """
    streamed: Any = function

    def drawn(draft_tokens: Any, rng: Any) -> Any:
        return _draw_coins(rng, (coins or len(draft_tokens) + 1,), bits)

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


def _draw_coins(rng: Any, shape: tuple[int, ...], bits: int) -> Any:
    if isinstance(rng, np.ndarray):
        return rng.reshape(shape)
    if bits == COIN_BITS["float32"]:
        # The same grid, and the exact tier follows a uniform further than an integer.
        return rng.random(shape, dtype=np.float32).astype(np.float64)
    return rng.random(shape) if bits == 53 else rng.integers(2**bits, size=shape) / 2**bits


def _as_numpy(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def strip_padding(result: Any, *, batched: bool) -> Any:
    """Return the first row without its padding; a -1 before a token is not padding."""
    count = None
    if isinstance(result, tuple) and len(result) == 2:
        result, count = result
        count = int(count[0] if batched else count)
    row = _as_numpy(result[0] if batched else result)
    if count is not None:
        return row[:count]
    last = len(row)
    while last and row[last - 1] == PADDING_TOKEN:
        last -= 1
    return row[:last]


def _torch_generator(device: str) -> Any:
    torch = importlib.import_module("torch")
    if device == "cpu":
        return torch.default_generator
    index = torch.device(device).index
    return torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]


# Flat drafts: those of all requests one after the other, as servers pass them to verifiers.


@dataclass(frozen=True, eq=False)
class FlatDrafts:
    """The N drafted places of a batch, request by request.

    ``tokens`` int64 (N,): what was drafted. ``target``, ``draft`` (N, V): rows that they are judged
    by; they sum to 1. ``draft`` may be None. ``lengths``, ``ends`` int64 (B,): drafts of each
    request, and drafts up to the end of it. ``bonus`` int64 (B, 1): a token of the target's row
    behind each whole draft; servers draw it before. ``greedy`` bool (B,): decoded by the likeliest
    token. ``generators``: torch's, of the requests that have a seed, by their numbers.
    """

    tokens: Any
    target: Any
    draft: Any
    lengths: Any
    ends: Any
    bonus: Any
    greedy: Any
    generators: dict[int, Any]


def flatten_drafts(
    draft_tokens: Any, target: Any, draft: Any, draft_len: Any, batch: MixedRequests
) -> FlatDrafts:
    """Return the drafted places of torch tensors (B, G), (B, G+1, V), (B, G, V) and (B,).

    The bonus tokens are drawn by a request's own generator, or by torch's global one.
    """
    seeds = [] if batch.seeds is None else batch.seeds.tolist()
    generators = {i: lazy_torch.Generator().manual_seed(seed) for i, seed in enumerate(seeds)}
    requests, slots = (lazy_torch.arange(count) for count in draft_tokens.shape)
    drafted = slots < draft_len[:, None]
    return FlatDrafts(
        tokens=draft_tokens[drafted],
        target=target[:, :-1][drafted],
        draft=None if draft is None else draft[drafted],
        lengths=draft_len,
        ends=draft_len.cumsum(0),
        bonus=draw_bonus(target[requests, draft_len], batch, generators),
        greedy=lazy_torch.tensor(batch.greedy),
        generators=generators,
    )


def draw_bonus(rows: Any, batch: MixedRequests, generators: dict[int, Any] | None = None) -> Any:
    """Return a token of each row (B, V), as (B, 1): the likeliest of a greedy request's."""
    if batch.greedy.any():
        likeliest = lazy_torch.nn.functional.one_hot(rows.argmax(-1), rows.shape[-1]).to(rows.dtype)
        rows = lazy_torch.where(lazy_torch.tensor(batch.greedy)[:, None], likeliest, rows)
    drawn = lazy_torch.multinomial(rows, 1)
    for i, generator in (generators or {}).items():
        drawn[i] = lazy_torch.multinomial(rows[i], 1, generator=generator)
    return drawn


# Engines of Triton kernels, which run compiled where there is a GPU.


def compiled_on_gpu(
    engine: Engine, loader: Callable[[Path], Callable[..., Any]], **fields: Any
) -> Engine:
    """Return an engine that runs on :mod:`~simverify.triton_cpu` unless there is a GPU.

    On one its kernels are compiled by ``loader``, and its coins, which are arguments then, are
    bisected. ``fields``: what else is other than in ``engine`` there.
    """
    needs = (*engine.needs, "triton")
    compiled = replace(engine, tier="coins", loader=loader, needs=needs, **fields)
    return replace(engine, note=CPU_NOTE, on_gpu=compiled)


# Draft trees as engines lay them out: flat and batched, by links between slots or a mask.
#
# Slot 0 of a row is the root, the last token that is settled, and slot i+1 is node i.


TreeFunction = Callable[[Any, Any, Any, Any, Any], Any]
"""``tree(target_probs, draft_probs, tokens, parents, rng) -> tokens``."""

NO_SLOT = -1
"""No slot: what a link to nowhere holds."""


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Draft trees in the layouts of engines, as arrays of one kind and precision.

    A row of ``size`` slots for each of the B trees; what an engine takes is picked by name. Arrays
    are made anew for every call, so that they may be written into. ``signature``: whether they are
    numpy's or torch's, their precision, and whether rows are logits.
    """

    tokens: Ints
    shapes: tuple[TreeShape, ...]
    target: Floats
    draft: Floats | None
    signature: Signature

    @property
    def size(self) -> int:
        """Slots of a row: nodes and the root."""
        return int(self.tokens.shape[1]) + 1

    @cached_property
    def target_probs(self) -> Any:
        """The target's rows (B, size, V)."""
        return self.signature.rows(self.target)

    @cached_property
    def draft_probs(self) -> Any:
        """The draft's rows (B, size, V), or None."""
        return None if self.draft is None else self.signature.rows(self.draft)

    @cached_property
    def candidates(self) -> Any:
        """Tokens (B, size); 0 in slot 0, for a rule is not told the token before the tree."""
        return self._integers(np.pad(self.tokens, ((0, 0), (1, 0))))

    @cached_property
    def parents(self) -> Any:
        """Slot of the parent (B, size), -1 for the root."""
        return self._integers([[NO_SLOT, *(p + 1 for p in shape.parents)] for shape in self.shapes])

    @cached_property
    def depths(self) -> Any:
        """Depth of each slot (B, size), 0 for the root: positions behind the prefix."""
        return self._integers([[0, *shape.depths] for shape in self.shapes])

    @cached_property
    def retrieve_index(self) -> Any:
        """Number of each slot among all slots of the batch (B, size)."""
        return self._integers(np.arange(len(self.shapes) * self.size).reshape(-1, self.size))

    @cached_property
    def retrieve_next_token(self) -> Any:
        """Slot of the first child (B, size), -1 for a leaf."""
        return self._integers([_first_children(shape) for shape in self.shapes])

    @cached_property
    def retrieve_next_sibling(self) -> Any:
        """Slot of the next sibling (B, size), -1 for the last."""
        return self._integers([_next_siblings(shape) for shape in self.shapes])

    @cached_property
    def mask(self) -> Any:
        """Bool (B, size, size): whether slot i sees slot j, its ancestor or itself."""
        return self.signature.array([_ancestor_mask(shape) for shape in self.shapes], "bool")

    def emitted(self, accept_index: Any, predicts: Any) -> list[list[int]]:
        """Return what kernels say by slots as rows of tokens.

        ``accept_index`` int (B, D): the kept slots by their number in the batch, the root first,
        -1 behind them; ``predicts`` int (B * size,): the token after each of them.
        """
        slots = accept_index.tolist() if hasattr(accept_index, "tolist") else accept_index
        return [[int(predicts[slot]) for slot in row if slot != NO_SLOT] for row in slots]

    def _integers(self, values: Any) -> Any:
        return self.signature.array(values, "int64")


def as_tree(function: Callable[..., Any], signature: Signature) -> TreeFunction:
    """Return a rule for draft trees that calls ``function(batch[, source])`` on one tree.

    ``batch`` is a :class:`TreeBatch` of one, and ``source`` what ``signature.randomness`` passes,
    of coins (B, size). It returns tokens (B, depth + 1) padded with -1, lists of tokens, or
    (tokens, num_emitted). What it returns is only freed of its padding: a wrong result is the
    audit's to find.

    Raises ``UsageError`` for a signature without a batch axis.
    """
    if not signature.batched:
        raise UsageError("batched=False: draft trees come with a batch axis, of one tree")

    def tree(target_probs: Any, draft_probs: Any, tokens: Any, parents: Any, rng: Any) -> Any:
        batch = TreeBatch(
            np.array(tokens, dtype=np.int64)[None],
            (TreeShape(tuple(int(parent) for parent in parents)),),
            np.array(target_probs, dtype=np.float64)[None],
            None if draft_probs is None else np.array(draft_probs, dtype=np.float64)[None],
            signature,
        )
        return strip_padding(function(batch, *signature.source(rng, (1, batch.size))), batched=True)

    tree.__name__ = getattr(function, "__name__", "tree")
    return tree


def tree_of_links(
    candidates: npt.ArrayLike,
    next_token: npt.ArrayLike,
    next_sibling: npt.ArrayLike,
    scheme: Scheme,
) -> DraftTree:
    """Return the tree that an engine's links between slots describe, int (size,) each.

    ``next_token``: the slot of the first child, ``next_sibling``: that of the next sibling, -1
    for none.

    Raises ``UsageError`` for links that make no tree: to no slot, in a circle, or past a slot.
    """
    tokens = _int_row("candidates", candidates)
    first, following = _int_row("next_token", next_token), _int_row("next_sibling", next_sibling)
    for name, links in (("next_token", first), ("next_sibling", following)):
        if len(links) != len(tokens):
            raise UsageError(
                f"{name} has {len(links)} slots: expected {len(tokens)}, as candidates"
            )
    parents: dict[int, int] = {}
    for slot in range(len(tokens)):
        child, before = first[slot], slot
        while child != NO_SLOT:
            if not before < child < len(tokens):
                raise UsageError(
                    f"slot {before} is linked to slot {child}: expected a later one, below "
                    f"{len(tokens)}, or -1"
                )
            if child in parents:
                raise UsageError(
                    f"slot {child} is a child of slot {parents[child]} and of slot {slot}: a tree "
                    "has one way to each slot"
                )
            parents[child] = slot
            child, before = following[child], child
    missing = [slot for slot in range(1, len(tokens)) if slot not in parents]
    if missing:
        raise UsageError(f"no link leads to slot {missing[0]}: expected one to every slot but 0")
    shape = TreeShape(tuple(parents[slot] - 1 for slot in range(1, len(tokens))))
    return DraftTree(shape, tuple(tokens[1:]), scheme)


def tree_of_mask(candidates: npt.ArrayLike, mask: npt.ArrayLike, scheme: Scheme) -> DraftTree:
    """Return the tree that an ancestor mask bool (size, size) describes.

    ``mask[i, j]``: whether slot i sees slot j, its ancestor or itself. Raises ``UsageError``
    where what a slot sees is not what its parent sees and itself.
    """
    tokens, seen = _int_row("candidates", candidates), np.asarray(mask) != 0
    if seen.shape != (len(tokens), len(tokens)):
        raise UsageError(
            f"the mask has shape {seen.shape}: expected {(len(tokens), len(tokens))}, as candidates"
        )
    parents = []
    for slot, row in enumerate(seen):
        above = np.flatnonzero(row[:slot])
        expected = np.zeros(len(tokens), dtype=bool)
        if len(above):
            expected |= seen[above[-1]]
        expected[slot] = True
        if (row != expected).any() or (slot > 0) != bool(len(above)):
            raise UsageError(
                f"slot {slot} sees the slots {np.flatnonzero(row).tolist()}: expected itself and "
                "what its parent, an earlier slot, sees"
            )
        if slot:
            parents.append(int(above[-1]) - 1)
    return DraftTree(TreeShape(tuple(parents)), tuple(tokens[1:]), scheme)


def _int_row(name: str, values: npt.ArrayLike) -> list[int]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) < 2:
        raise UsageError(
            f"{name} is {array.dtype} {array.shape}: expected integers (size,), the root and one "
            "node or more"
        )
    row: list[int] = array.tolist()
    return row


def _first_children(shape: TreeShape) -> list[int]:
    return [min(shape.children[node], default=NO_SLOT - 1) + 1 for node in range(-1, len(shape))]


def _next_siblings(shape: TreeShape) -> list[int]:
    links = [NO_SLOT] * (len(shape) + 1)
    for children in shape.children.values():
        for child, following in itertools.pairwise(children):
            links[child + 1] = following + 1
    return links


def _ancestor_mask(shape: TreeShape) -> npt.NDArray[np.bool_]:
    mask = np.eye(len(shape) + 1, dtype=bool)
    mask[:, 0] = True
    for node in range(len(shape)):
        mask[node + 1, [above + 1 for above in shape.way(node)]] = True
    return mask
