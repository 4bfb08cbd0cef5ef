#!/usr/bin/env bash
# Versions: safetensors==0.8.0, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: safetensors.numpy.save_file of release 0.8.0 writes the memory of an array and not its values
# in the order of its shape. A transposed array, or one made by np.asfortranarray, is stored under the
# right shape with its elements in the wrong places. There is no error and no warning. Release 0.7.0, run
# beside it, stores the values.
#
# Output seen:
#     0.8.0 transposed same shape: True same values: False
#     0.8.0 fortran same shape: True same values: False
#     0.8.0 contiguous same shape: True same values: True
#     0.7.0 transposed same shape: True same values: True
#     0.7.0 fortran same shape: True same values: True
#     0.7.0 contiguous same shape: True same values: True
#
# Why it matters: Weights that were transposed on the way into a checkpoint (from layouts of Keras, JAX or
# a GGUF file, say) load without complaint and are wrong. Call np.ascontiguousarray before saving, and
# compare after loading.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="safetensors==0.8.0 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
CODE='
import sys
import tempfile
import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file
weights = np.arange(6, dtype=np.float32).reshape(2, 3)
path = tempfile.mkdtemp() + "/weights.safetensors"
wanted = {"transposed": weights.T, "fortran": np.asfortranarray(weights), "contiguous": weights}
save_file(wanted, path)
loaded = load_file(path)
found = ""
for name in wanted:
    same_shape = loaded[name].shape == wanted[name].shape
    same_values = np.array_equal(loaded[name], wanted[name])
    print(safetensors.__version__, name, "same shape:", same_shape, "same values:", same_values)
    found += f"{same_shape} {same_values}; "
expected = {
    "0.8.0": "True False; True False; True True; ",
    "0.7.0": "True True; True True; True True; ",
}
if found != expected[safetensors.__version__]:
    sys.exit("Changed: the stored values are no longer as the comments say.")
'
TMPDIR="$folder" "$folder/venv/bin/python" -c "$CODE" || exit 1
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check safetensors==0.7.0 ||
    { echo "pip could not install safetensors==0.7.0: it is gone from the index, or there is no network."; exit 1; }
TMPDIR="$folder" "$folder/venv/bin/python" -c "$CODE"
