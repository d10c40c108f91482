"""Symbolic twins of torch's generators and of its operators on draws."""
