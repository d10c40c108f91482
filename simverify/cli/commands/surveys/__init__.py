"""Commands of many audits, or of many questions to one server."""
