#!/usr/bin/env bash
# Two unseeded random nodes of one ONNX graph give the same numbers, shifted by a constant.
#
# Library:  onnxruntime 1.32.0, onnx 1.23.2, Python 3.11, CPU, Linux.
# Guess:    nodes without a seed draw independently of each other: the specification says that a
#           seed is generated for each.
# Seen:     two RandomUniform nodes of one graph, without seeds, in three processes. The difference
#           of their numbers, modulo 1, is the same in each process:
#             first number 0.00001, second 0.13154, third 0.75561, fourth 0.45865
#           The first numbers agree to four digits. That fits seeds that differ by 1, and
#           a linear generator: x = 16807 x modulo 2^31 - 1.
# Matters:  a graph that draws an accept number and a token, or two proposals, with two nodes has
#           numbers of which one follows from the other. Acceptance and tokens look right one by
#           one. Give every node a seed of its own that is far from the others, or draw outside.
#
# Exits 0 while this is so, 1 when the differences vary.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet onnxruntime==1.32.0 onnx==1.23.2

cat > nodes.py <<'PY'
import onnxruntime
from onnx import TensorProto, helper

names = ["first", "second"]
nodes = [helper.make_node("RandomUniform", [], [name], shape=[4]) for name in names]
outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names]
graph = helper.make_graph(nodes, "two", [], outputs)
opset = helper.make_opsetid("", 17)
model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
session = onnxruntime.InferenceSession(
    model.SerializeToString(), providers=["CPUExecutionProvider"]
)
first, second = (numbers.astype(float) for numbers in session.run(None, {}))
print(" ".join(f"{x:.5f}" for x in (second - first) % 1), f"{first[1]:.5f}", sep=" | ")
PY

for _ in 1 2 3; do
    venv/bin/python nodes.py
done > seen.txt
echo "differences modulo 1 | second number of the first node"
cat seen.txt
differences=$(cut -d'|' -f1 seen.txt | sort -u | wc -l)
numbers=$(cut -d'|' -f2 seen.txt | sort -u | wc -l)
if [ "$differences" = 1 ] && [ "$numbers" = 3 ]; then
    exit 0
fi
echo "nodes differ by no constant: onnxruntime no longer behaves as stated" >&2
exit 1
