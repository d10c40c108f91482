"""Why two logs of greedy answers differ, request by request.

``reading`` brings the answers together, ``scoring`` rescores them, ``places`` finds the token that
is off, ``contexts`` and ``causes`` look for what explains it, ``telling`` words it; ``run`` is the
whole.
"""

from simverify.emitted.triage.reading import paired, read_answers
from simverify.emitted.triage.run import Source, triage

__all__ = ["Source", "paired", "read_answers", "triage"]
