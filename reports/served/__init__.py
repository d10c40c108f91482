"""What is said of tokens that engines served, on a terminal and as reports."""
