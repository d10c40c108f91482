"""Engines that serve: ``simverify.triage`` and ``simverify.watch``."""
