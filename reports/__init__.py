"""One result model rendered for its readers; the documents are ``simverify.results``."""
