#!/usr/bin/env bash
# Two ONNX Runtime sessions without a seed draw the same tokens, call by call.
#
# Library:  onnxruntime 1.32.0, onnx 1.23.2, numpy 2.4.6, Python 3.11, CPU, Linux.
# Guess:    a Multinomial node without the attribute seed is seeded from the system, so that two
#           sessions of one process draw different tokens.
# Seen:     both draw the same, and another process draws something else. Eight tokens of 1,000 equal
#           logits, in two calls:
#             first session: [535, 226, 499, 819, 309, 371, 886, 134] then [185, 997, 633, ...]
#             second session: [535, 226, 499, 819, 309, 371, 886, 134] then [185, 997, 633, ...]
# Matters:  a server that makes a session a worker, or a draft and a target in one process, draws
#           both from equal streams: answers repeat each other, and a verifier's numbers are its
#           draft's.
#
# Exits 0 while this is so, 1 when the sessions differ.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6

cat > draw.py <<'PY'
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

node = helper.make_node("Multinomial", ["logits"], ["tokens"], sample_size=8, dtype=TensorProto.INT64)
graph = helper.make_graph(
    [node],
    "draw",
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000])],
    [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, 8])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
data = model.SerializeToString()
first, second = (ort.InferenceSession(data, providers=["CPUExecutionProvider"]) for _ in range(2))
row = {"logits": np.zeros((1, 1000), np.float32)}
drawn = [[s.run(None, row)[0][0].tolist() for _ in range(2)] for s in (first, second)]
for name, (one, two) in zip(("first", "second"), drawn, strict=True):
    print(f"{name} session: {one} then {two}")
same = drawn[0] == drawn[1] and drawn[0][0] != drawn[0][1]
print("the same" if same else "different")
sys.exit(0 if same else 1)
PY

venv/bin/python draw.py && exit 0
echo "unseeded sessions differ: onnxruntime no longer behaves as stated" >&2
exit 1
