"""Audit of tokens that some other engine emitted: a file or an endpoint, and the target alone.

``requests`` reads them, ``endpoint`` asks a server for them; ``rescoring`` gives each token its
target row, ``evidence`` keeps the sums and ``judge`` tests them; ``run`` is the whole.
"""

from simverify.audit.outputs.endpoint import Endpoint, ask
from simverify.audit.outputs.requests import Request, read_requests, request_iv
from simverify.audit.outputs.run import OutputSettings, Source, audit_outputs

__all__ = [
    "Endpoint",
    "OutputSettings",
    "Request",
    "Source",
    "ask",
    "audit_outputs",
    "read_requests",
    "request_iv",
]
