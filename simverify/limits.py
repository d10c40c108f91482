"""Limits that every command shares."""

MIN_ALPHA = 1e-300
"""Least false-alarm rate of a run: its shares for single tests must stay numbers above 0."""

MIN_DETECT = 1e-6
"""Least deviation to promise: a TV falls with the root of the tokens, and no run has 10^12."""

MAX_SECONDS = 1e6
"""Longest time limit, eleven days: the system's own clocks take no infinite one."""
