"""The checkers of the exercises on one's own script: figures and words."""

from answer_checks.definitions import Part, numbers

STEP, LOADER = 40, 18           # ms
numbers('you-ex-w-bound',
        gone=Part(STEP / (STEP - LOADER), 'times faster at most, if only the loader changes',
                  'What is left of the step when the loader takes no time?',
                  'Divide the step as it is by what is left of it.'),
        half=Part(STEP / (STEP - LOADER / 2), 'times faster, if a batch is ready in half the time',
                  'How many ms of the loader are left then?', 'The other parts stay what they are.'),
        slips={
            'gone': {STEP / LOADER: 'That divides by what goes. Divide by what is left.'},
            'half': {
                STEP / (STEP - LOADER): 'That is with the whole loader gone.',
                STEP / (LOADER / 2): 'The other parts of the step are still there.',
            },
        })

OUTCOMES = "'faster', 'slower', 'no gain' or 'undecided'"
numbers('you-ex-w-outcomes',
        first=Part('faster', f'1.05 to 1.31: {OUTCOMES}',
                   'Does the whole interval lie on one side of one?', 'Compare its lower end with 1.02.'),
        second=Part('no gain', f'0.99 to 1.04: {OUTCOMES}',
                    'How much can there be to win, at most?',
                    'The table has a row for what is close to one.'),
        third=Part('undecided', f'0.91 to 1.20: {OUTCOMES}',
                   'Is there room for a gain, and for a loss?', 'What is none of the three others?'),
        fourth=Part('slower', f'0.62 to 0.94: {OUTCOMES}',
                    'On which side of one is the whole interval?', 'Look at its upper end.'),
        slips={
            'first': {
                'undecided': 'The whole interval lies above 1.02, wide as it is.',
                'no gain': 'Its upper end is far above 1.05.',
                'slower': 'A factor above one is a gain.',
            },
            'second': {
                'faster': 'Its lower end is below one.',
                'slower': 'A factor above one is a gain, and most of the interval lies above one.',
                'undecided': 'Whatever the factor is, it lies within 5% of one.',
            },
            'third': {
                'no gain': 'It has room for a gain of 20%.',
                'faster': 'It has room for a loss of 9%.',
                'slower': 'It has room for a gain of 20%.',
            },
            'fourth': {
                'faster': 'A factor below one is a loss.',
                'undecided': 'The whole interval lies below one, wide as it is.',
                'no gain': 'The whole interval lies well below one.',
            },
        })

FIRST_CALL, BEFORE, AFTER, STEPS = 9, 0.020, 0.015, 500     # s, s, s, steps of the training
numbers('you-ex-w-pays',
        steps=Part(FIRST_CALL / (BEFORE - AFTER), 'steps after which the compiler has paid for itself',
                   'What does one step save?',
                   'Divide what was paid by what a step saves. Mind the ms.'),
        lost=Part(FIRST_CALL - STEPS * (BEFORE - AFTER), 'seconds that it loses in 500 steps',
                  'How much do all those steps save together?', 'What was paid, less what was saved.'),
        slips={
            'steps': {
                FIRST_CALL / AFTER: 'That divides by what a step takes. Divide by what it saves.',
                FIRST_CALL / BEFORE: 'That divides by what a step took before. Divide by what it saves.',
            },
            'lost': {
                STEPS * (BEFORE - AFTER): 'That is what 500 steps save.',
                FIRST_CALL + STEPS * (BEFORE - AFTER): 'What is saved is to be taken from what was paid.',
                FIRST_CALL: 'In 500 steps a part of it comes back.',
            },
        })

numbers('you-ex-spot',
        lines=Part({'a', 'd', 'f', 'g'},
                   'the lines at fault, a set of a, b, c, d, e, f, g, h, i: letters',
                   'Ask of each line how often it runs, and what it keeps.',
                   'Once a step may be cheap, once an example hardly is. What is the default on a CPU?'))
