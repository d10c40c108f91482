"""Randomised PITs and what is tested of them."""
