"""Tests. Many of them start processes, which should not take long to start."""

import os
import sys

# The reader of notebooks imports it, if it is there, to check addresses in them; that takes two seconds.
sys.modules.setdefault('rfc3987_syntax', None)
# No test, and no notebook that tests run, reads or writes the guesses of whoever works here.
os.environ['TESTED_RESULTS_GUESSES'] = 'off'
