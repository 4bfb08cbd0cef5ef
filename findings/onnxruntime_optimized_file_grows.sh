#!/usr/bin/env bash
# Versions: onnxruntime==1.31.1, onnx==1.23.2, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: The file that ONNX Runtime writes to optimized_model_filepath can be many thousand times as
# large as the model. A ConstantOfShape of a million ones is a few bytes in the model; constant folding
# computes it once, and the optimized file stores all its values.
#
# Output seen:
#     bytes of the model: 176
#     bytes of the optimized model: 4000301
#
# Why it matters: "Optimize offline and ship the result" is common advice for a short start. A model with
# masks or position tables made by such operations then ships them written out, and they are read at each
# start.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="onnxruntime==1.31.1 onnx==1.23.2 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import os
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

shape = numpy_helper.from_array(np.array([1000, 1000], dtype=np.int64), 'shape')
one = helper.make_tensor('one', TensorProto.FLOAT, [1], [1.0])
graph = helper.make_graph(
    [
        helper.make_node('ConstantOfShape', ['shape'], ['mask'], value=one),
        helper.make_node('Add', ['x', 'mask'], ['y']),
    ],
    'masked',
    [helper.make_tensor_value_info('x', TensorProto.FLOAT, [1000, 1000])],
    [helper.make_tensor_value_info('y', TensorProto.FLOAT, [1000, 1000])],
    [shape],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 19)])
model.ir_version = 9
data = model.SerializeToString()
options = onnxruntime.SessionOptions()
options.optimized_model_filepath = 'optimized.onnx'
options.log_severity_level = 3
onnxruntime.InferenceSession(data, options, providers=['CPUExecutionProvider'])
size = os.path.getsize('optimized.onnx')
print('bytes of the model:', len(data))
print('bytes of the optimized model:', size)
if len(data) > 1000 or size < 4_000_000:
    sys.exit('Changed: the constant is no longer written out.')
CODE
