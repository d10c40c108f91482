"""One file a command: its options, what it runs, what it prints."""
