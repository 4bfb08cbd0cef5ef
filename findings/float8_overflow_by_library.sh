#!/usr/bin/env bash
# Versions: torch==2.13.0, ml_dtypes==0.6.0, onnx==1.23.2, numpy==2.2.6 (run with Python 3.11 on Linux,
# x86-64).
#
# Behaviour: Converting a number above the range to an 8-bit float gives different results in different
# libraries, and in PyTorch in its two formats. 1,000,000 becomes 448 in float8_e4m3fn and infinity in
# float8_e5m2 with PyTorch; nan and infinity with ml_dtypes (JAX, TensorFlow); 448 and 57,344 with ONNX's
# reference Cast. 0 in float8_e8m0fnu, the type of block scales, becomes 2**-127 with PyTorch and nan with
# ml_dtypes.
#
# Output seen:
#     1,000,000 in float8_e4m3fn PyTorch: 448.0 ml_dtypes: nan ONNX reference: 448.0
#     1,000,000 in float8_e5m2 PyTorch: inf ml_dtypes: inf ONNX reference: 57344.0
#     0 in float8_e8m0fnu PyTorch: 5.877471754111438e-39 ml_dtypes: nan
#
# Why it matters: A quantized checkpoint converted in another framework gets nan where values were
# clipped, and a block whose scale is zero becomes nan as a whole.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="torch==2.13.0 ml_dtypes==0.6.0 onnx==1.23.2 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import ml_dtypes
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


def by_torch(value, name):
    return torch.tensor([value]).to(getattr(torch, name)).float().item()


def by_ml_dtypes(value, name):
    return float(np.array([value], dtype=np.float32).astype(getattr(ml_dtypes, name)).astype(np.float32)[0])


def by_onnx(value, kind):
    cast = helper.make_node('Cast', ['x'], ['narrow'], to=kind)
    back = helper.make_node('Cast', ['narrow'], ['y'], to=TensorProto.FLOAT)
    x = helper.make_tensor_value_info('x', TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info('y', TensorProto.FLOAT, [1])
    graph = helper.make_graph([cast, back], 'cast', [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 19)])
    return float(ReferenceEvaluator(model).run(None, {'x': np.array([value], dtype=np.float32)})[0][0])


found = []
for name, kind in (('float8_e4m3fn', TensorProto.FLOAT8E4M3FN), ('float8_e5m2', TensorProto.FLOAT8E5M2)):
    row = [by_torch(1e6, name), by_ml_dtypes(1e6, name), by_onnx(1e6, kind)]
    found.extend(row)
    print('1,000,000 in', name, 'PyTorch:', row[0], 'ml_dtypes:', row[1], 'ONNX reference:', row[2])
row = [by_torch(0.0, 'float8_e8m0fnu'), by_ml_dtypes(0.0, 'float8_e8m0fnu')]
found.extend(row)
print('0 in float8_e8m0fnu', 'PyTorch:', row[0], 'ml_dtypes:', row[1])
expected = [448.0, np.nan, 448.0, np.inf, np.inf, 57344.0, 2.0**-127, np.nan]
if not np.array_equal(found, expected, equal_nan=True):
    sys.exit('Changed: the conversions are no longer as the comments say.')
CODE
