"""Right and wrong answers to the exercises on one's own script."""

FAULTS = {'a', 'd', 'f', 'g'}
ANSWERS = {
    'you-ex-w-bound': (dict(gone=40 / 22, half=40 / 31), [
        (dict(gone=40 / 18), 'What is left of the step'), (dict(half=40 / 22), 'left then'),
        (dict(gone=0.55), 'What is left of the step')]),
    'you-ex-w-outcomes': (dict(first='faster', second='no gain', third='undecided', fourth='slower'), [
        (dict(second='faster'), 'to win'), (dict(third='faster'), 'for a loss'),
        (dict(fourth='no gain'), 'side of')]),
    'you-ex-w-pays': (dict(steps=1800, lost=6.5), [
        (dict(steps=450), 'one step save'), (dict(lost=9), 'together'), (dict(lost=2.5), 'together')]),
    'you-ex-spot': (dict(lines=FAULTS), [
        (dict(lines={'a', 'd', 'g'}), 'how often'), (dict(lines={*FAULTS, 'b'}), 'how often'),
        (dict(lines={'d', 'x'}), 'none of the words')]),
}
