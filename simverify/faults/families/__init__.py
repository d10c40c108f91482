"""The faulty verifiers, one family a file, each citing where it was seen."""
