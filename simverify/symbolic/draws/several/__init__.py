"""Draws that meet: products, pairs, races and their winners."""
