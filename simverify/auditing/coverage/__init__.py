"""Which lines of the code under audit ran, and which numbers stand in it."""
