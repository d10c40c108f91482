"""What is run to see how cost grows, what it costs, and how fast it may grow at most."""
