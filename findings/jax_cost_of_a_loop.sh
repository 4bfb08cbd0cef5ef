#!/usr/bin/env bash
# Versions: jax==0.10.2, jaxlib==0.10.2, numpy==2.2.6 (run with Python 3.11 on Linux, x86-64).
#
# Behaviour: cost_analysis() of a compiled JAX function counts the body of a loop once. A scan, or a
# fori_loop with a constant number of steps, of 100 matrix products reports the operations of one product
# (and two for the loop's counter).
#
# Output seen:
#     once flops: 65536.0
#     scanned flops: 65538.0
#     looped flops: 65538.0
#
# Why it matters: A utilization (MFU) computed from this number is too small by the number of layers,
# where the layers are scanned over, as the usual large models in JAX do, or by the number of accumulated
# batches.

set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

packages="jax==0.10.2 jaxlib==0.10.2 numpy==2.2.6"
python3 -m venv "$folder/venv" || { echo "python3 could not make an environment."; exit 1; }
"$folder/venv/bin/pip" install --quiet --quiet --no-compile --disable-pip-version-check $packages ||
    { echo "pip could not install $packages: one is gone from the index, or there is no network."; exit 1; }

cd "$folder" || exit 1
"$folder/venv/bin/python" -W ignore - <<'CODE'
import sys

import jax
import jax.numpy as jnp

x = jnp.ones((32, 32))


def once(x):
    return x @ x


def scanned(x):
    def body(carry, _):
        return carry @ x, None
    return jax.lax.scan(body, x, None, length=100)[0]


def looped(x):
    def body(step, carry):
        return carry @ x
    return jax.lax.fori_loop(0, 100, body, x)


flops = {}
for function in (once, scanned, looped):
    compiled = jax.jit(function).lower(x).compile()
    flops[function.__name__] = compiled.cost_analysis()['flops']
    print(function.__name__, 'flops:', flops[function.__name__])
if flops['once'] != 2 * 32**3 or flops['scanned'] > 1.1 * flops['once'] or flops['looped'] > 1.1 * flops['once']:
    sys.exit('Changed: the loop is no longer counted once.')
CODE
