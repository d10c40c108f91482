"""The target's choice after every token of a text, whose tokens may stand at other positions."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats, Ints
from simverify.emitted.triage.scoring import BATCH, batches
from simverify.models.real.transformer import TransformerPair


@dataclass(frozen=True)
class Text:
    """A text's ``tokens``, and ``positions`` where they are not 0, 1, 2 and so on."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...] | None = None

    @classmethod
    def of(cls, tokens: tuple[int, ...], positions: tuple[int, ...] | None) -> "Text":
        """Return a text whose last tokens, if there are more than positions, go on from there."""
        if positions is None:
            return cls(tokens)
        more = range(positions[-1] + 1, positions[-1] + 1 + len(tokens) - len(positions))
        return cls(tokens, (*positions, *more))


def takes_positions(pair: TransformerPair) -> bool:
    """Return whether the target is told where its tokens stand; a state counts for itself."""
    return "position_ids" in inspect.signature(type(pair.target_model).forward).parameters


def choices(texts: Sequence[Text], pair: TransformerPair) -> dict[Text, tuple[Ints, Floats]]:
    """Return the target's choice after every token of each text, int64 (n,).

    Beside it by how much the text's next token is behind the choice, float64 (n,) in logits; 0
    after the last, which has none.
    """
    found: dict[Text, tuple[Ints, Floats]] = {}
    plain = sorted((t for t in texts if t.positions is None), key=lambda text: len(text.tokens))
    tokens = [text.tokens for text in plain]
    for together in batches(tokens, BATCH, pair.vocab_size):
        model = pair.cached(pair.target_model, len(together))
        for i, rows in zip(together, model.feed([tokens[j] for j in together]), strict=True):
            found[plain[i]] = _chosen(rows, plain[i])
    placed = sorted((t for t in texts if t.positions is not None), key=lambda t: len(t.tokens))
    for together in batches([text.tokens for text in placed], BATCH, pair.vocab_size):
        own = [placed[i] for i in together]
        found |= dict(zip(own, _placed(own, pair), strict=True))
    return found


def _chosen(rows: npt.NDArray[np.float32], text: Text) -> tuple[Ints, Floats]:
    behind = np.zeros(len(rows))
    each = np.arange(len(rows) - 1)
    behind[:-1] = rows[:-1].max(axis=1) - rows[each, list(text.tokens[1:])]
    return rows.argmax(axis=1), behind


def _placed(texts: Sequence[Text], pair: TransformerPair) -> list[tuple[Ints, Floats]]:
    """Choices after texts with positions of their own, filled up on the right to one length."""
    import torch

    width = max(len(text.tokens) for text in texts)
    ids = torch.zeros((len(texts), width), dtype=torch.long)
    positions, there = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, text in enumerate(texts):
        n = len(text.tokens)
        ids[row, :n] = torch.as_tensor(text.tokens)
        positions[row, :n] = torch.as_tensor(text.positions)
        there[row, :n] = 1
    device = pair.target_model.device
    with torch.no_grad():
        logits = pair.target_model(
            ids.to(device), attention_mask=there.to(device), position_ids=positions.to(device),
            use_cache=False,
        ).logits  # fmt: skip
    rows = logits.float().cpu().numpy()
    return [_chosen(own[: len(text.tokens)], text) for own, text in zip(rows, texts, strict=True)]
