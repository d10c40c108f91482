"""Self-tests, plans, emitted tokens, tables of engines and bisections, reported."""
