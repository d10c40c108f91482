"""Drives a drafter through phases as a decoding loop does, on texts of its own choosing."""

import numpy as np
from support.real_models import VOCAB_SIZE

from simverify.trees import ROOT

PROMPTS = [[1, 2, 3, 4], [5], [7, 8]]
DRAFTS = np.random.default_rng(5).integers(VOCAB_SIZE, size=(6, 3, 4)).tolist()
"""Of six phases the four drafts of three requests."""

KEPT = [[4, 0, 2], [1, 4, 0], [0, 0, 4], [3, 4, 4], [4, 4, 1], [2, 2, 2]]
DRAWN = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 1, 2], [3, 4, 5], [6, 7, 8]]
"""What the verifier draws behind the drafts that it keeps."""


def drafted_chain(drafter, tokens, drafts):
    """One phase of a chain: the logits (requests, gamma + 1, V) before each draft and after all.

    ``tokens``: what each request emitted; ``drafts`` (requests, gamma): told one after another.
    """
    heads = [drafter.begin(tokens)]
    heads += [drafter.extend(list(column)) for column in zip(*drafts, strict=True)]
    return np.stack(heads, axis=1)


def drafted_tree(drafter, tokens, trees):
    """One phase of trees, told level by level: of each request the logits by text below its root.

    ``trees``: of each request (token, parent) by node, parents first, -1 for the root.
    """
    first = drafter.begin(tokens)
    found = [{(): row} for row in first]
    told, texts = [{} for _ in trees], [{ROOT: ()} for _ in trees]
    depth = 0
    while True:
        depth += 1
        levels = []
        for tree, text in zip(trees, texts, strict=True):
            for node, (token, parent) in enumerate(tree):
                if parent in text:
                    text[node] = (*text[parent], token)
            levels.append([node for node in range(len(tree)) if len(text[node]) == depth])
        if not any(levels):
            return found
        logits = drafter.grow(
            [[tree[n][0] for n in level] for tree, level in zip(trees, levels, strict=True)],
            [
                [own.get(tree[n][1], ROOT) for n in level]
                for tree, level, own in zip(trees, levels, told, strict=True)
            ],
        )
        for r, level in enumerate(levels):
            for node, row in zip(level, logits[r], strict=True):
                told[r][node] = len(told[r])
                found[r][texts[r][node]] = row


def phases(drafter, requests=range(3)):
    """Go through all phases; yield each with the texts before it and its logits."""
    texts = [list(PROMPTS[r]) for r in requests]
    for i, r in enumerate(requests):
        drafter.read(i, PROMPTS[r][:-1])
    new = [text[-1:] for text in texts]
    for drafts, kept, drawn in zip(DRAFTS, KEPT, DRAWN, strict=True):
        own = [drafts[r] for r in requests]
        heads = drafted_chain(drafter, new, own)
        yield texts, own, heads
        drafter.accept([range(kept[r]) for r in requests])
        new = [[drawn[r]] for r in requests]
        texts = [
            [*text, *drafts[: kept[r]], drawn[r]]
            for text, drafts, r in zip(texts, own, requests, strict=True)
        ]
