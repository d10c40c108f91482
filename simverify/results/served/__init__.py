"""The documents on tokens that other engines emitted: audits, comparisons, triage, watches."""
