"""The project's own rules on tensors, audited like anyone else's; a file each kind."""
