"""Engines' shapes and the contracts': batches, logits, coins and trees, one into the other."""

__simverify_role__ = "wrapper"
