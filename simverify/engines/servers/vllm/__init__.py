"""Adapters of vLLM's runners and of its forks; a file each."""
