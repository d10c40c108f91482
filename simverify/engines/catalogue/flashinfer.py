"""FlashInfer: ``sampling.chain_speculative_sampling``, a kernel in CUDA that runs on a GPU alone.

It draws from its own Philox streams, whose seed it takes from torch's generator of the GPU; the
package is imported whole, as it compiles or fetches the kernel that it calls.
"""

from pathlib import Path
from typing import Any

from simverify.engines.adapt import Signature, VerifyFunction, as_verify
from simverify.engines.base import BLOCK_DEFAULTS, Engine
from simverify.engines.extract import import_package

FLASHINFER_FUNCTION = "chain_speculative_sampling"


def flashinfer_chain_sampling(function: Any, device: str = "cuda") -> VerifyFunction:
    """Return the function as a ``verify`` callable on this device."""

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        # The draft comes first; two counts that are no part of the law come behind the tokens.
        return function(draft, draft_tokens.int(), target)[0]

    return as_verify(sample, Signature(arrays="torch", dtype="float32", device=device), "padded")


def load_flashinfer(path: Path) -> VerifyFunction:
    """Return the function as a ``verify`` callable on the GPU."""
    library = import_package(path.parent, [path.name])
    library.sampling.get_sampling_module()  # compiles it, a minute the first time: not while timed
    return flashinfer_chain_sampling(getattr(library.sampling, FLASHINFER_FUNCTION))


ENGINES = (
    Engine(
        name="flashinfer",
        package="flashinfer",
        source="sampling.py",
        function=FLASHINFER_FUNCTION,
        **{**BLOCK_DEFAULTS, "tier": "sampled"},
        loader=load_flashinfer,
        distribution="flashinfer-python",
        versions=">=0.7,<0.8",
        parameters=("draft_probs", "draft_token_ids", "target_probs"),
        whole=True,
        gpu=True,
    ),
)
