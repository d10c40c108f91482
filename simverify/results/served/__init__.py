"""The documents of ``simverify triage`` and ``simverify watch``."""
