"""What a path of a plain torch step rule costs in the exact tier, beside a bare call of it.

    python benchmarks/torch_paths.py [--turns 12]

Processor time of this process; the least of all turns, for a busy machine adds to each.
"""

import argparse
import time
from typing import Any

import torch

from simverify.auditing.enumeration import Generation, StepEnumeration, enumerate_tokens
from simverify.auditing.instances import instances_for
from simverify.symbolic.engine import Budget

SEEN = 10_000
"""Leaves that count as seen: by then few paths are replayed."""


def sample(probs: torch.Tensor) -> torch.Tensor:
    """Draw a token by a race, as gpt-fast does to spare a synchronisation."""
    noise = torch.empty_like(probs).exponential_(1)
    return torch.argmax(probs / noise, dim=-1, keepdim=True).to(dtype=torch.int)


def step(prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
    """Draft, verify and emit, in the operations of gpt-fast (speculative_decode)."""
    del rng  # torch's own
    tokens, rows = [], []
    for _ in range(gamma):
        rows.append(torch.tensor(draft((*prefix, *tokens)), dtype=torch.float64))
        tokens.append(int(sample(rows[-1])))
    q = torch.stack(rows)
    after = [target((*prefix, *tokens[:i])) for i in range(gamma + 1)]
    p = torch.stack([torch.tensor(row, dtype=torch.float64) for row in after])
    drafted, at = torch.tensor(tokens), torch.arange(0, gamma)
    accept = torch.minimum(torch.ones(()), p[at, drafted] / q[at, drafted])
    rejected = (torch.rand_like(accept) > accept).nonzero()
    if rejected.shape[0] == 0:
        return [int(x) for x in torch.cat([drafted, sample(p[-1])]).tolist()]
    n = int(rejected[0].item())
    residual = p[n] - q[n]
    residual = torch.where(residual > 0, residual, 0.0)
    new = sample(residual / residual.sum())
    return [int(x) for x in torch.cat([drafted[:n], new]).tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=12)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    (model,) = [x for x in instances_for("step", 4, 12, 0) if x.name == "plain, V=3, gamma=2"]
    paths, bare = [], []
    for _ in range(turns):
        with StepEnumeration(step, leaves=SEEN) as enumeration:
            began = time.process_time()
            generation = Generation(model.target, model.draft, 2, 1)
            law = enumerate_tokens(enumeration, step, generation, Budget(10_000))
            paths.append((time.process_time() - began) / law.paths)
        began = time.process_time()
        for _ in range(law.paths):
            step((), model.target, model.draft, 2, None)
        bare.append((time.process_time() - began) / law.paths)
    print(f"{law.paths} paths: {1e3 * min(paths):.2f} ms each; bare calls {1e3 * min(bare):.2f} ms")


if __name__ == "__main__":
    main()
