"""Drives a drafter through phases as a decoding loop does, on texts of its own choosing."""

import numpy as np

from simverify.trees import ROOT


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
