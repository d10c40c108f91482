"""vLLM, V1 runner on a CPU: the same ``rejection_sample`` over the C++ kernels of its wheel.

The random numbers are torch's, drawn before the kernels, which no path is followed through. Of the
wheel's libraries the one that any x86 runs is loaded, and called by the wheel's own wrappers.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from simverify.engines.adapting.adapt import Verify
from simverify.engines.loading.pieces import load_function, load_pieces
from simverify.engines.loading.stubs import torch
from simverify.engines.servers.vllm.v1 import ENGINES as TRITON
from simverify.engines.servers.vllm.v1 import FUNCTION, WARMUPS, sampled_by
from simverify.engines.tiles import dispatcher, tl, triton

LIBRARY, WRAPPERS = "_C_AVX2.abi3.so", "utils/cpu_triton_utils.py"
KERNELS = ("rejection_random_sample_kernel", "sample_recovered_tokens_kernel")


class Kernel:
    """A wrapper of a C++ kernel, launched as a kernel of Triton is."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function, self.arg_names = function, tuple(inspect.signature(function).parameters)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return self.function


def load(path: Path) -> Verify:
    """Return the function with the C++ kernels, as a ``verify`` callable."""
    package = path.parents[2]
    torch.ops.load_library(str(package / LIBRARY))
    wrappers = load_pieces(package / WRAPPERS, [f"_{name}_impl" for name in KERNELS])
    kernels = {name: Kernel(getattr(wrappers, f"_{name}_impl")) for name in KERNELS}
    given: dict[str, Any] = {
        "tl": tl,
        "triton": triton,
        "triton_kernel_dispatcher_with_warmup": dispatcher,
        "rejection_greedy_sample_kernel": None,
        **kernels,
        **WARMUPS,
    }
    return sampled_by(load_function(path, FUNCTION, **given), "ragged,stale,padded,one-hot,seeds")


NOTE = (
    "the function alone; what the server hands it is divided by a temperature that nobody wrote: "
    "docs/reference/findings-servers.md"
)

ENGINES = tuple(
    replace(engine, name="vllm-v1-cpu", tier="sampled", loader=load, note=NOTE, gamma=2)
    for engine in TRITON
)
