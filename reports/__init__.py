"""One result model rendered for its readers; the documents are ``simverify.results``."""

__simverify_role__ = "interface"
