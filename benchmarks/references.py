"""References written in the usual way: numpy block by block, torch batch by batch.

They are what a competent user writes from Sun et al. 2025, algorithms 1 (token) and 2 (block):
vectorised over the vocabulary, and in torch over the batch as well, nothing left undone that
numpy and torch offer. Drafting and verifying are both part of the work. All of them serve a
Markov model alone, whose rows lie ready in arrays, so no time goes into a model.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simverify.models import MarkovModel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BATCHES = (256, 1000, 4000, 20000)
"""Batch sizes of the torch reference; its best one counts."""


def draft_block(
    model: MarkovModel, gamma: int, rng: np.random.Generator
) -> tuple[Floats, Floats, list[int]]:
    """Draft a block; returns p rows (gamma+1, V), q rows (gamma, V) and the tokens."""
    vocab_size = model.vocab_size
    target = np.empty((gamma + 1, vocab_size))
    draft = np.empty((gamma, vocab_size))
    target[0] = model.target_start
    row = model.draft_start
    tokens = []
    for i in range(gamma):
        draft[i] = row
        token = int(rng.choice(vocab_size, p=row))
        tokens.append(token)
        target[i + 1] = model.target_rows[token % model.states]
        row = model.draft_rows[token % model.states]
    return target, draft, tokens


def numpy_token(
    target: Floats, draft: Floats, tokens: list[int], rng: np.random.Generator
) -> list[int]:
    """Algorithm 1: judge each token alone (the ``verify`` contract)."""
    for i, token in enumerate(tokens):
        if not rng.random() < target[i, token] / draft[i, token]:
            residual = np.maximum(target[i] - draft[i], 0)
            return [*tokens[:i], int(rng.choice(len(residual), p=residual / residual.sum()))]
    return [*tokens, int(rng.choice(target.shape[1], p=target[-1]))]


def numpy_block(
    target: Floats, draft: Floats, tokens: list[int], rng: np.random.Generator
) -> list[int]:
    """Algorithm 2: judge the block as a whole (the ``verify`` contract)."""
    gamma = len(tokens)
    here = np.arange(gamma)
    ratio = target[here, tokens] / draft[here, tokens]
    weight = np.ones(gamma + 1)
    for i in range(gamma):
        weight[i + 1] = min(weight[i] * ratio[i], 1.0)
    # Row 0 is no candidate: nothing has been accepted there.
    residual = np.maximum(weight[1:gamma, np.newaxis] * target[1:gamma] - draft[1:], 0)
    mass = residual.sum(axis=1)
    room = mass + 1 - weight[1:gamma]
    threshold = np.ones(gamma)
    np.divide(mass, room, out=threshold[: gamma - 1], where=room > 0)
    threshold[gamma - 1] = weight[gamma]
    kept = np.flatnonzero(rng.random(gamma) < threshold)
    tau = int(kept[-1]) + 1 if len(kept) else 0
    law = target[gamma]
    if tau < gamma:
        last = np.maximum(weight[tau] * target[tau] - draft[tau], 0)
        total = last.sum()
        law = last / total if total > 0 else target[tau]
    return [*tokens[:tau], int(rng.choice(len(law), p=law))]


NUMPY = {"token": numpy_token, "block": numpy_block}


def numpy_run(
    model: MarkovModel, rule: str, gamma: int, blocks: int, rng: np.random.Generator
) -> Ints:
    """Draft and verify ``blocks`` blocks one at a time; returns tau of each."""
    verify = NUMPY[rule]
    taus = np.empty(blocks, np.int64)
    for block in range(blocks):
        target, draft, tokens = draft_block(model, gamma, rng)
        taus[block] = len(verify(target, draft, tokens, rng)) - 1
    return taus


class TorchMarkov:
    """A Markov model as float32 tensors; row S is the start."""

    def __init__(self, model: MarkovModel) -> None:
        self.target = torch.tensor(np.vstack([model.target_rows, model.target_start])).float()
        self.draft = torch.tensor(np.vstack([model.draft_rows, model.draft_start])).float()
        self.states = model.states

    def draft_batch(
        self, gamma: int, batch: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draft a batch; returns states (batch, gamma+1) and tokens (batch, gamma)."""
        states = torch.empty(batch, gamma + 1, dtype=torch.int64)
        tokens = torch.empty(batch, gamma, dtype=torch.int64)
        states[:, 0] = self.states
        for i in range(gamma):
            rows = self.draft[states[:, i]]
            tokens[:, i] = torch.multinomial(rows, 1, generator=generator).squeeze(1)
            states[:, i + 1] = tokens[:, i] % self.states
        return states, tokens

    def ratios(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return p/q (batch, gamma) at the drafted tokens."""
        before = states[:, :-1]
        return self.target[before, tokens] / self.draft[before, tokens]


def torch_token(
    model: TorchMarkov, gamma: int, batch: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Algorithm 1 on a drafted batch; returns tau and the last tokens, (batch,) each."""
    states, tokens = model.draft_batch(gamma, batch, generator)
    accepted = torch.rand(batch, gamma, generator=generator) < model.ratios(states, tokens)
    tau = accepted.int().cumprod(dim=1).sum(dim=1)
    weight = torch.ones(batch)
    return tau, _last_tokens(model, gamma, states, tau, weight, generator)


def torch_block(
    model: TorchMarkov, gamma: int, batch: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Algorithm 2 on a drafted batch; returns tau and the last tokens, (batch,) each."""
    states, tokens = model.draft_batch(gamma, batch, generator)
    ratio = model.ratios(states, tokens)
    weight = torch.ones(batch, gamma + 1)
    for i in range(gamma):
        weight[:, i + 1] = (weight[:, i] * ratio[:, i]).clamp(max=1)
    inner = states[:, 1:gamma]
    inner_weight = weight[:, 1:gamma]
    residual = (inner_weight[:, :, None] * model.target[inner]).sub_(model.draft[inner])
    mass = residual.clamp_(min=0).sum(dim=2)
    threshold = torch.cat(
        [(mass / (mass + 1 - inner_weight)).nan_to_num(nan=1.0), weight[:, gamma:]], dim=1
    )
    kept = torch.rand(batch, gamma, generator=generator) < threshold
    tau = (kept * torch.arange(1, gamma + 1)).amax(dim=1)
    at = weight.gather(1, tau[:, None]).squeeze(1)
    return tau, _last_tokens(model, gamma, states, tau, at, generator)


def _last_tokens(
    model: TorchMarkov,
    gamma: int,
    states: torch.Tensor,
    tau: torch.Tensor,
    weight: torch.Tensor,
    generator: torch.Generator,
) -> torch.Tensor:
    """Draw from max(weight p - q, 0), or from p where the whole block was kept."""
    state = states.gather(1, tau.long()[:, None]).squeeze(1)
    target = model.target[state]
    residual = (weight[:, None] * target).sub_(model.draft[state]).clamp_(min=0)
    whole = (tau == gamma) | (residual.sum(dim=1) <= 0)
    law = torch.where(whole[:, None], target, residual)
    return torch.multinomial(law, 1, generator=generator).squeeze(1)


TORCH: dict[str, Any] = {"token": torch_token, "block": torch_block}


def torch_run(
    model: TorchMarkov, rule: str, gamma: int, blocks: int, batch: int, generator: torch.Generator
) -> Ints:
    """Draft and verify ``blocks`` blocks (a multiple of ``batch``); returns tau of each."""
    taus = [TORCH[rule](model, gamma, batch, generator)[0] for _ in range(blocks // batch)]
    result: Ints = torch.cat(taus).numpy().astype(np.int64)
    return result
