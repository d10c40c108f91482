"""Draws that are integers: few values one by one, many as steps, lines, bits and mixed seeds."""
