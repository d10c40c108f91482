"""Recursive rejection of independent siblings on torch rows, a fresh uniform a sibling."""

import torch

CONTRACT = "tree"
SCHEME = "iid"


def tree(target_probs, draft_probs, tokens, parents, rng):
    p_rows, q_rows = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    at, out = -1, []
    while True:
        p, q = p_rows[at + 1].clone(), q_rows[at + 1]
        for child in (torch.tensor(parents) == at).nonzero().flatten().tolist():
            x = int(tokens[child])
            if torch.rand((), dtype=torch.float64) < p[x] / q[x]:
                out.append(x)
                at = child
                break
            p = (p - q).clamp_min(0)
            p /= p.sum()
        else:
            return [*out, int(torch.multinomial(p, 1))]
