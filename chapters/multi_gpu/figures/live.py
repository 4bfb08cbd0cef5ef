"""The figures of this topic that a reader can turn."""

from live_figures import Figure, Input, Measured, Output


def scaling(k, parameters, work, batch, shared, speed, bandwidth, latency, messages, overlap):
    """One step of data-parallel training on ``k`` devices, in seconds; the links share the load.

    Args:
        parameters: float32 numbers to add up.
        work: operations of the forward pass for an example; the backward pass takes twice as many.
        batch: examples, on all devices if ``shared``, else on each.
        speed: operations per second that a device reaches.
        bandwidth, latency: of a link, in bytes per second and seconds.
        messages: buckets.
        overlap: 1 if buckets are sent during the backward pass; the last one never is.
    """
    alone = 3 * work * batch / speed
    compute = alone / k ** shared
    wire = 2 * (k - 1) * (messages * latency + 4 * parameters / k / bandwidth)
    hidden = overlap * min(2 / 3 * compute, wire * (1 - 1 / messages))
    step = compute + wire - hidden
    return {'compute': compute, 'wire': wire, 'step': step, 'speedup': k * compute / step,
            'efficiency': compute / step, 'half': compute / step - 0.5}


LIVE = {
    'scaling': Figure(
        'A step of data-parallel training', scaling,
        (Input('k', 'Devices', '', 1, 64, 8, whole=True),
         Input('parameters', 'Parameters', 'million', 0.001, 100_000, 11.172, more=True),
         Input('work', 'Forward pass of one example', 'GFLOP', 0.0001, 100_000, 0.9116, more=True),
         Input('batch', 'Batch', '', 1, 65_536, 256, whole=True),
         Input('shared', 'With more devices', start=1, more=True, choices=(
             ('the batch stays and is split', 1), ('each device keeps this batch', 0))),
         Input('speed', 'A device computes', 'TFLOP/s', 0.01, 1000, 5, more=True),
         Input('bandwidth', 'Bandwidth of a link', 'GB/s', 0.01, 1000, 12),
         Input('latency', 'Latency of a message', 'µs', 0.1, 10_000, 20),
         Input('messages', 'Buckets in a step', '', 1, 100, 3, whole=True),
         Input('overlap', 'Overlap with the backward pass', start=0, choices=(('no', 0), ('yes', 1)))),
        (Output('compute', 'compute', 's'), Output('wire', 'wire', 's'), Output('step', 'step', 's'),
         Output('speedup', 'speed-up'), Output('efficiency', 'busy', '%')),
        ({'max': 'speedup', 'text': 'The largest speed-up is {speedup}, with {k} devices.',
          'end': 'The speed-up still grows at {k} devices, where it is {speedup}.',
          'one': 'No number of devices beats one.'},
         {'last': 'half', 'text': 'Up to {k} devices, each computes for at least half of its time.',
          'end': 'Even {k} devices compute for at least half of their time.',
          'one': 'Two devices already wait for more than half of their time.'}),
        over='k', rows=(1, 2, 4, 8, 16, 32, 64), drawn=('speedup',), log_y=True, ideal=True,
        presets={'LeNet': {'parameters': 0.12907, 'work': 0.0045007, 'messages': 1},
                 'ResNet-18': {'parameters': 11.172, 'work': 0.9116, 'messages': 3},
                 'one core of this machine': {
                     'speed': Measured('msr-pt-peak')},
                 'PCIe': {'bandwidth': 12, 'latency': 20},
                 '1 Gbit Ethernet': {'bandwidth': 0.125, 'latency': 100}})}
