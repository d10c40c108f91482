"""Every option of every mode: its type, default, range and help, written once."""
