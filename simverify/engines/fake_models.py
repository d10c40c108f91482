"""Language models, caches and tokenizers whose probabilities are an audit's rows.

A loop that takes two models and a prompt is a step rule: it drafts by itself, calls the models and
returns the tokens of a call. With these models it is one without a change.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.extract import torch

RowFunction = Callable[[tuple[int, ...]], Any]
"""``rows(prefix)``: the probabilities (V,) of the token after a prefix."""

BOS_TOKEN = 0
"""The prompt's one token, before the audit's prefix: loops want a prompt."""


_LOGITS_CACHE: list[tuple[RowFunction, dict[Any, Any]]] = []
"""The logits of the last few rows, by the tokens: an audit asks for the same ones on every path.

Of doubles alone: others are doubles too while code is followed with its types lifted."""

_MAX_CACHED_ROWS, _MAX_CACHED_LOGITS = 4, 1_000


def _cached_logits(rows: RowFunction) -> dict[Any, Any]:
    for cached, known in _LOGITS_CACHE:
        if cached is rows:
            return known
    del _LOGITS_CACHE[: max(0, len(_LOGITS_CACHE) + 1 - _MAX_CACHED_ROWS)]
    _LOGITS_CACHE.append((rows, {}))
    return _LOGITS_CACHE[-1][1]


class RowsModel:
    """A model as Hugging Face's causal ones are called, for a batch of one, with a cache.

    ``rows(prefix)`` gives the probabilities (V,) of the next token. Rows before the end of
    ``prefix``, the audit's, are zeros: no rule may ask what came before. ``dtype``: torch's name
    for that of the logits, which are larger by ``temperature``: the loop divides by it.
    """

    def __init__(
        self,
        rows: RowFunction,
        prefix: Sequence[int],
        dtype: str = "float64",
        *,
        temperature: float = 1.0,
    ) -> None:
        self.rows, self.start, self.temperature = rows, len(prefix), temperature
        self.dtype = getattr(torch, dtype)
        self.device = torch.device("cpu")
        self.vocab = len(rows(tuple(prefix)))
        self.config = SimpleNamespace(
            vocab_size=self.vocab, is_encoder_decoder=False, max_position_embeddings=64
        )

    def eval(self) -> "RowsModel":
        """Return the model itself: it has no dropout."""
        return self

    def to(self, *_: Any, **__: Any) -> "RowsModel":
        """Return the model itself: it stays on the CPU."""
        return self

    def logits(self, tokens: Sequence[int], first: int = 0) -> Any:
        """Return the logits (1, L - first, V) after ``tokens[:first + 1]``, ..., all L of them."""
        known = _cached_logits(self.rows)
        key = tuple(tokens), first, self.start, self.temperature, str(self.dtype)
        if key in known:
            return known[key].clone()
        unknown = [1.0] * self.vocab
        laws = [
            self.rows(tuple(tokens[1 : i + 1])).tolist() if i >= self.start else unknown
            for i in range(first, len(tokens))
        ]
        # All at once: where code is followed, every call of torch is looked at.
        whole = torch.tensor(laws, dtype=torch.float64).reshape(1, len(laws), self.vocab)
        logits = whole.log().to(self.dtype)
        if self.temperature != 1:
            logits = logits * self.temperature
        if self.dtype == whole.dtype and len(known) < _MAX_CACHED_LOGITS:
            known[key] = logits.clone()
        return logits

    def continued(self, tokens: list[int], ids: Any, first: int | None = None) -> Any:
        """Return the logits (1, L, V) of new ids (1, L), for a cache that is a list of tokens.

        The ids are written into ``tokens`` from ``first`` on, which is its end if None.
        """
        first = len(tokens) if first is None else first
        tokens[first:] = ids[0].tolist()
        return self.logits(tokens, first)

    def __call__(
        self, input_ids: Any = None, past_key_values: Any = None, use_cache: bool = True, **_: Any
    ) -> Any:
        """Return ``.logits`` (1, L, V) of the ids, and a cache of the legacy form.

        The cache is one layer of keys and values (1, 1, length, 1), whose entries are the ids, so
        that a loop that cuts it cuts the tokens.
        """
        past = [] if past_key_values is None else past_key_values[0][0][0, 0, :, 0].tolist()
        ids = input_ids.tolist()
        new = ids[0] if ids and isinstance(ids[0], list) else ids
        tokens = [*map(int, past), *map(int, new)]
        logits = self.logits(tokens, len(past))
        if not use_cache:
            return SimpleNamespace(logits=logits, past_key_values=None)
        cache = torch.tensor(tokens, dtype=torch.float64)[None, None, :, None]
        return SimpleNamespace(logits=logits, past_key_values=((cache, cache),))


class PositionedModel(RowsModel):
    """A model that is told positions in the place of a cache: it keeps its tokens by position.

    Called as ``model(ids, input_pos, ...)``; returns the logits (1, L, V) by themselves.
    """

    def __init__(self, rows: RowFunction, prefix: Sequence[int], **options: Any) -> None:
        super().__init__(rows, prefix, **options)
        self.tokens = dict(enumerate((BOS_TOKEN, *prefix)))

    def __call__(self, ids: Any, input_pos: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of ``ids`` (1, L) at the positions (L,)."""
        first = int(input_pos[0])
        for position, token in zip(input_pos.tolist(), ids[0].tolist(), strict=True):
            self.tokens[position] = int(token)
        return self.logits([self.tokens[i] for i in range(first + ids.shape[1])], first)


