"""EasySpec (Wu et al.): fuzzy drafts of layers that run at once, mended by bonus calibration.

A fuzzy pass runs the attention blocks of a group of layers on one input, at the same time
(:mod:`~simverify.drafting.fuzzy`). The keys and values that it leaves in the cache are off, and
so would be all later laws. Calibration drops them, those of accepted drafts too, and runs the
accepted tokens and the one behind them through the model as it is, which refills the cache and
gives the law of the first draft; the others of a phase are fuzzy.
"""

from collections.abc import Sequence
from typing import Any

import torch

from simverify.drafting.drafter import Logits
from simverify.drafting.fuzzy import grouped
from simverify.drafting.groups import layer_groups
from simverify.drafting.plain import Plain, last


class EasySpec(Plain):
    """Drafts of a causal model whose layers run in groups.

    With one layer a group no pass is fuzzy, nothing has to be mended, and drafts are plain ones
    to the last bit.

    Parameters
    ----------
    model
        A Llama- or Qwen2-type model.
    requests
        Size of the batch.
    layer_parallel
        Layers a group, 1 or more.
    calibration
        Whether fuzzy entries of the cache are replaced by exact ones. Without, those of accepted
        drafts stay, and the first draft of a phase is fuzzy too.

    Raises
    ------
    UsageError
        If ``layer_parallel`` is below 1, or the model is of another type.
    """

    def __init__(
        self, model: Any, requests: int, layer_parallel: int, *, calibration: bool = True
    ) -> None:
        super().__init__(model, requests)
        groups = layer_groups(model.config.num_hidden_layers, layer_parallel)
        self._fuzzy = grouped(model, layer_parallel, devices=group_devices(model.device))
        self._calibrates = calibration and any(len(group) > 1 for group in groups)
        self._exactly = None if self._calibrates else self._fuzzy
        # Of this phase the drafts of each request; of the last one those to be run again.
        self._drafts: list[list[int]] = [[] for _ in range(requests)]
        self._owed: list[list[int]] = [[] for _ in range(requests)]

    def begin(self, tokens: Sequence[Sequence[int]]) -> Logits:
        """Begin a phase; return float32 (requests, V), the logits for the first drafts."""
        due = [[*owed, *own] for owed, own in zip(self._owed, tokens, strict=True)]
        self._owed = [[] for _ in tokens]
        return last(self.cached.feed(due, through=self._exactly))

    def extend(self, tokens: Sequence[int]) -> Logits:
        """Append one draft to each request's; return float32 (requests, V), for the next ones."""
        self.drafted += 1
        self._count([[token] for token in tokens])
        return last(self.cached.feed([[token] for token in tokens], through=self._fuzzy))

    def grow(
        self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]
    ) -> list[Logits]:
        """Append nodes to the requests' draft trees; return (n_r, V), the logits after each."""
        self._count(tokens)
        return self.cached.grow(tokens, parents, through=self._fuzzy)

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
        for drafts, own in zip(self._drafts, tokens, strict=True):
            drafts.extend(own)


def group_devices(home: torch.device) -> list[torch.device] | None:
    """Return the GPUs among which a group is shared, that of the model first; None for one."""
    if home.type != "cuda" or torch.cuda.device_count() < 2:
        return None
    others = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    return [home, *(device for device in others if device != home)]
