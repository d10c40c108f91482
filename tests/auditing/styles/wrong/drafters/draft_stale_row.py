"""Reports the row of the call before, of which the first one has none."""

CONTRACT = "draft"
SCHEME = "iid"


class Rule:
    def __init__(self):
        self.rows = []

    def draft(self, prefix, draft_row, k, rng):
        self.rows.append(draft_row.copy())
        tokens = [int(rng.choice(len(draft_row), p=draft_row)) for _ in range(k)]
        return tokens, self.rows[-2:][0]
