"""Stops where the token before was unlikely, or the row is flat, or a coin says so.

None of it looks at the tokens that the call itself draws.
"""

CONTRACT = "draft"
SCHEME = "iid"


class Rule:
    def __init__(self):
        self.unlikely = set()

    def draft(self, prefix, draft_row, k, rng):
        if tuple(prefix) in self.unlikely or draft_row.max() < 0.4 or rng.random() < 0.125:
            return [], draft_row
        tokens = [int(rng.choice(len(draft_row), p=draft_row)) for _ in range(k)]
        self.unlikely |= {(*prefix, x) for x in tokens if draft_row[x] < 0.3}
        return tokens, draft_row
