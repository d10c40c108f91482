"""The target's own token by a Gumbel race, kept while it is a child; a class with a call."""

import numpy as np

CONTRACT = "tree"
SCHEME = "argmax-first"


class Walk:
    def __init__(self, rows, tokens, parents, rng):
        self.rows, self.rng = rows, rng
        self.kids = {}
        for i, (token, parent) in enumerate(zip(tokens.tolist(), parents.tolist(), strict=True)):
            self.kids.setdefault(parent, {})[token] = i

    def __iter__(self):
        node = -1
        while node is not None:
            with np.errstate(divide="ignore"):
                logits = np.log(self.rows[node + 1])
            token = int(np.argmax(logits + self.rng.gumbel(size=logits.size)))
            yield token
            node = self.kids.get(node, {}).get(token)


def tree(target_probs, draft_probs, tokens, parents, rng):
    return list(Walk(target_probs, tokens, parents, rng))
