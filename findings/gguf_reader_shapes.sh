#!/usr/bin/env bash
# Versions: gguf==0.19.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: GGUFReader gives a tensor two shapes that disagree: `shape` is in the order of the file,
# which is the reverse of NumPy's, and `data.shape` is in NumPy's order. For bfloat16 `data` is an array
# of single bytes with a last dimension twice as long, although float16 beside it is an array of numbers.
# Neither raises.
#
# Output seen:
#     half shape [64, 2] data.shape [2, 64] float16 n_elements 128
#     brain shape [64, 2] data.shape [2, 128] uint8 n_elements 128
#
# Why it matters: A tool that sums `data.nbytes` is right, one that counts `data.size` counts bfloat16
# weights twice, and one that plans a layer from `shape` takes the inputs for the outputs. Use
# gguf.quants.dequantize and `n_elements`.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="gguf==0.19.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import gguf
import numpy as np

weights = np.arange(2 * 64, dtype=np.float32).reshape(2, 64)
writer = gguf.GGUFWriter('model.gguf', 'test')
writer.add_tensor('half', weights.astype(np.float16))
kind = gguf.GGMLQuantizationType.BF16
writer.add_tensor('brain', gguf.quants.quantize(weights, kind), raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

found = {}
for tensor in gguf.GGUFReader('model.gguf').tensors:
    shape = [int(size) for size in tensor.shape]
    found[tensor.name] = (shape, list(tensor.data.shape), str(tensor.data.dtype), int(tensor.n_elements))
    print(tensor.name, 'shape', shape, 'data.shape', list(tensor.data.shape), tensor.data.dtype,
          'n_elements', tensor.n_elements)
expected = {
    'half': ([64, 2], [2, 64], 'float16', 128),
    'brain': ([64, 2], [2, 128], 'uint8', 128),
}
if found != expected:
    sys.exit('Changed: the shapes or types of the reader are no longer as the comments say.')
CODE
