"""The documents of audits of tokens that other engines emitted."""
