"""Causal language models of Transformers whose probabilities are an audit's rows.

Unlike a ``RowsModel`` they are models of the library: its own ``generate``, candidate
generators, logits processors and caches run on them. Where a cache is cut wrongly, the model sees
other tokens and answers with another row, as any model would.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from simverify.engines.loading.stubs import torch

_LEAST = -1e4
"""A logit of probability 0: it passes through a head's products, which infinity does not."""


@contextmanager
def undrawn() -> Iterator[None]:
    """Make layers without drawing their weights, which no draw of the engine's is."""
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
            self, input_ids: Any, past_key_values: Any = None, cache: Any = None,
            logits_to_keep: int = 0, attention_mask: Any = None, position_ids: Any = None, **_: Any,
        ) -> Any:  # fmt: skip
            new = self.embeddings(input_ids)[:, None]
            # Since 5.24 it is called a cache.
            kept = {"past_key_values": past_key_values} if cache is None else {"cache": cache}
            keys = next(iter(kept.values())).update(new, new, 0)[0]
            tokens = [round(key) for key in keys[0, 0, self.lead :, 0].tolist()]
            asked = logits_to_keep or new.shape[2]
            hidden = torch.full((1, asked, self.size), _LEAST)
            rows = self.table.logits(tokens, len(tokens) - asked).clamp(min=_LEAST)
            hidden[..., : self.table.vocab] = rows
            outputs = library.modeling_outputs.CausalLMOutputWithPast
            return outputs(logits=self.head(hidden), **kept)

    return RowsForCausalLM


class Words:
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
