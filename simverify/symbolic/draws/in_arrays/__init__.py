"""Numpy arrays that hold symbolic draws, and numpy's functions of them."""
