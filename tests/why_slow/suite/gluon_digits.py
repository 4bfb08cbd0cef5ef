"""A hybridized network of MXNet's gluon on drawn digits."""

import os
import tempfile

import mxnet as mx
import numpy as onp
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

batch_size, epochs, learning_rate = 128, 60, 0.05
folder = tempfile.mkdtemp(prefix='digits-')

SEGMENTS = ['1110111', '0010010', '1011101', '1011011', '0111010', '1101011', '1101111', '1010010', '1111111', '1111011']


def draw(digit, canvas):
    top, left_up, right_up, middle, left_down, right_down, bottom = (int(s) for s in SEGMENTS[digit])
    canvas[2:4, 4:12] += top
    canvas[7:9, 4:12] += middle
    canvas[12:14, 4:12] += bottom
    canvas[2:8, 3:5] += left_up
    canvas[2:8, 11:13] += right_up
    canvas[8:14, 3:5] += left_down
    canvas[8:14, 11:13] += right_down


def make(count, seed):
    rng = onp.random.RandomState(seed)
    pictures = rng.normal(0, 0.4, (count, 1, 16, 16)).astype('float32')
    digits = rng.randint(0, 10, count)
    for picture, digit in zip(pictures, digits):
        draw(digit, picture[0])
    return pictures, digits.astype('float32')


def build():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(24, 3, padding=1, activation='relu'),
            nn.Conv2D(32, 3, padding=1, activation='relu'),
            nn.MaxPool2D(),
            nn.Flatten(),
            nn.Dense(128, activation='relu'),
            nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True)
    return net


def accuracy(net, data):
    metric = mx.metric.Accuracy()
    for pictures, digits in data:
        metric.update(digits, net(pictures))
    return metric.get()[1]


mx.random.seed(0)
train = mx.io.NDArrayIter(*make(6400, 0), batch_size, shuffle=True)
test = [(nd.array(p), nd.array(d)) for p, d in [make(256, 1)]]
net = build()
trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': learning_rate, 'momentum': 0.9})
cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
cross_entropy.hybridize()

for epoch in range(epochs):
    total = nd.zeros(1)
    train.reset()
    for batch in train:
        pictures, digits = batch.data[0], batch.label[0]
        with autograd.record():
            loss = cross_entropy(net(pictures), digits)
        loss.backward()
        trainer.step(batch_size)
        total += loss.mean()
        nd.waitall()
    print(f'epoch {epoch} loss {total.asscalar() / 50:.4f} accuracy {accuracy(net, test):.3f}', flush=True)
    net.save_parameters(os.path.join(folder, 'digits.params'))
