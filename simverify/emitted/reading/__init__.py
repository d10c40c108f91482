"""What an engine emitted, as a file or an answer says it: ``requests``, what was ``asked``, ids.

``ids`` are told from what stands beside them; ``textual`` says what text in their place costs.
"""
