"""The exact tier: instances, the law of the code on each, the search, the counterexample."""
