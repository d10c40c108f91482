"""The result document of a run: what tools may rely on, with one version number for all of it.

Frozen msgspec structs; ``schema.json`` is generated from them. The same seed and inputs
give the same bytes but for ``meta``. A number that does not exist is null, never NaN.
"""

__simverify_role__ = "machinery"


from simverify.results.audit import *  # noqa: F403
from simverify.results.common import *  # noqa: F403
from simverify.results.common import Run
from simverify.results.compare import *  # noqa: F403
from simverify.results.samplers import *  # noqa: F403
from simverify.results.served import *  # noqa: F403
from simverify.results.surveys import *  # noqa: F403

Document = Run
"""What a result file holds; its field ``command`` says of which kind."""
