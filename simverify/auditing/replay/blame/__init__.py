"""Which lines of the code under audit a failure may come from: where it decides, and before it."""
