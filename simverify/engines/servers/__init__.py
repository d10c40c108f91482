"""Adapters of engines that serve models; a file each."""
