#!/usr/bin/env bash
# Versions: onnx==1.23.2, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: onnx.helper.make_tensor without raw=True stores narrow types as protobuf integers of variable
# length, so the size of a tensor depends on its values: an int8 of -1 takes ten bytes, an int8 of 1 takes
# one, a float16 of 1.0 takes two and of -1.0 three. float32 always takes four. For negative int8 the
# "compressed" tensor is two and a half times as large as float32.
#
# Output seen:
#     int8      1:  1 bytes each by make_tensor, 1 by from_array
#     int8     -1: 10 bytes each by make_tensor, 1 by from_array
#     float16   1:  2 bytes each by make_tensor, 2 by from_array
#     float16  -1:  3 bytes each by make_tensor, 2 by from_array
#     float32   1:  4 bytes each by make_tensor, 4 by from_array
#     float32  -1:  4 bytes each by make_tensor, 4 by from_array
#
# Why it matters: Whoever quantizes weights to int8 and writes them with this helper finds a larger file
# than before. With raw=True or onnx.numpy_helper.from_array each int8 takes one byte.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="onnx==1.23.2 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

count = 10_000
found = {}
for name, kind in (('int8', TensorProto.INT8), ('float16', TensorProto.FLOAT16), ('float32', TensorProto.FLOAT)):
    for value in (1, -1):
        values = np.full(count, value, dtype=name)
        tensor = helper.make_tensor('w', kind, [count], values)
        packed = numpy_helper.from_array(values, 'w')
        by_helper = len(tensor.SerializeToString()) // count
        by_array = len(packed.SerializeToString()) // count
        found[name, value] = by_helper
        print(f'{name:8} {value:2}: {by_helper:2} bytes each by make_tensor, {by_array} by from_array')
expected = {
    ('int8', 1): 1, ('int8', -1): 10,
    ('float16', 1): 2, ('float16', -1): 3,
    ('float32', 1): 4, ('float32', -1): 4,
}
if found != expected:
    sys.exit('Changed: the bytes of make_tensor are no longer as the comments say.')
CODE