def shift_rows(rows: RowFunction, shift: int) -> RowFunction:
    """Return the same rows over ids that are ``shift`` higher: those below never come."""
    return lambda prefix: np.pad(rows(tuple(t - shift for t in prefix)), (shift, 0))


class BlockMask:
    """Stands for a block mask of attention, which rows have no use for: any part of it is whole."""

    BLOCK_SIZE = (1, 1)
    mask_mod = None

    def __getitem__(self, _: Any) -> "BlockMask":
        return self


def make_prompt(prefix: Sequence[int]) -> Any:
    """Return the prompt of a :class:`RowsModel`, int64 (1, L): ``BOS_TOKEN`` and the prefix."""
    return torch.tensor([[BOS_TOKEN, *prefix]])


# Caches that hold the tokens which a model has seen, and models that are called with them.


class PositionedCache:
    """A cache that is cut by its place: what stands behind it is written over.

    ``current_seq_len`` is how many tokens count, under ExLlamaV2's name.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens, self.current_seq_len = list(tokens), len(tokens)


class PositionedCacheModel(RowsModel):
    """A model that writes new ids into a :class:`PositionedCache`, from its place on."""

    def forward(self, ids: Any, cache: PositionedCache, **_: Any) -> Any:
        """Return the logits (1, L, V) of new ids (1, L)."""
        first = cache.current_seq_len
        # A draft model's cache has a hole after a draft that was kept whole: its last token.
        cache.tokens += [BOS_TOKEN] * (first - len(cache.tokens))
        cache.current_seq_len += ids.shape[1]
        return self.continued(cache.tokens, ids, first)


class LayerCache(list[Any]):
    """The cache of one layer as MLX-LM has it: the tokens, and a state that is evaluated."""

    state = ()


class LayeredModel(RowsModel):
    """A model that appends new ids to a cache of one :class:`LayerCache`, and returns numpy's."""

    def __call__(self, ids: Any, cache: list[LayerCache]) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of the ids (1, L)."""
        return self.continued(cache[0], ids).numpy()


def trim_cache(cache: list[LayerCache], count: int) -> None:
    """Forget the last ``count`` tokens."""
    del cache[0][len(cache[0]) - count :]


# Causal language models of Transformers whose probabilities are an audit's rows.
#
# Unlike a ``RowsModel`` they are models of the library: its own ``generate``, candidate
# generators, logits processors and caches run on them. Where a cache is cut wrongly, the model sees
# other tokens and answers with another row, as any model would.


_ZERO_PROBABILITY_LOGIT = -1e4
"""A logit of probability 0: it passes through a head's products, which infinity does not."""


