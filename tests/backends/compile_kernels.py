"""Compile the fused kernels to machine code for compute capability 9.0; no GPU is needed.

Prints the name of each, for bfloat16 rows as logits and for float64 rows as probabilities.
"""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from simverify.backends import kernels

SIZES = {"GAMMA": 8, "G": 16, "V": 152_064, "TILES": 19, "T": 32, "TILE": 8192, "BLOCK": 256}
FLOAT64 = ("uniforms", "weights", "weight_out", "residuals", "residual_out", "plains", "plain_out")


def types(rows, floats):
    """Types of the kernels' arguments; what is not named is an int32."""
    named = dict.fromkeys(("target", "draft", "rows"), rows)
    named |= dict.fromkeys(
        ("most", "total", "peaks", "scales", "most_out", "sum_out", "peak_out", "scale_out"), floats
    )
    named |= dict.fromkeys((*FLOAT64, "out"), "*fp64")
    named |= dict.fromkeys(("tokens", "tokens_out", "tau_out"), "*i64")
    named |= {"states": "*i32", "state_out": "*i32", "seed": "u64", "first_trial": "i64"}
    return named


def build(kernel, rows, floats, ways):
    """Compile one kernel; raises what Triton raises."""
    constants = {k: v for k, v in {**SIZES, **ways}.items() if k in kernel.arg_names}
    signature = {
        name: "constexpr" if name in constants else types(rows, floats).get(name, "i32")
        for name in kernel.arg_names
    }
    source = ASTSource(kernel, signature, constants)
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
    assert built.asm["cubin"]
    print(kernel.__name__)


for rows, floats, ways in (
    ("*bf16", "*fp32", {"LOGITS": True, "BLOCK_RULE": True, "FLOAT": tl.float32}),
    ("*fp64", "*fp64", {"LOGITS": False, "BLOCK_RULE": False, "FLOAT": tl.float64}),
):
    for kernel in (
        kernels.fill_uniforms, kernels.sum_tiles, kernels.weigh, kernels.sum_laws, kernels.draw
    ):  # fmt: skip
        build(kernel, rows, floats, ways)
