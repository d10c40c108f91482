"""Audit of tokens that some other engine emitted: a file or an endpoint, and the target alone.

``reading`` says what a file or an answer holds, ``serving`` asks a server. ``rescoring`` gives
tokens their target rows, ``judging`` keeps sums and tests them as ``settings`` say; ``begun`` does
so as answers come, ``run`` is the whole. ``against`` compares two engines without a target.
"""

__simverify_role__ = "machinery"


from simverify.served.collect import CollectedAnswers, collect_answers
from simverify.served.distribution import Law, Mask
from simverify.served.judge import OutputSettings
from simverify.served.requests import Request, check_request, contradictions, read_requests
from simverify.served.run import RequestSource, StreamingEvidence, audit_outputs
from simverify.served.server import Endpoint

__all__ = [
    "CollectedAnswers",
    "Endpoint",
    "Law",
    "Mask",
    "OutputSettings",
    "Request",
    "RequestSource",
    "StreamingEvidence",
    "audit_outputs",
    "check_request",
    "collect_answers",
    "contradictions",
    "read_requests",
]
