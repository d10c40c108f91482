"""vLLM-Ascend: block verification, as :mod:`.ascend` has its token verification.

At the latest commit ``rejection_sample`` never asks for the residual of block verification:
``ascend-block`` is that. ``ascend-block-fix`` is the repair of April 2026, which asks.
"""

from simverify.engines.servers.vllm.ascend import LATEST, engine

RULE, REPAIR = "rejection_random_sample_block_verify_pytorch", "2f4d55e"
ENGINES = (
    engine("ascend-block", RULE, LATEST),
    engine("ascend-block-fix", RULE, REPAIR, block_residual=True),
)
