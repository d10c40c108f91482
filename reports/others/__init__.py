"""Self-tests, plans, baselines, sweeps, tables of engines and bisections, reported."""
