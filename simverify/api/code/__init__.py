"""Code under audit, from what a user names: a function, a program, a library, an engine."""
