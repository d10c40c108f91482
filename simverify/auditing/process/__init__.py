"""The child process of an audit, and what keeps it from harm."""
