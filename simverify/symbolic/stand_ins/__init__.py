"""What stands in for names and libraries while code is followed."""
