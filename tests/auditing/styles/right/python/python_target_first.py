"""The target's token is drawn from the coupling's other side: match, else the overlap is split."""

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    out = []
    for row, x in zip(target_probs, [*draft_tokens, -1], strict=True):
        out.append(int(rng.choice(len(row), p=row)))
        if out[-1] != x:
            break
    return out
