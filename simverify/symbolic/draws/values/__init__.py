"""What a draw is worth: the function that was meant (forms), and what the machine makes of it."""
