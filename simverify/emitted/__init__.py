"""Audit of tokens that some other engine emitted: a file or an endpoint, and the target alone.

``reading`` says what a file or an answer holds, ``serving`` asks a server. ``rescoring`` gives
tokens their target rows, ``judging`` keeps sums and tests them as ``settings`` say; ``begun`` does
so as answers come, ``run`` is the whole. ``against`` compares two engines without a target.
"""

__simverify_role__ = "machinery"

from simverify.emitted.begun import Begun
from simverify.emitted.law import Law, Mask
from simverify.emitted.reading.asked import contradictions
from simverify.emitted.reading.requests import Request, read_requests, request_iv
from simverify.emitted.run import Source, audit_outputs
from simverify.emitted.serving.endpoint import Asked, ask
from simverify.emitted.serving.server import Endpoint
from simverify.emitted.settings import OutputSettings

__all__ = [
    "Asked",
    "Begun",
    "Endpoint",
    "Law",
    "Mask",
    "OutputSettings",
    "Request",
    "Source",
    "ask",
    "audit_outputs",
    "contradictions",
    "read_requests",
    "request_iv",
]
