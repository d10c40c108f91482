"""What a triage and a watch say, on a terminal and as reports."""
