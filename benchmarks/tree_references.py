"""References for draft trees in the usual way: numpy tree by tree, torch batch by batch.

K-SEQ (Sun et al. 2023) and recursive rejection (Miao et al. 2023), as a competent user writes them:
the whole tree is drafted, then the walk down judges it. Rows lie ready in arrays, and so does
K-SEQ's rho for every row, which would otherwise cost more than the rest. All of them serve a Markov
model and independent siblings.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simverify.models import MarkovModel
from simverify.trees import ROOT, TreeShape

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RULES = ("k-seq", "recursive")


def rhos(target: Floats, draft: Floats, k: int) -> Floats:
    """Return K-SEQ's rho (rows,) for ``k`` siblings: 1 - (1 - beta)^k = rho beta."""
    low, high = np.ones(len(target)), np.full(len(target), float(k))
    for _ in range(50):
        middle = (low + high) / 2
        beta = np.minimum(draft, target / middle[:, None]).sum(axis=1)
        above = 1 - (1 - beta) ** k <= middle * beta
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


class NumpyTrees:
    """One tree at a time."""

    def __init__(self, model: MarkovModel, shape: TreeShape) -> None:
        self.target = np.vstack([model.target_rows, model.target_start])
        self.draft = np.vstack([model.draft_rows, model.draft_start])
        self.states, self.shape = model.states, shape
        widths = {len(children) for children in shape.children.values()} - {0}
        self.rho = {k: rhos(self.target, self.draft, k) for k in widths}

    def draw(self, rng: Any) -> tuple[Ints, Ints]:
        """Draft a tree; returns the states (n+1,) at the root and after each node, and tokens."""
        states = np.full(len(self.shape) + 1, self.states)
        tokens = np.empty(len(self.shape), np.int64)
        for node, parent in enumerate(self.shape.parents):
            row = self.draft[states[parent + 1]]
            tokens[node] = rng.choice(len(row), p=row)
            states[node + 1] = tokens[node] % self.states
        return states, tokens

    def verify(self, rule: str, states: Ints, tokens: Ints, rng: Any) -> list[int]:
        """Walk down the tree by ``rule``; returns the kept tokens and the last."""
        emitted: list[int] = []
        node = ROOT
        while True:
            state = states[node + 1]
            p, q = self.target[state], self.draft[state]
            children = self.shape.children[node]
            step = self.k_seq if rule == "k-seq" else self.recursive
            child, law = step(p, q, state, children, tokens, rng)
            if child is None:
                return [*emitted, int(rng.choice(len(law), p=law))]
            emitted.append(int(tokens[child]))
            # An earlier child may have the same token.
            node = next(c for c in children if tokens[c] == tokens[child])

    def k_seq(self, p: Floats, q: Floats, state: Any, children: Any, tokens: Ints, rng: Any) -> Any:
        if not children:
            return None, p
        k = len(children)
        rho = self.rho[k][state]
        for child in children:
            x = tokens[child]
            if rng.random() < p[x] / (rho * q[x]):
                return child, None
        one = np.minimum(q, p / rho)
        beta = one.sum()
        left = np.maximum(p - one * ((1 - (1 - beta) ** k) / beta), 0) if beta > 0 else p
        return None, left / left.sum()

    def recursive(
        self, p: Floats, q: Floats, state: Any, children: Any, tokens: Ints, rng: Any
    ) -> Any:
        for child in children:
            x = tokens[child]
            if rng.random() < p[x] / q[x]:
                return child, None
            p = np.maximum(p - q, 0)
            p = p / p.sum()
        return None, p

    def run(self, rule: str, blocks: int, rng: Any) -> Ints:
        """Draft and judge ``blocks`` trees; returns tau of each."""
        taus = np.empty(blocks, np.int64)
        for block in range(blocks):
            taus[block] = len(self.verify(rule, *self.draw(rng), rng)) - 1
        return taus


class TorchTrees:
    """Batches of trees, float32. Below two siblings of one token the trees must be alike."""

    def __init__(self, model: MarkovModel, shape: TreeShape) -> None:
        rows = NumpyTrees(model, shape)
        self.target = torch.tensor(rows.target).float()
        self.draft = torch.tensor(rows.draft).float()
        self.rho = {k: torch.tensor(rho).float() for k, rho in rows.rho.items()}
        self.states, self.shape = model.states, shape
        # The nodes of each level, all of which have as many children.
        self.levels = [
            [node for node, depth in enumerate(shape.depths) if depth == level + 1]
            for level in range(shape.depth)
        ]
        self.parents = [torch.tensor([shape.parents[n] + 1 for n in ns]) for ns in self.levels]
        self.first = torch.tensor(
            [min(shape.children[node], default=0) for node in range(ROOT, len(shape))]
        )
        self.widths = [len(shape.children[at]) for at in (ROOT, *(ns[0] for ns in self.levels))]

    def draw(self, batch: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Draft a batch; returns states (batch, n+1) and tokens (batch, n)."""
        states = torch.full((batch, len(self.shape) + 1), self.states)
        tokens = torch.empty(batch, len(self.shape), dtype=torch.int64)
        for nodes, parents in zip(self.levels, self.parents, strict=True):
            rows = self.draft[states[:, parents]].flatten(0, 1)
            drawn = torch.multinomial(rows, 1, generator=generator).view(batch, len(nodes))
            tokens[:, nodes] = drawn
            states[:, [node + 1 for node in nodes]] = drawn % self.states
        return states, tokens

    def verify(
        self, rule: str, states: torch.Tensor, tokens: torch.Tensor, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Walk down all trees at once; returns tau and the last tokens, (batch,) each."""
        batch = len(tokens)
        tau = torch.zeros(batch, dtype=torch.int64)
        laws = torch.empty(batch, self.target.shape[1])
        alive = torch.arange(batch)
        node = torch.zeros(batch, dtype=torch.int64)
        for width in self.widths:
            state = states[alive].gather(1, node[:, None]).squeeze(1)
            p, q = self.target[state], self.draft[state]
            taken = torch.full((len(alive),), -1)
            left = p
            for j in range(width):
                child = self.first[node] + j
                x = tokens[alive].gather(1, child[:, None])
                chance = (left if rule == "recursive" else p).gather(1, x) / q.gather(1, x)
                if rule == "k-seq":
                    chance = chance / self.rho[width][state][:, None]
                hit = torch.rand(len(alive), generator=generator) < chance.squeeze(1)
                taken = torch.where((taken < 0) & hit, child, taken)
                if rule == "recursive":
                    left = (left - q).clamp_(min=0)
                    left = left / left.sum(dim=1, keepdim=True)
            if rule == "k-seq" and width:
                one = torch.minimum(q, p / self.rho[width][state][:, None])
                beta = one.sum(dim=1, keepdim=True)
                left = (p - one * ((1 - (1 - beta) ** width) / beta)).clamp_(min=0)
            on = taken >= 0
            laws[alive[~on]] = left[~on]
            alive, node = alive[on], taken[on] + 1
            tau[alive] += 1
            if not len(alive):
                break
        return tau, torch.multinomial(laws, 1, generator=generator).squeeze(1)

    def run(self, rule: str, blocks: int, batch: int, generator: torch.Generator) -> Ints:
        """Draft and judge ``blocks`` trees (a multiple of ``batch``); returns tau of each."""
        taus = [
            self.verify(rule, *self.draw(batch, generator), generator)[0]
            for _ in range(blocks // batch)
        ]
        result: Ints = torch.cat(taus).numpy().astype(np.int64)
        return result
