"""FlashInfer: ``sampling.chain_speculative_sampling``, a kernel in CUDA that runs on a GPU alone.

It draws from its own Philox streams, whose seed it takes from torch's generator of the GPU; the
package is imported whole, as it compiles or fetches the kernel that it calls.
"""

from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Signature, Verify, as_verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.loading.packages import import_package

FUNCTION = "chain_speculative_sampling"


def chain_sampling(function: Any, device: str = "cuda") -> Verify:
    """Return the function as a ``verify`` callable on this device."""

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        # The draft comes first; two counts that are no part of the law come behind the tokens.
        return function(draft, draft_tokens.int(), target)[0]

    return as_verify(sample, Signature(arrays="torch", dtype="float32", device=device), "padded")


def load(path: Path) -> Verify:
    """Return the function as a ``verify`` callable on the GPU."""
    library = import_package(path.parent, [path.name])
    library.sampling.get_sampling_module()  # compiles it, a minute the first time: not while timed
    return chain_sampling(getattr(library.sampling, FUNCTION))


ENGINES = (
    Engine(
        name="flashinfer",
        package="flashinfer",
        source="sampling.py",
        function=FUNCTION,
        **{**BLOCK, "tier": "sampled"},
        loader=load,
        distribution="flashinfer-python",
        versions=">=0.7,<0.8",
        parameters=("draft_probs", "draft_token_ids", "target_probs"),
        whole=True,
        gpu=True,
    ),
)
