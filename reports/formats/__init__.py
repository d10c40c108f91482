"""Formats that any report is rendered to."""
