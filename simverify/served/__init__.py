"""Audits of engines by their answers: from files or servers, against a target or each other.

``run`` audits emitted tokens against a target: ``requests`` reads them, ``collect`` asks a server
(``client``, ``server``), ``rescore`` computes the target's rows, ``evidence`` and ``judge`` test.
``two_sample`` compares two engines without a target (``answers``), ``matrix`` checks each
parameter of a request, ``triage`` explains greedy answers that differ, ``watch`` and ``monitor``
watch a server.
"""

__simverify_role__ = "machinery"


from simverify.models.distribution import Law, Mask
from simverify.served.collect import CollectedAnswers, collect_answers
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
