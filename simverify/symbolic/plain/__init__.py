"""Chosen numbers in the real libraries' own types: what a path is repeated on."""
