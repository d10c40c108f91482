"""Which parameters a server honours: each asked at a value that matters, and judged by itself.

``cells`` says what is asked and which laws an engine may follow instead, at values that a ``pilot``
on the prompts chooses; ``ways`` gives those laws their rows, ``comparison`` judges tokens by them,
``seeds`` looks at seeds; ``run`` is the whole.
"""

from simverify.emitted.matrix.run import MatrixSettings, audit_matrix

__all__ = ["MatrixSettings", "audit_matrix"]
