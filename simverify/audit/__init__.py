"""Putting verifiers on trial: exact laws where they can be enumerated, sampled tests beside them."""
