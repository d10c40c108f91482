"""How far each fault of the catalogue is from the target, on one instance.

The figures say which faults an audit must be sharp for, not how bad they are elsewhere: the
spread over instances is 5 to 10 times.
"""

COMPACT_TV = {
    "residual-row-zero": 0.124373,
    "wrong-bonus-row": 0.040461,
    "one-hot-residual": 0.101808,
    "softmax-residual": 0.159492,
    "target-residual": 0.145689,
    "unnormalised-residual": 0.055363,
    "floored-residual(1e-05)": 0.000022,
    "top-k-residual(1)": 0.094907,
    "count-all-accepts": 0.146016,
    "inverted-ratio": 0.402860,
    "double-chance": 0.078740,
    "zero-mass-accept": 0.0,
    "scaled-acceptance(1.1)": 0.052604,
    "scaled-acceptance(1.01)": 0.005182,
    "scaled-acceptance(1.0001)": 0.000052,
    "swapped-rows": 0.257928,
    "previous-row": 0.180411,
    "next-row": 0.237269,
    "target-temperature(0.9)": 0.024625,
    "naive-block": 0.290975,
    "naive-block-stealth": 0.049493,
    "greedy-no-state": 0.090741,
    "reused-uniform": 0.081349,
    "one-uniform": 0.074074,
    "shared-noise": 0.032201,
    "repeated-stream": 0.167927,
    "argmax-draft-soft-q": 0.486111,
    "truncated-draft-soft-q": 0.139773,
    "rounded-q": 0.000543,
    "one-sided-penalty": 0.033538,
    "draft-temperature(0.9)": 0.016816,
    "lenient(0.9)": 0.058556,
    "typical-acceptance": 0.475694,
    "draft-leak(0.01)": 0.003272,
}
"""TV distance from the target on the compact model at gamma 3, to 5e-7, by fault: of one
call's tokens completed with target samples (gamma+1 in all); for repeated-stream, which has
state, of the first gamma+1 tokens from ``reset``. seeded-per-call and seeded-per-request are
missing: their output depends on numpy's stream, and a rule without randomness is far off
whatever the seed. So are the faults of whole batches."""
