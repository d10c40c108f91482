"""Self-tests, plans and emitted tokens, reported."""
