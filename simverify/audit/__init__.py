"""Putting verifiers on trial: exact laws where they can be written out, sampled tests beside."""