@contextmanager
def without_weight_draws() -> Iterator[None]:
    """Make layers without drawing their weights, which no draw of the engine's is."""
    from unittest import mock  # brings asyncio, which no other part of an audit needs

    with mock.patch.object(torch.nn.Linear, "reset_parameters"):
        yield


def model_maker(library: ModuleType) -> Callable[..., Any]:
    """Return ``make(size, lead)``, of a model with ``size`` ids, for an imported Transformers.

    Its ``table`` is the ``RowsModel`` that it answers from, which is set from call to call:
    a model is dear to make. Its prompt is ``lead`` further tokens, ``BOS``, and the table's prefix.
    Ids come by its input embeddings, and rows leave by its head, for code that changes the two.
    """

    class RowsForCausalLM(library.PreTrainedModel, library.GenerationMixin):  # type: ignore
        config_class = library.PretrainedConfig

        def __init__(self, size: int, lead: int = 0) -> None:
            sizes = dict.fromkeys(("num_hidden_layers", "num_attention_heads", "hidden_size"), 1)
            super().__init__(library.PretrainedConfig(vocab_size=size, **sizes))
            self.lead, self.size = lead, size
            self.table: Any = None
            ids = torch.arange(size, dtype=torch.float32)[:, None]
            self.embeddings = torch.nn.Embedding.from_pretrained(ids)
            self.head: Any = torch.nn.Linear(size, size, bias=False)
            self.head.weight.data = torch.eye(size)

        def get_input_embeddings(self) -> Any:
            return self.embeddings

        def set_input_embeddings(self, value: Any) -> None:
            self.embeddings = value

        def get_output_embeddings(self) -> Any:
            return self.head

        def set_output_embeddings(self, new_embeddings: Any) -> None:
            self.head = new_embeddings

        def forward(
            self,
            input_ids: Any,
            past_key_values: Any = None,
            cache: Any = None,
            logits_to_keep: int = 0,
            attention_mask: Any = None,
            position_ids: Any = None,
            **_: Any,
        ) -> Any:
            new = self.embeddings(input_ids)[:, None]
            # Since 5.24 it is called a cache.
            cached = {"past_key_values": past_key_values} if cache is None else {"cache": cache}
            keys = next(iter(cached.values())).update(new, new, 0)[0]
            tokens = [round(key) for key in keys[0, 0, self.lead :, 0].tolist()]
            count = logits_to_keep or new.shape[2]
            hidden = torch.full((1, count, self.size), _ZERO_PROBABILITY_LOGIT)
            rows = self.table.logits(tokens, len(tokens) - count).clamp(min=_ZERO_PROBABILITY_LOGIT)
            hidden[..., : self.table.vocab] = rows
            outputs = library.modeling_outputs.CausalLMOutputWithPast
            return outputs(logits=self.head(hidden), **cached)

    return RowsForCausalLM


class IdTokenizer:
    """A tokenizer of texts that are ids, whose vocabulary lists these ids in this order."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.listed = {f"w{i}": i for i in ids}

    def get_vocab(self) -> dict[str, int]:
        """Return the words and their ids."""
        return dict(self.listed)

    def decode(self, ids: Any, **_: Any) -> Any:
        """Return the ids."""
        return ids

    def __call__(self, text: Any, **_: Any) -> dict[str, Any]:
        """Return the ids that the text is; a space, which is asked for first, is none."""
        return {"input_ids": [] if isinstance(text, str) else text}


# Small trees of drafts, for engines that verify trees and do not draft them.


TokenPath = tuple[int, ...]
ChildrenFunction = Callable[[Any, int], Sequence[int]]
"""``children(row, count)``: at most so many tokens of a row (V,) of the draft."""


@dataclass(frozen=True)
class DrawnTree:
    """The N nodes of a tree, the root first and level after level.

    ``prefix``: what stands before the root. ``paths``: the tokens that lead to each node from the
    root. ``parents``: each node's parent, -1 of the root.
    """

    prefix: TokenPath
    paths: list[TokenPath]
    parents: list[int]

    @property
    def tokens(self) -> list[int]:
        """The token of each node but the root, N - 1 of them."""
        return [path[-1] for path in self.paths[1:]]

    @property
    def children(self) -> list[list[int]]:
        """The nodes below each node."""
        nodes = range(len(self.paths))
        return [[i for i in nodes if self.parents[i] == above] for above in nodes]

    def rows(self, model: RowFunction) -> Any:
        """Return a model's rows after each node, a tensor (N, V)."""
        return torch.tensor(np.array([model((*self.prefix, *path)) for path in self.paths]))


