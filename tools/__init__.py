"""What builds and checks the book."""

import sys

# nbformat imports it, where it is installed, to check addresses in notebooks; that takes four seconds.
sys.modules.setdefault('rfc3987_syntax', None)
