#!/usr/bin/env bash
# Versions: onnx==1.23.2, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: onnx.save_model(…, save_as_external_data=True, location=…) refuses to write over a file of
# weights, but it looks for that file in the current folder and writes it beside the model. With the model
# in another folder, saving it three times under the same names leaves its weights in the file three
# times, of which the model uses the last; and a file in the current folder that only has the same name
# stops the save of a model elsewhere.
#
# Output seen:
#     three times into another folder, bytes of the weights: [1048576, 2097152, 3145728]
#     bytes of weights in the loaded model: 1048576
#     into an empty folder, with another model.data in the current one: refused
#
# Why it matters: A script that exports into one folder again and again fills the disk and ships the dead
# copies with the model. The error that is meant to prevent it appears only for those who change into that
# folder first.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="onnx==1.23.2 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

weights = numpy_helper.from_array(np.ones((512, 512), dtype=np.float32), 'W')
graph = helper.make_graph(
    [helper.make_node('MatMul', ['x', 'W'], ['y'])],
    'layer',
    [helper.make_tensor_value_info('x', TensorProto.FLOAT, [1, 512])],
    [helper.make_tensor_value_info('y', TensorProto.FLOAT, [1, 512])],
    [weights],
)
model = helper.make_model(graph)


def save(folder):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    path = os.path.join(folder, 'model.onnx')
    try:
        onnx.save_model(copy, path, save_as_external_data=True, location='model.data')
    except FileExistsError:
        return 'refused'
    return os.path.getsize(os.path.join(folder, 'model.data'))


os.mkdir('out')
os.mkdir('new')
found = [save('out'), save('out'), save('out')]
print('three times into another folder, bytes of the weights:', found)
loaded = onnx.load('out/model.onnx')
print('bytes of weights in the loaded model:', len(loaded.graph.initializer[0].raw_data))
with open('model.data', 'w') as file:
    file.write('something else')
found.append(save('new'))
print('into an empty folder, with another model.data in the current one:', found[-1])
one = 512 * 512 * 4
if found != [one, 2 * one, 3 * one, 'refused']:
    sys.exit('Changed: what saving again does is no longer as the comments say.')
CODE
