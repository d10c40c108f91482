#!/usr/bin/env bash
# A greedy request that is verified beside a sampled one gets its least likely tokens.
#
# Library:  tpu-inference 0.32.0 with jax and jaxlib 0.10.2, Python 3.11, CPU, Linux. Two of its
#           files are loaded without the rest, which needs vLLM and a TPU.
# Guess:    in speculative decoding a request at temperature 0 emits its target's likeliest tokens,
#           whatever the other requests of the batch do.
# Seen:     a batch whose requests are all greedy takes a different code path. In any other batch a
#           greedy request has temperature -1 (runner/input_batch.py:413), and
#           layers/jax/sample/rejection_sampler.py:_compute_probs divides its logits by that:
#           their order is reversed. sample(), which draws the bonus token, handles -1 and takes
#           the argmax. Probabilities computed for each request from the logits 2, 1, 0:
#             temperature -1: 0.090 0.245 0.665
#             temperature 1: 0.665 0.245 0.090
#           So a greedy request whose likeliest token was drafted keeps it with probability 0.090,
#           and emits the least likely one with 0.665. Nothing is raised or warned of.
# Matters:  a request's tokens depend on who is in its batch. simverify audit tpu-inference
#           --batch-mix greedy fails.
#
# Exits 0 while this is so, 1 when a greedy request is judged by its likeliest token.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2
venv/bin/pip install --quiet --no-deps tpu-inference==0.32.0

cat > greedy.py <<'PY'
import importlib.util
import sys
import types
from importlib.metadata import distribution
from pathlib import Path

import jax.numpy as jnp

top = Path(distribution("tpu-inference").locate_file("tpu_inference"))


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, top / path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


layers = "tpu_inference.layers"
metadata = types.ModuleType(f"{layers}.jax.sample.sampling_metadata")
metadata.TPUSupportedSamplingMetadata = types.SimpleNamespace
sharding = types.ModuleType(f"{layers}.common.sharding")
sharding.ShardingAxisName = types.SimpleNamespace(ATTN_DATA="data")
for module in (metadata, sharding):
    sys.modules[module.__name__] = module
load(f"{layers}.common.binary_search", "layers/common/binary_search.py")
sampler = load(f"{layers}.jax.sample.rejection_sampler", "layers/jax/sample/rejection_sampler.py")

settings = types.SimpleNamespace(
    temperature=jnp.array([-1.0, 1.0]), top_k=jnp.zeros(2, int), top_p=jnp.ones(2)
)
logits = jnp.array([[2.0, 1.0, 0.0]] * 2)
rows = sampler._compute_probs(logits, jnp.array([1, 1]), settings)
for temperature, row in zip((-1, 1), rows.tolist()):
    print(f"temperature {temperature}:", *(f"{p:.3f}" for p in row))
greedy, sampled = rows.tolist()
runner = (top / "runner/input_batch.py").read_text()
reversed_ = all(abs(a - b) < 1e-6 for a, b in zip(greedy, sampled[::-1]))
sys.exit(0 if reversed_ and "temperature_cpu[req_index] = -1.0" in runner else 1)
PY

if venv/bin/python greedy.py; then
    exit 0
fi
echo "greedy requests are judged otherwise: tpu-inference no longer behaves as stated" >&2
exit 1
