"""All bonus tokens are drawn at once in torch, from rows that are rolled by one node."""

import torch

CONTRACT = "tree"
SCHEME = "iid"


def tree(target_probs, draft_probs, tokens, parents, rng):
    rows, drafts = torch.from_numpy(target_probs).clone(), torch.from_numpy(draft_probs)
    above, drafted = (parents + 1).tolist(), tokens.tolist()
    coins = torch.rand(len(drafted), dtype=torch.float64)
    kept = {}
    for node, (parent, x) in enumerate(zip(above, drafted, strict=True)):
        if parent in kept:
            continue
        if coins[node] * drafts[parent, x] < rows[parent, x]:
            kept[parent] = node
            continue
        left = torch.relu(rows[parent] - drafts[parent])
        rows[parent] = left / left.sum()
    last = torch.multinomial(rows.roll(1, 0), 1).flatten()
    out, slot = [], 0
    while slot in kept:
        out.append(drafted[kept[slot]])
        slot = kept[slot] + 1
    return [*out, int(last[slot])]
