"""Ends the draft before an unlikely token, which is dropped: the others come too often."""

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    tokens = []
    for _ in range(k):
        token = int(rng.choice(len(draft_row), p=draft_row))
        if draft_row[token] < 0.25:
            break
        tokens.append(token)
    return tokens, draft_row