def draw_token_tree(
    draft: RowFunction, prefix: Sequence[int], depth: int, children: ChildrenFunction
) -> DrawnTree:
    """Return a tree with two children of the root and one of every other node.

    It is ``depth`` levels deep; where ``children`` draws fewer, it has fewer.
    """
    paths: list[TokenPath] = [()]
    parents = [-1]
    for node, path in enumerate(paths):
        if len(path) < depth:
            for token in children(draft((*prefix, *path)), 1 if path else 2):
                paths.append((*path, int(token)))
                parents.append(node)
    return DrawnTree(tuple(prefix), paths, parents)


def sample_with_replacement(row: Any, count: int) -> Any:
    """Return independent tokens of a row (V,), for :func:`draw_token_tree`."""
    return torch.multinomial(torch.tensor(row), count, replacement=True).tolist()


def likeliest_paths(
    draft: RowFunction, prefix: Sequence[int], depth: int, width: int
) -> list[TokenPath]:
    """Return the paths of a tree of the draft's ``width`` likeliest tokens after every node.

    Nothing is drawn. They begin at the root, and the likeliest comes first.
    """
    paths = []
    for ranks in product(range(min(width, len(draft(tuple(prefix))))), repeat=depth):
        path: TokenPath = ()
        for rank in ranks:
            order = np.argsort(-draft((*prefix, *path)), kind="stable")
            path = (*path, int(order[rank]))
        paths.append(path)
    return paths


# Decoding loops over two models and a prompt, as step rules.


DecodingLoop = Callable[[Any, Any, Any, int], Any]
"""``loop(target, draft, ids, gamma)``: two models, the prompt int64 (1, L), and the tokens."""


class LoopEnded(Exception):
    """Raised by a model to end a loop that would go on: its only argument is what to return."""


def loop_as_step(
    loop: DecodingLoop,
    model: Callable[[RowFunction, tuple[int, ...]], Any] = RowsModel,
    counted: Sequence[Any] | None = None,
) -> Callable[..., Any]:
    """Return a ``step`` callable of a loop.

    ``loop`` returns the tokens that it emitted, (N,), or, as many loops do, with the prompt before
    them, (1, L + N). ``model(rows, prefix)`` makes each of its two models. ``counted``: functions
    and classes whose lines an audit counts, with what they name; whatever the loop names, if None.
    It is for a loop that is a library's front door.
    """

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        ids = make_prompt(prefix)
        try:
            tokens = loop(model(target, prefix), model(draft, prefix), ids, gamma)
        except LoopEnded as over:
            tokens = over.args[0]
        return tokens[0, ids.shape[1] :] if getattr(tokens, "ndim", 1) == 2 else tokens

    if counted is not None:
        vars(step)["__counted__"] = tuple(counted)
    return step


# A tokenizer of texts that are ids, for decoding loops that take and return text.


class FixedPromptTokenizer(dict[str, Any]):
    """A tokenizer that leaves ids as they are, and what it makes of any text: some ids.

    They are under ``input_ids``, as in Hugging Face's.
    """

    def __init__(self, ids: Any) -> None:
        super().__init__(input_ids=ids)

    def __call__(self, *_: Any, **__: Any) -> "FixedPromptTokenizer":
        """Return the ids, whatever is asked: their text, or that they are moved elsewhere."""
        return self

    to = __call__

    def encode(self, text: Any) -> Any:
        """Return the ids."""
        return self["input_ids"]

    def decode(self, ids: Any, **_: Any) -> Any:
        """Return the ids that are decoded."""
        return ids
