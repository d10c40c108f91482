"""From the calls of a rule to the law of what it emits."""
