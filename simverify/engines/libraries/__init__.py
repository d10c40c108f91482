"""Adapters of installable Python packages that are no servers; a file each."""
