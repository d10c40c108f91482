"""Independent siblings in one call of numpy."""

CONTRACT = "draft"
SCHEME = "iid"


def draft(prefix, draft_row, k, rng):
    return rng.choice(len(draft_row), size=k, p=draft_row), draft_row
