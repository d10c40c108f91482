"""Whether an exact law is the target's, and what is told where it is not."""
