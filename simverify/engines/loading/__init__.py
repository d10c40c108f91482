"""Pieces of an engine's source, and a model for its loop to run on."""
