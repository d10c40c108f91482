"""Commands that ask a server, or read what one answered."""
