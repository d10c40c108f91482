"""The residual as a dict mass -> token: tokens of equal mass collapse into one. TV up to .3 at
ties, none elsewhere."""

import numpy as np

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    for i, token in enumerate(draft_tokens):
        if rng.random() >= target_probs[i, token] / draft_probs[i, token]:
            rest = np.maximum(target_probs[i] - draft_probs[i], 0)
            table = {m: x for x, m in enumerate(rest.tolist()) if m > 0}
            masses = np.array(list(table))
            pick = rng.choice(len(masses), p=masses / masses.sum())
            return [*draft_tokens[:i], list(table.values())[pick]]
    return [*draft_tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]
