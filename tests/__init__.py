"""Tests. Many of them start processes, which should not take long to start."""

import sys

# The reader of notebooks imports it, if it is there, to check addresses in them; that takes two seconds.
sys.modules.setdefault('rfc3987_syntax', None)
