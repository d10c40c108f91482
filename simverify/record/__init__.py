"""The run store: what was run, with which versions, on which code, and what came of it."""
