"""Which release, or which commit, changed the law: each one audited in a place of its own."""
