"""Two pages with three results, for tests of what text says and stores."""

from tested_results.claims import Claim


def ratio(value=6.02, **more):
    return Claim('a-b', 'ratio', 'holds', '×', above=1.0, value=value, low=0.9 * value, high=1.1 * value,
                 names=('slow', 'fast'), parts={'slow': 120.4e-6, 'fast': 0.02}, where={}, machine='',
                 **more)


def counted(value, unit=''):
    return Claim('a-b', 'count', 'holds', unit, above=1.0, value=value, where={}, machine='')


# The book -----------------------------------------------------------------------------------------

CELLS = ("d2l.compare('a-b', slow=f, fast=g, above=3)", "d2l.count('a-n', 15329, 'graphs')",
         "d2l.verify('a-so', True)")
GOOD = '''# One

It is [6.0× faster](#a-b), [20 ms](#a-b:fast),
[15,329 graphs](#a-n), [so](#a-so).
'''
RESULTS = {'a-b': ratio(), 'a-n': Claim('a-n', 'count', 'measured', 'graphs', value=15329.0, where={},
                                        machine=''),
           'a-so': Claim('a-so', 'fact', 'holds', where={}, machine='')}
