"""Audit of tokens that some other engine emitted: a file or an endpoint, and the target alone.

``requests`` reads them, each with what it was ``asked``; ``endpoint`` asks a ``server`` for them
over a ``transport``, and has them ``kept``. ``rescoring`` gives tokens their target rows,
``judging`` keeps sums and tests them as ``settings`` say; ``run`` is the whole.
"""

from simverify.emitted.asked import contradictions
from simverify.emitted.endpoint import Asked, ask
from simverify.emitted.requests import Request, read_requests, request_iv
from simverify.emitted.run import Source, audit_outputs
from simverify.emitted.server import Endpoint
from simverify.emitted.settings import OutputSettings

__all__ = [
    "Asked",
    "Endpoint",
    "OutputSettings",
    "Request",
    "Source",
    "ask",
    "audit_outputs",
    "contradictions",
    "read_requests",
    "request_iv",
]
