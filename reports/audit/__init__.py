"""Audits, reported."""
